"""Each kernel compiles for the GPUs that kernels/README.md names, and says what it needs on the others."""

import re
from itertools import product

import pytest

from kernels import build
from kernels.build import Mode, inspection, occupancy
from kernels.catalog import KERNELS
from kernels.core.cases import sample
from kernels.core.request import Request
from kernels.errors import BackendUnavailable, BuildError, ProblemError
from kernels.measure.readme import GPUS, needed

IN_CI = ("sm_75", "sm_120")  # test_builds has sm_80 and sm_90a
TARGETS = [pytest.param(gpu, id=gpu.target, marks=() if gpu.target in IN_CI else pytest.mark.slow) for gpu in GPUS]


def request_for(spec, gpu):
    case = sample(spec)
    settings = spec.settings_for(case.problem, case.settings, gpu.shared_bytes_per_block)
    return Request(spec, case.problem, tuple(settings.items()))


@pytest.mark.parametrize("gpu", TARGETS)
@pytest.mark.parametrize(
    ("which", "modes"),
    [("family", (Mode.TIMED,)), pytest.param("name", (Mode.TIMED, Mode.PROBED), marks=pytest.mark.slow)],
    ids=("last of each family", "every kernel"),
)
def test_a_kernel_compiles_and_fits_on_the_gpus_of_the_table(gpu, which, modes):
    running = {getattr(spec, which): spec for spec in KERNELS.values() if not needed(spec, gpu)}
    for spec, mode in product(running.values(), modes):
        request = request_for(spec, gpu)
        try:
            held = occupancy.occupancy(spec, request.problem, request.settings, gpu.target, mode)
        except (BackendUnavailable, BuildError) as error:  # the installed packages may lack a linker for it
            assert spec.launches_children and "link" in str(error), error
            continue
        for one in held:
            assert one.blocks and not one.lacks(gpu.target), (spec.name, one)
            assert one.registers * one.threads <= occupancy.REGISTERS
            assert one.shared_bytes <= gpu.shared_bytes_per_block


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.target)
def test_every_other_kernel_says_what_it_needs_without_a_build(gpu, monkeypatch):
    monkeypatch.setattr(inspection, "build", lambda *args: pytest.fail("it was built"))
    refused = [spec for spec in KERNELS.values() if needed(spec, gpu)]
    for spec in refused:
        request = request_for(spec, gpu)
        with pytest.raises(ProblemError) as error:
            inspection.inspect(spec, request.problem, request.settings, gpu.target)
        assert str(error.value).startswith(f"{spec.name} needs {spec.requires} ") and spec.instructions
        said = f" for {spec.instructions}, and the chosen architecture is {gpu.target}. "
        assert str(error.value).endswith(f"{said}Choose another one, or another kernel.")
    assert bool(refused) == (gpu.target != "sm_90a")


@pytest.mark.parametrize("gpu", TARGETS)
def test_the_compiler_refuses_what_the_table_refuses(gpu):
    """A dependent launch compiles anywhere. There its wait is left out, so it would read too early."""
    refused = {spec.instructions: spec for spec in KERNELS.values() if needed(spec, gpu)}
    refused.pop("griddepcontrol", None)
    for spec in refused.values():
        with pytest.raises(BuildError):
            build.build(spec, request_for(spec, gpu).defines, Mode.TIMED, gpu.target)


@pytest.mark.parametrize("spec", [pytest.param(s, id=n) for n, s in KERNELS.items() if s.requires])
def test_the_instructions_of_requires_are_in_the_ptx(spec):
    gpu = next(gpu for gpu in GPUS if gpu.target == "sm_90a")
    lines = build.build(spec, request_for(spec, gpu).defines, Mode.TIMED, gpu.target).ptx_path.read_text().splitlines()
    for name in spec.instructions.split(" and "):
        parts = name.split(".")
        assert any(all(re.search(rf"\b{part}\b", line) for part in parts) for line in lines), name


def test_too_large_blocks_and_too_many_registers_are_named():
    spec = KERNELS["lab_columns"]
    problem = spec.problem_type(stride=700)
    said = "lab_columns needs 89,600 bytes of shared memory per block, and sm_75 allows 65,536."
    assert inspection.inspect(spec, problem, (), "sm_75")["cannot_run"] == [said]
    assert inspection.inspect(spec, problem, (), "sm_86")["cannot_run"] == []
    allowed = {"warps": 2, "blocks": 16, "registers": 0, "shared memory": 8}
    made = occupancy.Occupancy("k", 1024, 80, 0, 1, allowed, 0, 0, 0.0, "registers", 1.0)
    assert made.lacks("sm_75") == "80 registers for each of 1,024 threads, and an SM has 65,536"

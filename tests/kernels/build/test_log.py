"""What a compiler refuses is one line, with the line of the kernel and the remedy."""

import shutil

import pytest
from dropped import ONE_KERNEL

from kernels import build
from kernels.build import CPU, Mode
from kernels.catalog import KERNELS, load_kernel
from kernels.core.request import Request
from kernels.errors import BackendUnavailable, BuildError

TARGETS = [CPU, "sm_90a"]


def refusal(tmp_path, old, new, target, mode=Mode.PROBED):
    """(the refusal of one_kernel.cu with that text replaced once, the line of `new`)."""
    text = ONE_KERNEL.read_text()
    assert old in text
    path = tmp_path / "mine.cu"
    path.write_text(text.replace(old, new, 1))
    spec = load_kernel(path)
    try:
        with pytest.raises(BuildError) as refused:
            build.build(spec, Request(spec, spec.problem_type()).defines, mode, target)
    except BackendUnavailable as reason:
        pytest.skip(str(reason))
    at = text.index(old)
    return str(refused.value), text.count("\n", 0, at) + 1


@pytest.mark.parametrize("target", TARGETS)
def test_a_missing_begin_or_parameter_of_the_probes_and_an_error_are_told_with_the_kernels_line(tmp_path, target):
    said, _ = refusal(tmp_path, "PROBE_BEGIN();", "", target)
    first = next(n for n, line in enumerate(ONE_KERNEL.read_text().splitlines(), 1) if "  PROBE_MARK(" in line)
    assert said.startswith(f"mine.cu line {first}: a probe comes before PROBE_BEGIN()"), said
    said, _ = refusal(tmp_path, " PROBE_PARAM)", ")", target)
    assert said.startswith("mine.cu line ") and "PROBE_BEGIN() needs PROBE_PARAM" in said, said
    said, line = refusal(tmp_path, "PROBE_BEGIN();", "PROBE_BEGIN(); int x = ;", target)
    assert said.startswith(f"mine.cu line {line}: expected"), said


@pytest.mark.skipif(not shutil.which("g++"), reason="there is no g++")
@pytest.mark.parametrize("mode", [Mode.TIMED, Mode.PROBED])
def test_a_function_without_a_definition_is_told_with_its_line(tmp_path, mode):
    said, line = refusal(tmp_path, "expf(", "__expf(", CPU, mode)
    assert said.startswith(f"mine.cu line {line}: __expf has no definition on the CPU. Use a function"), said
    assert "\n" not in said


def test_an_instruction_of_a_later_gpu_is_told_with_that_gpu():
    spec = KERNELS["lab_access"]
    problem = spec.problem_type(op="cp_async")
    with pytest.raises(BuildError, match=r"lab_access.cu does not .*: It needs sm_80 or later for cp.async.$"):
        build.build(spec, Request(spec, problem).defines, Mode.TIMED, "sm_75")

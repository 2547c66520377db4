"""PTX and SASS, line by line, without a GPU; and the check that pinned widths are what the machine code does."""

from collections import Counter

import pytest
from conftest import usual_problem

from kernels.build import Mode, disassembly
from kernels.catalog import KERNELS
from kernels.core.spec import runs_on

SLOW = [pytest.param(arch, marks=pytest.mark.slow) for arch in ("sm_80", "sm_100a")]
LAST = {spec.family: name for name, spec in KERNELS.items()}.values()  # the longest of most families


@pytest.mark.parametrize("arch", ["sm_90a", *SLOW])
@pytest.mark.parametrize(
    "kernel",
    [pytest.param(spec, id=name, marks=[] if name in LAST else pytest.mark.slow) for name, spec in KERNELS.items()],
)
def test_every_kernel_has_its_machine_code_and_keeps_its_widths(kernel, arch):
    if kernel.requires and not runs_on(kernel.requires, arch):
        pytest.skip(f"{kernel.name} needs {kernel.requires}")
    problem = usual_problem(kernel)
    found = disassembly.listing(kernel, problem, (), Mode.TIMED, arch)
    plan = kernel.plan(problem)
    planned = {launch.entry for launch in plan.launches}
    assert planned <= {line.entry for line in found.sass} <= planned | {t.entry for t in kernel.launch_texts if t.when}
    lines = {name: len(text.splitlines()) for name, text in kernel.files}
    assert all(
        line.source is None or 1 <= line.source[1] <= lines[line.source[0]] for line in (*found.ptx, *found.sass)
    )
    assert sum(line.source is not None for line in found.sass) > 0.9 * len(found.sass)
    assert sum(sum(counts.values()) for counts in found.mix.values()) == len(found.sass)
    keeps_its_widths(kernel, Mode.TIMED, arch)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_builds_that_note_something_keep_their_widths(kernel):
    for mode in (Mode.PROBED, Mode.TIMELINE, Mode.MARKS):
        keeps_its_widths(kernel, mode, "sm_90a")


def keeps_its_widths(kernel, mode, arch):
    checks = disassembly.check_widths(kernel, usual_problem(kernel), (), mode, arch)
    assert any(not check.absent for check in checks)
    assert all(check.ok for check in checks), (mode, [check for check in checks if not check.ok])


def test_accesses_through_a_helper_or_a_header_keep_their_lines_and_modes_are_other_code():
    kernel = KERNELS["03_flash"]
    found, source = disassembly.listing(kernel, kernel.problem_type(), ()), kernel.source.splitlines()
    loads = [line for line in found.sass if line.source and "LDG" in line.text]
    count = Counter(
        (source[line.source[1] - 1].strip().split(" = ")[0], disassembly.opcode(line.text)) for line in loads
    )
    assert count["k4", "LDG.E.128"] == count["v4", "LDG.E.128"] > 1  # K and V are loaded side by side, equally often
    kernel = KERNELS["paged_v1"]
    found = disassembly.listing(kernel, kernel.problem_type(), ())
    files = Counter(line.source[0] for line in found.sass if line.source)
    assert len(files) >= 2 and "paged_v1.cu" in files and not set(files) & {"common.cuh", "ptx.cuh", "probe.cuh"}
    kernel = KERNELS["02_tiled"]
    sizes = [len(disassembly.listing(kernel, kernel.problem_type(), (), mode).sass) for mode in Mode]
    assert sizes[0] < sizes[2] < sizes[1]


def test_a_width_that_the_machine_code_has_not_is_found_and_a_removed_access_passes(variant):
    load = "PROBE_LOAD(K_smem, tx * (HEAD_DIM + PAD_K) + d, {});"
    wrong = variant("03_flash", load.format(16), load.format(4))
    checks = disassembly.check_widths(wrong, wrong.problem_type(), ())
    (missed,) = [check for check in checks if not check.ok]
    assert missed.wanted == "LDS" and set(missed.found) == {"LDS.128"}
    assert missed.file == "03_flash.cu" and "K_smem" in wrong.source.splitlines()[missed.line - 1]
    store = "stg<float>(&O_gmem[(head + row) * HEAD_DIM + dim], O_rmem[j] / l);"
    kernel = variant("03_flash", store, f"if (HEAD_DIM == 7) {store}")
    checks = disassembly.check_widths(kernel, kernel.problem_type(), ())
    assert any(check.wanted == "STG" and check.absent and not check.found for check in checks)
    assert all(check.ok for check in checks)


GENERIC_LOAD = 'float4 k4; asm volatile("ld.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(k4.x), "=f"(k4.y), "=f"(k4.z), '
GENERIC_LOAD += '"=f"(k4.w) : "l"(&K_smem[tx * (HEAD_DIM + PAD_K) + d]));'


@pytest.mark.parametrize(
    ("right", "wrong", "wanted", "found"),
    [
        ("const float4 k4 = lds<float4>(&K_smem[tx * (HEAD_DIM + PAD_K) + d]);", GENERIC_LOAD, "LDS.128", "LD"),
        ("stg<float>(&O_gmem[(head + row) * HEAD_DIM + dim], ", "sts<float>(&Q_smem[dim], ", "STG", "STS"),
    ],
)
def test_another_memory_opcode_in_the_place_of_the_wanted_one_fails(variant, right, wrong, wanted, found):
    kernel = variant("03_flash", right, wrong)
    checks = disassembly.check_widths(kernel, kernel.problem_type(), ())
    (missed,) = [check for check in checks if not check.ok]
    assert missed.wanted == wanted and missed.absent and {name.split(".")[0] for name in missed.found} == {found}

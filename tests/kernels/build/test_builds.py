"""Builds: of the text that was read, for every architecture, without a trace of the probes in the timed one."""

from dataclasses import replace

import pytest
from conftest import usual_problem

from kernels import build
from kernels.build import Mode, cpp, inspection, nvrtc
from kernels.build.sass import INSTRUCTION
from kernels.catalog import KERNELS, load_kernel
from kernels.core.request import Request
from kernels.core.spec import runs_on
from kernels.errors import BackendUnavailable, BuildError, ProblemError
from kernels.trace.probes import strip_probes

FLASH = KERNELS["03_flash"]
PROBLEM = usual_problem(FLASH)


def make(spec=FLASH, mode=Mode.TIMED, target="sm_90a"):
    return build.build(spec, Request(spec, usual_problem(spec)).defines, mode, target)


def instructions(built):
    return [text for _, text in INSTRUCTION.findall(build.sass(built.path))]


FIRST = ("03_flash", "lab_roles")
UNROLLED = ("lab_reads", "lab_tiles_bulk")  # ptxas unrolls their timed builds further
PROBE_HEADERS = ("probe.cuh", "children.cuh")  # they define probes


@pytest.mark.parametrize(
    "spec", [pytest.param(s, id=n, marks=() if n in FIRST else pytest.mark.slow) for n, s in KERNELS.items()]
)
def test_the_timed_build_holds_no_trace_of_the_probes(spec):
    bare = replace(
        spec, files=tuple((name, text if name in PROBE_HEADERS else strip_probes(text)) for name, text in spec.files)
    )
    timed, stripped, probed = map(instructions, (make(spec), make(bare), make(spec, Mode.PROBED)))
    assert timed == stripped != probed
    assert len(probed) > len(timed) or spec.name in UNROLLED


ON_AMPERE = {spec.family: spec for spec in KERNELS.values() if not spec.requires or runs_on(spec.requires, "sm_80")}
OTHERS = [spec for spec in KERNELS.values() if spec.family not in ("dense", "tensor_cores", "backward")]
TARGETS = [  # one family's kernels differ more from each other than two targets' builds of one kernel
    pytest.param("sm_90a", OTHERS, id="sm_90a"),  # families/test_ladder.py builds the rungs
    pytest.param("sm_80", ON_AMPERE.values(), id="sm_80-last of each family"),
    *(pytest.param(arch, KERNELS.values(), id=arch, marks=pytest.mark.slow) for arch in ("sm_80", "sm_100a")),
]


@pytest.mark.parametrize(("arch", "specs"), TARGETS)
def test_every_kernel_compiles_without_a_gpu(arch, specs):
    for spec in specs:
        if spec.requires and not runs_on(spec.requires, arch):
            continue  # test_architectures has their refusals
        facts = make(spec, target=arch).facts
        planned = {step.entry for step in spec.plan(usual_problem(spec)).launches}
        assert planned <= {f.entry for f in facts} <= planned | {text.entry for text in spec.launch_texts if text.when}
        # those of three bfloat16 are chosen for Hopper's registers: it alone may spill, and only elsewhere
        spilled = 32 if spec.tensor_products and arch == "sm_80" else 0
        if spec.name == "03_flash" and nvrtc.version() < (12, 9):
            spilled = 12  # its block of 1,024 threads, by this compiler only
        assert all(8 <= f.registers <= 255 and f.spill_bytes <= spilled for f in facts)


def test_inspection_gives_both_builds_nvrtc_writes_into_our_buffer_and_an_unknown_arch_is_refused():
    facts = inspection.inspect(FLASH, PROBLEM, ())
    timed, probed = facts["builds"]["timed"], facts["builds"]["probed"]
    assert timed["sass_bytes"] < probed["sass_bytes"] and timed["ptx_bytes"] < probed["ptx_bytes"]
    assert timed["sass_instructions"] == timed["sass_bytes"] / 16 == len(instructions(make()))
    assert timed["entries"][0]["shared_bytes"] == 4 * (16 * 64 + 2 * 16 * 64 + 16 * 16)
    toolchain = nvrtc.Toolchain("sm_90a")
    success, given = toolchain.nvrtc.nvrtcResult.NVRTC_SUCCESS, []
    for count in (0, 1, 2, 5):
        size, get = (lambda _, n=count: (success, n)), (lambda _, buffer: given.append(buffer) or (success,))
        assert len(nvrtc.read_bytes(toolchain.nvrtc, None, size, get)) == count
    assert all(buffer is not bytes(len(buffer)) and len(buffer) > 1 for buffer in given)
    with pytest.raises(ProblemError, match="arch is 'sm_1'.*sm_90a"):
        make(target="sm_1")


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_a_compile_error_names_our_file_and_line(target):
    (name, source), *headers = FLASH.files
    wrong = source.replace("const int tx = threadIdx.x", "const int tx = threadIdx.q", 1)
    broken = replace(FLASH, files=((name, wrong), *headers))
    line = 1 + source[: source.index("const int tx")].count("\n")
    with pytest.raises(BuildError, match=rf"^03_flash\.cu line {line}: "):
        make(broken, target=target)


def test_a_build_is_made_once_and_again_when_a_header_changes(monkeypatch, tmp_path):
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path / "cache"))
    first = make()
    made_at = first.path.stat().st_mtime_ns
    assert make().path.stat().st_mtime_ns == made_at
    changed = replace(FLASH, files=(*FLASH.files[:-1], (FLASH.files[-1][0], FLASH.files[-1][1] + "\n// changed\n")))
    assert make(changed).path != first.path


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_a_cu_edited_under_a_running_process_and_reverted_leaves_the_right_binary(
    variant, target, monkeypatch, tmp_path
):
    """The fault: the hash was of remembered text and the compiler read the disk, so that the edit was kept under the
    old text's name."""
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path / "cache"))
    spec = variant("03_flash", "scale * dot", "scale * dot")
    text = spec.path.read_text()
    spec.path.write_text(text.replace("scale * dot", "scale * dot * 2.f"))
    under_the_edit = make(spec, target=target).path.read_bytes()
    edit = make(load_kernel(spec.path), target=target)
    spec.path.write_text(text)
    reverted = make(load_kernel(spec.path), target=target)
    assert reverted.path.read_bytes() == under_the_edit != edit.path.read_bytes() and reverted.path != edit.path


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_a_harmed_cache_entry_is_built_again(target, monkeypatch, tmp_path):
    """test_cache has each harm."""
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path))
    made = make(target=target)
    good = made.path.read_bytes()
    made.path.write_bytes(good[: len(good) // 2])
    again = make(target=target)
    assert again.path == made.path and len(again.path.read_bytes()) == len(good)
    assert again.facts == made.facts and list(tmp_path.glob("making-*")) == []


def test_compiling_the_same_again_still_tells_registers_and_leaves_python_alone(monkeypatch, tmp_path):
    facts = []
    for cache in "ab":  # NVRTC 13 answers a second time from a cache of its own, without a log, unless told not to
        monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path / cache))
        facts.append(make().facts)
    assert facts[0] == facts[1] and facts[0][0].registers > 0
    assert bytes([32]) == b"\x20" and all(bytes([n])[0] == n for n in range(256))


def test_without_a_compiler_the_reason_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    cpp.cpp_compiler.cache_clear()
    try:
        with pytest.raises(BackendUnavailable, match=r"apt install g\+\+"):
            cpp.cpp_compiler()
    finally:
        cpp.cpp_compiler.cache_clear()


def test_a_linker_that_links_nothing_is_not_taken(tmp_path):
    """One that only tells its version: gold that does not find the compiler's libstdc++."""
    command, option = cpp.cpp_compiler(), "-fuse-ld=gold"
    if "g++" not in command[0]:
        pytest.skip(f"-B with a linker is asked of g++, and this is {command[0]}")
    linker = tmp_path / "ld.gold"
    linker.write_text('#!/bin/sh\ncase "$*" in *--version*) exit 0;; esac\nexit 1\n')
    linker.chmod(0o755)
    assert not cpp._links_with((*command, f"-B{tmp_path}/"), option)

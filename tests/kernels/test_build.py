from dataclasses import replace

import pytest

from kernels import build, inspection
from kernels.build import Mode
from kernels.catalog import KERNELS, defines
from kernels.errors import BackendUnavailable, BuildError, ProblemError
from kernels.probes import strip_probes
from kernels.problem import AttentionProblem

FLASH = KERNELS["03_flash"]
PROBLEM = AttentionProblem(head_dim=64)


def problem_of(spec):
    return PROBLEM if spec.problem_type is AttentionProblem else spec.problem_type()


def make(spec=FLASH, mode=Mode.TIMED, target="sm_90a"):
    return build.build(spec, defines(problem_of(spec), spec.settings()), mode, target)


@pytest.mark.parametrize("spec", KERNELS.values(), ids=KERNELS)
def test_the_timed_build_holds_no_trace_of_the_probes(spec, tmp_path):
    bare = replace(spec, folder=tmp_path)
    bare.path.write_text(strip_probes(spec.source))
    timed, stripped, probed = (build.instructions(build.sass(b.path)) for b in (make(spec), make(bare), make(spec, Mode.PROBED)))
    assert timed == stripped
    assert len(probed) > len(timed)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_every_kernel_compiles_without_a_gpu(arch):
    for spec in KERNELS.values():
        facts = make(spec, target=arch).facts
        assert {f.entry for f in facts} == {step.entry for step in spec.plan(problem_of(spec), spec.settings()).launches}
        spilled = 32 if (spec.name, arch) == ("04_flash_registers", "sm_80") else 0  # whose tiles are chosen for Hopper's registers
        assert all(8 <= f.registers <= 255 and f.spill_bytes <= spilled for f in facts)


def test_inspection_gives_both_builds():
    facts = inspection.inspect(FLASH, PROBLEM, ())
    timed, probed = facts["builds"]["timed"], facts["builds"]["probed"]
    assert timed["sass_bytes"] < probed["sass_bytes"] and timed["ptx_bytes"] < probed["ptx_bytes"]
    assert timed["entries"][0]["shared_bytes"] == 4 * (16 * 64 + 2 * 16 * 64 + 16 * 16)


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_a_compile_error_names_our_file_and_line(variant, target):
    broken = variant("03_flash", "const int tx = threadIdx.x", "const int tx = threadIdx.q")
    line = 1 + FLASH.source[:FLASH.source.index("const int tx")].count("\n")
    with pytest.raises(BuildError, match=rf"^03_flash\.cu line {line}: "):
        make(broken, target=target)


def test_a_build_is_made_once_and_again_when_a_header_changes(variant, monkeypatch, tmp_path):
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path / "cache"))
    spec = variant("03_flash", "#pragma", "#pragma") if "#pragma" in FLASH.source else variant("03_flash", "#include", "#include")
    first = make(spec)
    made_at = first.path.stat().st_mtime_ns
    assert make(spec).path.stat().st_mtime_ns == made_at
    header = spec.folder / "common.cuh"
    header.write_text(header.read_text() + "\n// changed\n")
    assert make(spec).path != first.path


def test_compiling_the_same_again_still_tells_registers_and_leaves_python_alone(monkeypatch, tmp_path):
    facts = []
    for cache in ("a", "b"):  # NVRTC 13 answers a second time from a cache of its own, without a log, unless told not to
        monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path / cache))
        facts.append(make().facts)
    assert facts[0] == facts[1] and facts[0][0].registers > 0
    assert bytes([32]) == b"\x20" and all(bytes([n])[0] == n for n in range(256))


def test_what_nvrtc_writes_goes_into_a_buffer_of_our_own():
    toolchain = build._Nvrtc("sm_90a")
    success, given = toolchain.nvrtc.nvrtcResult.NVRTC_SUCCESS, []
    for count in (0, 1, 2, 5):
        assert len(toolchain._bytes(None, lambda _, n=count: (success, n), lambda _, buffer: given.append(buffer) or (success,))) == count
    assert all(buffer is not bytes(len(buffer)) and len(buffer) > 1 for buffer in given)


def test_an_unknown_architecture_is_refused_with_the_known_ones():
    with pytest.raises(ProblemError, match="arch is 'sm_1'.*sm_90a"):
        make(target="sm_1")


def test_without_a_compiler_the_reason_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    build.cpp_compiler.cache_clear()
    try:
        with pytest.raises(BackendUnavailable, match=r"apt install g\+\+"):
            build.cpp_compiler()
    finally:
        build.cpp_compiler.cache_clear()

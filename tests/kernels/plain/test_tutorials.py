"""Twelve tutorial kernels in twelve styles: the unchanged text runs, is right, and logs its accesses."""

import re
from pathlib import Path

import pytest

from kernels.build import Mode, build, nvrtc
from kernels.build.builds import own_defines
from kernels.catalog import load_kernel
from kernels.core.cases import sample
from kernels.core.problem import Case
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.run import execute
from kernels.run.check import check_case

TUTORIALS = sorted((Path(__file__).parent / "tutorials").glob("*.cu"))


def _request(path):
    kernel = load_kernel(path)
    shown = sample(kernel)
    short = {"seq_len": min(shown.problem.seq_len, 48)} if hasattr(shown.problem, "seq_len") else {}
    return Request(
        kernel, shown.problem.with_fields(**short), tuple(kernel.settings(shown.settings).items()), Scope(), "cpu"
    )


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_passes_the_check_logs_its_accesses_and_compiles_for_a_gpu(path):
    request = _request(path)
    verdicts = check_case(request.kernel, Case(request.problem, request.settings), "cpu")
    assert len(verdicts) == 2
    assert all(v.ok and not v.faults for v in verdicts), [(v.message, v.faults, v.errors) for v in verdicts]
    trace = execute.run(request).trace
    frame = trace.frame("file", "line", "event", "space", "tensor", "offset", "bytes")
    accesses = frame[frame.space.notna()]
    assert {"load", "store"} <= set(accesses.event)
    assert not trace.lost
    text = path.read_text().splitlines()
    for line in accesses.line.unique():
        assert not text[line - 1].lstrip().startswith("//") and text[line - 1].strip()
    built = build(request.kernel, request.defines, Mode.TIMED, "sm_90a")
    assert {fact.entry for fact in built.facts} == {step.entry for step in request.plan.launches}


@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_the_ptx_of_the_timed_build_is_that_of_the_given_text(path, tmp_path, monkeypatch):
    request = _request(path)
    kernel = request.kernel
    edit = _without_launches if any("<<<" in text for _, text in kernel.files) else str
    monkeypatch.setattr(nvrtc, "device_texts", lambda files, _: [(name, edit(text)) for name, text in files])
    toolchain = nvrtc.Toolchain("sm_90a", plain=True)
    defines = own_defines(kernel, request.defines)
    toolchain.compile(kernel, [*(f"-D{name}={v}" for name, v in sorted(defines.items())), *toolchain.options], tmp_path)
    monkeypatch.undo()
    built = build(kernel, request.defines, Mode.TIMED, "sm_90a")
    assert _instructions(built.ptx_path) == _instructions(tmp_path / f"{kernel.name}.ptx")


def _instructions(ptx):
    """The PTX without names for debuggers. NVRTC writes its process's number into the names of a file's own parts."""
    lines = (line for line in ptx.read_text().splitlines() if not line.startswith(".b8"))
    return [re.sub(r"_cu_[0-9a-f]{8}_\d+", "_cu_", line) for line in lines]


def _without_launches(text):
    """The text up to its first function of the host, which NVRTC does not know. Later lines are blank."""
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if re.match(r"(void|int|static void) \w+\(", line))
    return "\n".join(lines[:first]) + "\n"


def test_a_changed_text_for_nvrtc_is_a_new_build(monkeypatch):
    request = _request(TUTORIALS[0])
    one = build(request.kernel, request.defines, Mode.TIMED, "sm_90a").path
    texts = nvrtc.headers()
    assert {name for name, _ in texts} == {"always.h", "cub.h", "cuda_h.h", "whole.h"}
    monkeypatch.setattr(nvrtc, "headers", lambda: tuple((name, f"{text}// changed\n") for name, text in texts))
    assert build(request.kernel, request.defines, Mode.TIMED, "sm_90a").path != one


def test_an_empty_cuda_home_names_no_folder_of_ours(tmp_path, monkeypatch):
    (tmp_path / "include").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_HOME", "")
    assert "--include-path=include" not in nvrtc.include_options.__wrapped__()

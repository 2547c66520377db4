"""python -m kernels, as a script would call it."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest

from kernels.__main__ import main
from kernels.build import Mode
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.errors import RunTimeout
from kernels.families.lab.patterns import RolesProblem
from kernels.run import execute, workers
from kernels.run.backends import cpu
from kernels.run.workers import limit_or
from kernels.trace.trace import Trace


def kernels(*args, code=0):
    """What `python -m kernels` prints, called here: a process of its own takes two seconds to import."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        ended = main(list(args))
    assert ended == code, out.getvalue() + err.getvalue()
    return (err if code else out).getvalue()


@pytest.fixture(scope="module")
def listed():
    return json.loads(kernels("list", "--json"))


def test_list_names_every_kernel_with_its_fields_and_backends(listed):
    assert [k["name"] for k in listed["kernels"]] == list(KERNELS)
    added = {"tensors", "launches", "requires", "code_hash"}
    for kernel in listed["kernels"]:
        assert {"name", "title", "idea", "family", "source", "file", "problem", "constants", "backends"} | added <= set(
            kernel
        )
        assert "cpu" in kernel["backends"]
        assert all({"name", "shape", "dtype", "axes", "role", "initial"} <= set(tensor) for tensor in kernel["tensors"])
        assert all({"entry", "item"} <= set(launch) for launch in kernel["launches"])
        if KERNELS[kernel["name"]].problem_type is KERNELS["01_naive"].problem_type:
            assert kernel["problem"]["head_dim"] == {
                "default": 32,
                "meaning": "numbers per query, key and value",
                "allowed": [32, 64, 128],
            }


def test_run_writes_trace_and_arrays(tmp_path):
    trace, arrays = tmp_path / "t.parquet", tmp_path / "a.npz"
    settings = "--set seq_len=33 --set causal=true --set BLOCK_Q=8 --scope all"
    command = f"run 02_tiled --backend cpu {settings} --trace {trace} --arrays {arrays} --json"
    facts = json.loads(kernels(*command.split()))
    kept = "kernel backend provenance device compiler date problem settings scope max_abs_error baseline_max_abs_error"
    assert {*kept.split(), "correct", "records", "lost", "errors", "worst_output", "code_hash"} <= set(facts)
    assert set(facts["errors"]) == {facts["worst_output"]} == {"o"}
    error = facts["errors"]["o"]
    assert (
        error["largest"] == facts["max_abs_error"] <= error["allowed"]
        and error["yardstick"] == facts["baseline_max_abs_error"]
    )
    assert facts["correct"] is error["ok"] is True
    assert (facts["kernel"], facts["provenance"], facts["problem"]["seq_len"], facts["lost"]) == (
        "02_tiled",
        "executed",
        33,
        0,
    )
    assert Trace.load(trace).table.num_rows == facts["records"]
    held = np.load(arrays)
    assert {name: held[name].shape for name in "qkvo"} == dict.fromkeys("qkvo", (1, 2, 33, 32))


def test_a_scope_names_a_range_of_items():
    facts = json.loads(kernels("run", "01_naive", "--backend", "cpu", "--scope", "2:3", "--json"))
    assert (facts["scope"]["first"], facts["scope"]["count"]) == (2, 3)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run 03_flash --set seq_len=0", "seq_len is 0. It must be"),
        ("run 03_flash --set colour=red", "no field or constant 'colour'"),
        ("run 03_flash --set seq_len", "FIELD=VALUE"),
        ("run flash", "no kernel 'flash'. There are 01_naive"),
        ("run 03_flash --backend tpu", "backend is 'tpu'"),
        ("run 03_flash --scope all:2", "--scope is 'all:2'"),
        ("run 03_flash --scope page=0", "scope names 'page'. This run has items of the kind query tile"),
        ("run /nowhere/mine.cu", "/nowhere/mine.cu cannot be read"),
        ("run 03_flash --set seq_len=16384 --backend cpu", "would take about"),
        ("run 03_flash --trace /nowhere/x.parquet --backend cpu", "cannot write /nowhere/x.parquet"),
        ("inspect 03_flash --arch sm_1", "arch is 'sm_1'"),
        ("check --every 0", "--every is 0"),
        ("run paged_v1 --set context_lens=40,0", "context_lens[1] is 0. It must be a whole number from 1"),
        (
            "run paged_v1 --set context_lens=40 --set block_tables=3,7",
            "Sequence 0 has context length 40, which needs 3 pages of 16 slots",
        ),
        ("run paged_v1 --set context_lens=20,20 --set block_tables=3,7;7,1", "which did not fork from one another"),
        ("run paged_v2 --set num_heads=6 --set num_kv_heads=4", "num_heads must be a multiple of num_kv_heads"),
        ("run paged_v2 --set PARTITION=100", "PARTITION is 100. It must be one of 32"),
        ("run paged_v1 --set dtype=int8", "dtype is int8. It must be one of float32, float16"),
        ("run paged_v1 --scope 12", "scope is query heads 12 to 12. This run has query heads 0 to 11"),
        ("run paged_v1 --set context_lens=60000 --backend cpu", "bytes of shared memory per block"),
        ("run reshape_and_cache --set slots=3,3", "Tokens 0 and 1 both have slot 3"),
        ("frobnicate", "invalid choice"),
    ],
)
def test_bad_usage_exits_2_with_the_value_and_the_remedy(command, message, capsys):
    try:
        code = main(command.split())
    except SystemExit as ended:  # so argparse ends
        code = ended.code
    assert code == 2 and message in capsys.readouterr().err


@pytest.fixture
def no_gpu(listed):
    if "gpu" in listed["devices"]:
        pytest.skip("there is a GPU")


def test_check_passes_and_inspect_reports_both_builds():
    assert "all agree" in kernels("check", "03_flash", "--backend", "cpu", "--every", "20")
    found = json.loads(kernels("check", "01_naive", "--backend", "cpu", "--every", "40", "--json"))
    (row,) = found["summary"]
    assert found["ok"] and row["kernel"] == "01_naive" and row["missed"] == 0
    assert row["worst_ratio"] > 0 and 0 < row["worst_share"] <= 1
    old = {"kernel", "build", "problem", "settings", "max_abs_error", "baseline_max_abs_error", "ok", "message"}
    assert all(old | {"errors", "worst_output"} <= set(verdict) for verdict in found["verdicts"])
    facts = json.loads(kernels("inspect", "01_naive", "--arch", "sm_80", "--json"))
    assert set(facts["builds"]) == {"timed", "probed"} and [
        e["entry"] for e in facts["builds"]["timed"]["entries"]
    ] == ["scores", "softmax", "output"]


def test_what_has_no_recording_is_listed_without_a_gpu_and_is_no_failure(tmp_path):
    (tmp_path / "mine.cu").write_text(KERNELS["lab_fma"].source.replace("PROBE_BEGIN();", "PROBE_BEGIN(); ;"))
    (line,) = kernels("record", "--missing", str(tmp_path / "mine.cu")).splitlines()
    assert line.startswith("mine has no recording of its present code of FmaProblem(")
    kernels("record", "--missing")


@pytest.mark.parametrize(
    "command",
    ["run 03_flash --backend gpu", "record", "calibrate", "counters", "counters --occupancy", "measure hierarchy"],
)
def test_what_needs_a_gpu_says_so_and_exits_3(command, no_gpu):
    assert "No GPU was found" in kernels(*command.split(), code=3)


ENDLESS = """
  for (int tile = 0; tile < tiles; tile += 0) {
    PROBE_MARK(tile_begin, tile);
    S_smem[0] = 1.f;
  }
"""


def test_an_endless_loop_stops_at_the_limit_with_its_line(small_kernel):
    request = Request(small_kernel(ENDLESS), RolesProblem(), backend="cpu")
    execute.prepare(request, Mode.PROBED)
    with pytest.raises(RunTimeout, match=r"time limit is over\..*after small.cu:\d+ \(the last probe: PROBE_MARK"):
        cpu.limited(0.3, execute.run, request)
    right = small_kernel(ENDLESS.replace("tile += 0", "tile += 1"))
    cpu.limited(60, execute.run, Request(right, RolesProblem(), backend="cpu"))


def test_an_alarm_before_the_launch_listens_ends_no_process():
    """The alarm of a launch whose time is over comes before the library has its handler."""
    text = """
import time
from types import SimpleNamespace
from kernels.run.backends import calls, cpu

def launch(request, args):
    time.sleep(0.1)
    return 0

step = SimpleNamespace(grid=(1, 1, 1), block=(1, 1, 1), shared_bytes=0, entry="it")
run = cpu.Run(None, calls.Own())
run.add(step, [], {}, False)
cpu.limited(0.01, run.make_with, {"launch_it": launch})
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done


@pytest.mark.parametrize("text", ["abc", "", "0", "nan"])
def test_a_time_limit_that_is_no_number_is_refused_in_a_sentence(monkeypatch, text):
    monkeypatch.setenv("WARPGLASS_TIME_LIMIT", text)
    said = f"WARPGLASS_TIME_LIMIT is {text!r}. It must be a number of seconds above 0."
    assert limit_or(60.0) == (60.0, said)
    monkeypatch.setattr(workers, "_limit_fault", said)
    assert main(["run", "03_flash", "--backend", "cpu"]) == 2


def test_the_time_limit_is_that_of_the_environment(monkeypatch):
    monkeypatch.setenv("WARPGLASS_TIME_LIMIT", "2.5")
    assert limit_or(60.0) == (2.5, "")
    monkeypatch.delenv("WARPGLASS_TIME_LIMIT")
    assert limit_or(60.0) == (60.0, "")


def test_run_exits_with_1_if_the_output_is_wrong(capsys):
    command = ["run", "03_flash", "--backend", "cpu", "--set", "RESCALE=0", "--json"]
    assert main(command) == 1
    assert json.loads(capsys.readouterr().out)["correct"] is False


def test_run_says_the_requests_their_worst_line_and_the_bytes():
    columns = kernels("run", "lab_columns", "--backend", "cpu")
    assert "right: o is off by 0 " in columns
    assert "64 requests of warps, 1,056 wavefronts, at best 64\n" in columns
    assert "lab_columns.cu line 82 (load X): 32 a request, at best 1" in columns
    assert "bytes, global load: X 4,096" in columns
    padded = kernels("run", "lab_columns", "--backend", "cpu", "--set", "PAD=1")
    assert "64 wavefronts, at best 64\n" in padded
    strided = kernels("run", "lab_global", "--backend", "cpu", "--set", "layout=strided")
    assert "lab_global.cu line 47 (load X): 32 a request, 12% of their bytes used" in strided


def test_recorded_times_need_no_gpu():
    times = json.loads(kernels("bench", "11_overlap", "--recorded", "--peers", "--set", "seq_len=4096", "--json"))
    assert times and all(report["provenance"]["device"] for report in times)
    for report in times:
        assert {row["seq_len"] for row in report["rows"]} == {4096}
        assert {"11_overlap", "sdpa_cudnn"} <= {row["name"] for row in report["rows"]}
    said = kernels("bench", "11_overlap", "--recorded", "--set", "seq_len=77", code=2)
    assert "Recorded are: seq_len 512, 1024" in said
    pipeline = kernels("timeline", "11_overlap", "--recorded")
    assert pipeline.startswith("recorded on 20") and "softmax" in pipeline
    assert "No pipeline of 11_overlap" in kernels("timeline", "11_overlap", "--recorded", "--set", "seq_len=77", code=2)
    assert "--recorded prints the times of real GPUs." in kernels("bench", "11_overlap", code=3)

"""python -m kernels, as a script would call it."""

import json
import subprocess
import sys

import numpy as np
import pytest

from kernels.catalog import KERNELS
from kernels.trace import Trace

pytestmark = pytest.mark.xdist_group("cli")


def kernels(*args, code=0):
    done = subprocess.run([sys.executable, "-m", "kernels", *args], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def test_list_names_every_kernel_with_its_fields_and_backends():
    found = json.loads(kernels("list", "--json"))
    assert [k["name"] for k in found["kernels"]] == list(KERNELS)
    for kernel in found["kernels"]:
        assert {"name", "title", "idea", "family", "source", "problem", "backends"} <= set(kernel)
        assert "cpu" in kernel["backends"]
        if kernel["family"] == "attention":
            assert kernel["problem"]["head_dim"] == {"default": 32, "meaning": "numbers per query, key and value", "allowed": [32, 64, 128]}


def test_run_writes_trace_and_arrays(tmp_path):
    trace, arrays = tmp_path / "t.parquet", tmp_path / "a.npz"
    facts = json.loads(kernels("run", "02_tiled", "--backend", "cpu", "--set", "seq_len=33", "--set", "causal=true", "--set", "BLOCK_Q=8", "--scope", "all",
                               "--trace", str(trace), "--arrays", str(arrays), "--json"))
    assert {"kernel", "backend", "provenance", "device", "problem", "max_abs_error", "baseline_max_abs_error", "records", "lost"} <= set(facts)
    assert (facts["kernel"], facts["provenance"], facts["problem"]["seq_len"], facts["lost"]) == ("02_tiled", "executed", 33, 0)
    assert facts["max_abs_error"] <= 2 * facts["baseline_max_abs_error"]
    assert Trace.load(trace).table.num_rows == facts["records"]
    held = np.load(arrays)
    assert {name: held[name].shape for name in "qkvo"} == dict.fromkeys("qkvo", (1, 2, 33, 32))


@pytest.mark.parametrize(("args", "message"), [
    (("run", "03_flash", "--set", "seq_len=0"), "seq_len is 0; it must be"),
    (("run", "03_flash", "--set", "colour=red"), "no field or constant 'colour'"),
    (("run", "03_flash", "--set", "seq_len"), "FIELD=VALUE"),
    (("run", "flash"), "no kernel 'flash'; there are 01_naive"),
    (("run", "03_flash", "--backend", "tpu"), "backend is 'tpu'"),
    (("run", "03_flash", "--scope", "all:2"), "--scope is 'all:2'"),
    (("run", "03_flash", "--set", "seq_len=16384", "--backend", "cpu"), "would take about"),
    (("run", "03_flash", "--trace", "/nowhere/x.parquet", "--backend", "cpu"), "cannot write /nowhere/x.parquet"),
    (("inspect", "03_flash", "--arch", "sm_1"), "arch is 'sm_1'"),
    (("check", "--every", "0"), "--every is 0"),
    (("run", "paged_v1", "--set", "context_lens=40,0"), "context_lens[1] is 0; it must be a whole number from 1"),
    (("run", "paged_v1", "--set", "context_lens=40", "--set", "block_tables=3,7"), "Sequence 0 has context length 40, which needs 3 pages of 16 slots"),
    (("run", "paged_v1", "--set", "context_lens=20,20", "--set", "block_tables=3,7;7,1"), "which did not fork from one another"),
    (("run", "paged_v2", "--set", "num_heads=6", "--set", "num_kv_heads=4"), "num_heads must be a multiple of num_kv_heads"),
    (("run", "paged_v2", "--set", "PARTITION=100"), "PARTITION is 100; it must be one of 32"),
    (("run", "paged_v1", "--set", "dtype=int8"), "dtype is int8; it must be one of float32, float16"),
    (("run", "paged_v1", "--scope", "12"), "scope is query heads 12 to 12; this run has query heads 0 to 11"),
    (("run", "paged_v1", "--set", "context_lens=60000", "--backend", "cpu"), "bytes of shared memory per block"),
    (("run", "reshape_and_cache", "--set", "slots=3,3"), "Tokens 0 and 1 both have slot 3"),
    (("frobnicate",), "invalid choice"),
])
def test_bad_usage_exits_2_with_the_value_and_the_remedy(args, message):
    assert message in kernels(*args, code=2)


def test_no_gpu_exits_3():
    if "gpu" in json.loads(kernels("list", "--json"))["devices"]:
        pytest.skip("there is a GPU")
    assert "No GPU was found" in kernels("run", "03_flash", "--backend", "gpu", code=3)
    assert "No GPU was found" in kernels("record", code=3)


def test_check_passes_and_inspect_reports_both_builds():
    assert "0 missed" in kernels("check", "03_flash", "--backend", "cpu", "--every", "20")
    facts = json.loads(kernels("inspect", "01_naive", "--arch", "sm_80", "--json"))
    assert set(facts["builds"]) == {"timed", "probed"} and [e["entry"] for e in facts["builds"]["timed"]["entries"]] == ["scores", "softmax", "output"]


@pytest.mark.parametrize("command", [["calibrate"], ["counters"], ["counters", "--occupancy"], ["measure", "hierarchy"]])
def test_what_needs_a_gpu_says_so_and_exits_3(command):
    if "gpu" in json.loads(kernels("list", "--json"))["devices"]:
        pytest.skip("this machine has a GPU")
    said = kernels(*command, code=3)
    assert "No GPU was found" in said

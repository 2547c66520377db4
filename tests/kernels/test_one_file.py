"""A kernel is one file, a family is one folder: dropped where nothing knows them, they are checked, run, inspected and
listed.

The steps are those of kernels/first-kernel.md. What is dropped lies in tests/dropped.
"""

import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from dropped import ODD_FAMILY, ONE_KERNEL, conditional_kernel, skeleton_kernel

from kernels import __main__ as command_line
from kernels import catalog, families
from kernels.core.remembered import recordings_changed
from kernels.run import backends, workers
from kernels.trace.trace import Trace

ROOT = Path(__file__).parents[2]
BACKENDS = ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)]


def script(*args, folders="", code=0, out=False):
    """What `python -m kernels` prints, of a failure its complaint unless `out`. folders: WARPGLASS_KERNELS."""
    done = subprocess.run(
        [sys.executable, "-m", "kernels", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
        env={**os.environ, "WARPGLASS_KERNELS": str(folders)},
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 or out else done.stderr


@pytest.fixture
def kernels(monkeypatch):
    """kernels(...) -> what script(...) returns, with the command and its tasks in this process: starting a process, a
    fork server and its workers takes 5 seconds of a core. `script` asks the same of a kernel and of a family."""

    def submit(function, *args, title, backend, time_limit=60.0):
        job = workers.Job(title, time_limit)
        try:
            job.set_result(function(*args))
        except Exception as error:
            job.set_exception(error)
        return job

    def call(*args, folders="", code=0, out=False):
        monkeypatch.setattr(families, "__path__", [ours, *([str(folders)] if folders else [])])
        monkeypatch.setattr(catalog, "_last", None)
        printed, complaint = io.StringIO(), io.StringIO()
        with redirect_stdout(printed), redirect_stderr(complaint):
            ended = command_line.main([str(arg) for arg in args])
        assert ended == code, printed.getvalue() + complaint.getvalue()
        return (printed if code == 0 or out else complaint).getvalue()

    ours, known = list(families.__path__)[0], set(sys.modules)
    monkeypatch.setattr(workers, "submit", submit)
    monkeypatch.setattr(workers, "stop", lambda: None)
    monkeypatch.setattr(workers, "survey", lambda: backends.survey(("cpu", "recorded")))
    yield call
    monkeypatch.undo()
    for name in set(sys.modules) - known:
        if name.startswith(families.__name__ + "."):
            del sys.modules[name]  # of a dropped folder
    recordings_changed()


@pytest.fixture
def kernel(tmp_path):
    return Path(shutil.copy(ONE_KERNEL, tmp_path / "mine.cu"))


@pytest.fixture
def family(tmp_path):
    """A folder that holds a family that nothing knows, and nothing else."""
    shutil.copytree(ODD_FAMILY, tmp_path / "odd_family", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


# ---- one file ----


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_kernel_in_no_catalogue_is_checked_and_run(kernel, backend, kernels):
    called = script if backend == "gpu" else kernels
    assert "mine: 4 of 73 problems tried, all agree" in called("check", kernel, "--backend", backend, "--every", 19)
    facts = json.loads(
        called(
            "run", kernel, "--backend", backend, "--scope", "all", "--trace", kernel.with_name("t.parquet"), "--json"
        )
    )
    assert (facts["kernel"], facts["backend"], facts["correct"], facts["lost"]) == ("mine", backend, True, 0)
    assert set(Trace.load(kernel.with_name("t.parquet")).table["file"].to_pylist()) == {"mine.cu"}


def test_a_kernel_in_no_catalogue_is_inspected_and_listed_in_a_folder_that_is_named(kernel, kernels):
    facts = json.loads(kernels("inspect", kernel, "--json"))
    assert facts["kernel"] == "mine"
    assert all(made["entries"][0]["registers"] > 0 for made in facts["builds"].values())
    listed = json.loads(kernels("list", "--json", folders=kernel.parent))["kernels"]
    assert {"mine", "03_flash"} <= {entry["name"] for entry in listed}
    assert "mine: 2 of 73 problems tried, all agree" in kernels(
        "check", "mine", "--backend", "cpu", "--every", 40, folders=kernel.parent
    )


@pytest.mark.gpu
def test_a_kernel_in_no_catalogue_is_timed(kernel):
    said = json.loads(script("bench", kernel, "--set", "seq_len=256", "--json"))
    assert [row["status"] for row in said["rows"]] == ["ok"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_readmes_way_to_add_a_kernel_is_true_when_it_is_followed_literally(tmp_path, backend, kernels):
    path, called = skeleton_kernel(tmp_path), script if backend == "gpu" else kernels
    facts = json.loads(
        called("run", path, "--backend", backend, "--arrays", tmp_path / "a.npz", "--json", code=1, out=True)
    )
    held = np.load(tmp_path / "a.npz")
    assert np.allclose(held["o"], held["v"] / np.sqrt(np.float32(held["v"].shape[-1]))) and facts["records"] > 0
    assert facts["correct"] is False  # it is no attention, as its own limits say
    checked = json.loads(called("check", path, "--backend", backend, "--every", "40", "--json", code=1, out=True))
    (row,) = checked["summary"]  # both builds of every problem are wrong, and nothing else happens
    assert row["kernel"] == "scaled_copy" and row["missed"] == 2 * row["problems"] > 0
    assert json.loads(called("inspect", path, "--json"))["kernel"] == "scaled_copy"


@pytest.mark.parametrize("must", ["not causal", "causal"])
def test_a_kernel_that_refuses_standard_problems_is_listed_and_the_others_too(tmp_path, must, kernels):
    conditional_kernel(tmp_path, must)
    (tmp_path / "bad.cu").write_text("/* title = 3 */")
    listed = json.loads(kernels("list", "--json", folders=tmp_path))["kernels"]
    assert {"not_causal", "03_flash"} <= {entry["name"] for entry in listed}
    assert "not_causal has no recording" in kernels("record", "not_causal", "--missing", folders=tmp_path)
    said = kernels("check", "bad", folders=tmp_path, code=2)
    assert "bad has a fault: bad.cu: title is 3. It must be a text in quotes" in said


def test_a_check_counts_the_refused_problems_and_takes_values_for_all(tmp_path, kernels):
    path = conditional_kernel(tmp_path)
    some = ("check", path, "--backend", "cpu", "--set", "head_dim=32", "--set", "seq_len=20", "--set", "BLOCK_Q=8")
    said = json.loads(kernels(*some, "--every", "30", "--json", code=1, out=True))
    (row,) = said["summary"]
    assert row["problems"] > 0 and row["refused"]["It must be that not causal."] > 0
    assert {(v["problem"]["seq_len"], next(iter(v["settings"].items()))) for v in said["verdicts"]} == {
        (20, ("BLOCK_Q", 8))
    }
    said = kernels("check", path, "--backend", "cpu", "--set", "causal=true", code=1, out=True)
    assert "refused: It must be that not causal." in said and "not_causal.cu: all" in said
    assert "has no field or constant 'BLOCK'" in kernels("check", path, "--set", "BLOCK=8", code=2)


def test_a_compile_error_is_shown_once_and_a_mistake_in_one_line_with_file_key_and_remedy(kernel, kernels, capsys):
    kernel.write_text(kernel.read_text().replace("PROBE_BEGIN();", ""))
    said = kernels("check", kernel, "--backend", "cpu", "--every", "25", code=1, out=True)
    assert said.count("a probe comes before PROBE_BEGIN()") == 1, said
    assert "(2 more problems with this message)" in said, said
    # core/test_frontmatter.py has every mistake.
    kernel.write_text(kernel.read_text().replace('title = "One of mine"', "title = 3"))
    assert command_line.main(["run", str(kernel), "--backend", "cpu"]) == command_line.USAGE
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("FrontMatterError: mine.cu") and "title is 3. It must be a text in quotes" in line, line


# ---- one folder ----


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_family_with_a_tensor_a_type_and_a_value_that_nothing_knows_is_checked_and_run(family, backend, kernels):
    called = script if backend == "gpu" else kernels
    assert "odd: 3 of 3 problems tried, all agree, in both builds" in script(
        "check", "odd", "--backend", backend, folders=family
    )
    trace, arrays = family / "t.parquet", family / "a.npz"
    files = ("--trace", trace, "--arrays", arrays)
    facts = json.loads(called("run", "odd", "--backend", backend, "--scope", "all", *files, "--json", folders=family))
    assert facts["correct"] and set(facts["errors"]) == {"glow", "light"} and facts["worst_output"] in facts["errors"]
    reading = (
        "import numpy, sys; held = numpy.load(sys.argv[1]); assert not [m for m in sys.modules if 'ml_dtypes' in m];"
        "print({name: (str(held[name].dtype), held[name].shape) for name in held})"
    )
    plain = subprocess.run([sys.executable, "-c", reading, arrays], capture_output=True, text=True, check=True).stdout
    assert "'glow': ('float32', (3, 40))" in plain and "'light': ('float32', (3,))" in plain
    frame = Trace.load(trace).frame()
    shine, held = frame[frame.event == "shine"], np.load(arrays)
    assert np.array_equal(shine.value, held["glow"][shine["plot"].astype(int), shine["sample"].astype(int)])


def test_a_family_that_nothing_knows_is_listed_and_inspected(family, kernels):
    listed = {entry["name"]: entry for entry in json.loads(kernels("list", "--json", folders=family))["kernels"]}
    tensors = {tensor["name"]: tensor for tensor in listed["odd"]["tensors"]}
    assert tensors["sun"]["dtype"] == "bfloat16" and tensors["sun"]["axes"] == ["plot", "sample"]
    assert tensors["light"]["initial"] == "zero" and listed["odd"]["launches"] == [{"entry": "odd", "item": "plot"}]
    facts = json.loads(kernels("inspect", family / "odd_family" / "odd.cu", "--json", folders=family))
    assert facts["kernel"] == "odd"


def test_a_scope_names_the_items_of_a_new_family_and_one_that_is_not_there_is_told(family, kernels):
    facts = json.loads(
        kernels("run", "odd", "--backend", "cpu", "--scope", "plot=1:2", "--set", "samples=8", "--json", folders=family)
    )
    assert (facts["scope"]["first"], facts["scope"]["count"], facts["problem"]["samples"]) == (1, 2, 8)
    assert "This run has plots 0 to 2" in kernels(
        "run", "odd", "--backend", "cpu", "--scope", "3", folders=family, code=2
    )
    said = kernels("run", family / "odd_family" / "odd.cu", code=2)
    assert "odd.cu: family is 'odd_family'. There are" in said

"""run: a kernel in a notebook, with its table, its counts and its pictures, and the guide notebook.ipynb."""

import ast
import doctest
import json
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import warpglass
from kernels.errors import BackendUnavailable, CannotRun, ProblemError
from kernels.run.backends import Survey
from warpglass import notebook

ROOT = Path(__file__).parents[1]
GUIDE = json.loads((ROOT / "notebook.ipynb").read_text())
TUTORIAL = ROOT / "tests" / "kernels" / "plain" / "tutorials" / "t01_static_shared.cu"


@pytest.fixture(scope="module")
def run():
    return warpglass.run("03_flash", backend="cpu", seq_len=64)


def test_the_examples_of_the_docstrings_run():
    found = doctest.testmod(notebook)
    assert found.attempted == 19 and not found.failed


def test_the_guide_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names, shown = {}, []
    for cell in (cell for cell in GUIDE["cells"] if cell["cell_type"] == "code"):
        *body, last = ast.parse("".join(cell["source"])).body
        exec(compile(ast.Module(body, []), "notebook.ipynb", "exec"), names)
        if isinstance(last, ast.Expr):
            shown.append(eval(compile(ast.Expression(last.value), "notebook.ipynb", "eval"), names))
        else:
            exec(compile(ast.Module([last], []), "notebook.ipynb", "exec"), names)
    assert names["error"] < 1e-5 and names["worst"].tensor.tolist() == ["K"]
    assert names["changed"].difference.max() < 0  # fewer wavefronts and conflicts, and nothing more
    assert (np.diff(names["maxima"].to_numpy(), axis=1) >= 0).all()
    assert [one.counts["conflicts"] for one in names["turned"]] == [992, 0]
    assert not any(np.isnan(one.outputs["y"]).any() for one in names["turned"])
    assert [one for one in shown if hasattr(one, "save")] == [names["story"], shown[-1]]
    assert "largest difference from torch" in capsys.readouterr().out


def test_the_guide_is_a_notebook_without_outputs():
    assert (GUIDE["nbformat"], GUIDE["nbformat_minor"]) == (4, 5) and 8 <= len(GUIDE["cells"]) <= 10
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in GUIDE["cells"] if "outputs" in cell)
    assert len({cell["id"] for cell in GUIDE["cells"]}) == len(GUIDE["cells"])


def test_a_run_counts_as_counts_does_and_says_so(run):
    table = warpglass.counts("03_flash", seq_len=64)
    assert run.by_line().equals(table.drop(columns="seq_len"))
    assert run.counts["sectors"] == table.sectors.sum() and run.counts["bytes"] == table.bytes_used.sum()
    said = repr(run)
    assert "03_flash at seq_len 64" in said and f"{run.counts['conflicts']:,} conflicts" in said


def test_a_difference_pairs_lines_of_two_versions_and_keeps_those_of_one(tmp_path):
    text = TUTORIAL.read_text()
    before, after = tmp_path / "a.cu", tmp_path / "b.cu"
    before.write_text(text)
    after.write_text(text.replace("__global__", "// a new line\n__global__", 1))
    one, two = (warpglass.run(str(path), backend="cpu") for path in (before, after))
    rows = one.diff(two)
    lines = rows[rows.kind != "output"]
    assert len(lines) and (lines.other_line == lines.line + 1).all() and not lines.difference.any()
    assert rows[rows.kind == "output"].difference.tolist() == [0]


def test_a_difference_of_two_kernels_and_of_two_sizes(run):
    rows = run.diff(warpglass.run("02_tiled", backend="cpu", seq_len=64))
    alone = rows[(rows.file == "02_tiled.cu")]
    assert len(alone) and alone.line.isna().all() and not alone.this.any() and (alone.other > 0).all()
    totals = rows[rows["count"] == "conflicts"][["this", "other"]].sum()
    assert totals.this == run.counts["conflicts"]
    outputs = run.diff(warpglass.run("03_flash", backend="cpu", seq_len=32)).query("kind == 'output'")
    assert outputs.difference.isna().all() and (outputs[["this", "other"]] > 0).all().all()


def test_a_story_is_of_this_run_and_is_saved(run, tmp_path):
    story = run.story("any_kernel", step=2)
    assert story.save(tmp_path / "x.html").read_text() == story.html and '"step": 1' in story.html
    assert "<iframe srcdoc=" in story._repr_html_() and 'sandbox="allow-scripts"' in story._repr_html_()
    own = warpglass.run(str(TUTORIAL), backend="cpu").story("any_kernel")  # of no catalogue
    assert "Any kernel" in repr(own)


def test_a_viewer_without_frames_and_scripts_shows_the_step_in_words(run):
    shown = run.story("online_softmax", step=3)._repr_html_()
    said = re.sub(r"<iframe .*</iframe>", "", shown)
    assert "<p>Step 3 of 25. Tile 0 · Rescale: Nothing came before this tile" in said
    assert "<tr><td>03_flash.cu:104</td><td>const float rescale = RESCALE ? expf(m - m_new) : 1.f;</td></tr>" in said
    maximum = run.frame().query("event == 'm' and row == 6 and tile == 0").value.iloc[0]
    assert f"<tr><td>running max m</td><td>{maximum:.6g}</td></tr>" in said
    assert "trust the notebook" in said and "<script" not in said


def test_a_live_story_without_its_package_says_what_to_install(run, monkeypatch):
    monkeypatch.setattr(notebook, "find_spec", lambda name: None if name == "anywidget" else find_spec(name))
    with pytest.raises(CannotRun, match="pip install anywidget"):
        run.story("online_softmax").live()


def test_a_live_story_begins_at_its_step_with_nothing_pinned(run):
    pytest.importorskip("anywidget", reason="A live story needs anywidget, an extra. Run: pip install anywidget")
    story = run.story("online_softmax", step=3)
    view = story.live()
    assert (view.html, view.step, view.pinned) == (story.html, 3, {})
    view.step = 7
    assert view.get_state(["step"]) == {"step": 7}


@pytest.mark.parametrize(
    ("path", "given", "said"),
    [
        ("nothing", {}, "is no page with a picture"),
        ("sparsity", {}, "kernel is '03_flash'"),
        ("online_softmax", {"step": 0}, "step is '0'"),
        ("online_softmax", {"nothing": 1}, "nothing is not a choice"),
    ],
)
def test_a_page_that_cannot_show_a_run_is_a_sentence(run, path, given, said):
    with pytest.raises(ProblemError, match=said):
        run.story(path, **given)


def test_a_page_with_other_values_than_the_runs_is_refused():
    run = warpglass.run("paged_v1", backend="cpu", context_lens=[40, 5], block_tables=[[3, 0, 7], [2]])
    with pytest.raises(ProblemError, match="Paging cannot show these values"):
        run.story("block_table")


def test_a_wrong_field_and_a_missing_gpu_are_sentences(monkeypatch):
    with pytest.raises(ProblemError, match="no field or constant 'PAD_Q'"):
        warpglass.run("03_flash", backend="cpu", PAD_Q=1)
    monkeypatch.setattr(notebook.workers, "survey", lambda: Survey({}, {"gpu": "No GPU was found."}))
    with pytest.raises(BackendUnavailable, match="No GPU"):
        warpglass.run("03_flash", backend="gpu")

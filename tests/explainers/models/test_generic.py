"""The generic view: every kernel of the catalogue, and what no other view knows."""

import json

import numpy as np
import pytest
from conftest import one_of_each_kind, small_tiles
from dropped import ONE_KERNEL, odd_kernel

from explainers.models import generic
from explainers.stories.any_kernel import story as any_kernel
from explainers.stories.any_kernel.story import STORY, stage_of
from explainers.story import encoding, stage
from explainers.story.glossary import PHASES
from kernels.catalog import KERNELS, current, load_kernel
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.run import execute
from kernels.trace import steps
from kernels.trace.probes import sites_of


def check(run, story):
    sites, frame = sites_of(run.request), run.trace.frame()
    cut = steps.cut(run.trace, sites)
    json.dumps(story.frames), json.dumps(generic.view(story)[0])
    assert len(story.frames) == len(cut.table)
    assert {t["name"] for t in story.tensors} <= {t.name for t in run.request.plan.tensors}
    valued = run.trace.table["value"].is_valid().to_numpy()  # a value may be NaN
    frame = frame.assign(step=cut.of_record, valued=valued)[cut.of_record >= 0]
    names = run.request.kernel.tensor_of_symbol
    for number, made in enumerate(story.frames):
        part = frame[frame.step == number]
        assert made["sentence"].endswith(".") and any(c.isdigit() for c in made["sentence"])
        moved = part[part.space == "global"].groupby("tensor", observed=True).bytes.sum()
        told = {}
        for touched in made["touched"]:
            told[touched["tensor"]] = told.get(touched["tensor"], 0) + touched["bytes"]
        boxes = {names[symbol] for symbol in part[part.event == "tma"].tensor}  # of which some lies beyond the tensor
        plan = run.request.plan  # a bulk copy does not say which elements it brings
        moved = moved[[names[s] not in boxes or plan.has_map(plan.tensor(names[s])) for s in moved.index]]
        assert set(told) == {names[symbol] for symbol, size in moved.items() if size}
        for symbol, size in moved.items():
            there = told.get(names[symbol], 0)
            assert 0 < there <= size if names[symbol] in boxes else there == size
        logged = part[part.valued].groupby("event", observed=True).value
        assert {one["event"]: one["count"] for one in made["logged"]} == logged.size()[logged.size() > 0].to_dict()
        for one in made["logged"]:
            values = part[part.valued & (part.event == one["event"])].value
            finite = values[np.isfinite(values)]
            assert (one["low"], one["high"]) == ((finite.min(), finite.max()) if len(finite) else (None, None))
            assert (one["nan"], one["inf"]) == (np.isnan(values).sum(), np.isinf(values).sum())
            assert not one["nan"] or f"{one['nan']:,} NaN" in made["sentence"]
    strip = {state.name: state.values for state in generic.states(story)}
    for kind, name in (("load", "reads"), ("store", "writes")):
        moved = [sum(t["bytes"] for t in f["touched"] if t["kind"] == kind) for f in story.frames]
        assert strip[name] == moved


@pytest.mark.parametrize("name", one_of_each_kind([name for name, spec in KERNELS.items() if not spec.repeats]))
def test_every_kernel_of_the_catalogue_can_be_shown(cpu_run, name):
    run = cpu_run(name)
    assert STORY.accepts(run.request.kernel)
    story = generic.explain(run)
    check(run, story)
    given = {name for launch in run.request.plan.launches for name in launch.tensors}
    assert {shown["name"] for shown in story.tensors} == given  # a problem may have more than a kernel takes
    for number, shown in enumerate(story.tensors):
        column, tensor = story.columns[f"tensor_{number}"], run.request.plan.tensor(shown["name"])
        assert len(column) == (shown["rows"] * shown["cols"] if shown["whole"] else 0)
        assert shown["rows"] <= generic.MOST_SHOWN >= shown["cols"]
        assert (shown["dtype"], shown["axes"]) == (tensor.dtype, list(tensor.axes))
        assert (shown["row_axis"], shown["col_axis"]) == ("", *tensor.axes)[-2:]
    for number, shown in enumerate(story.values):
        steps_, cells, values = (story.columns[f"value_{number}{end}"] for end in ("_step", "_cell", ""))
        assert len(steps_) == len(cells) == len(values) == shown["count"] - shown["left_out"]
        assert (np.diff(steps_) >= 0).all() and (cells < shown["rows"] * shown["cols"]).all() and (cells >= 0).all()
        assert shown["row0"] >= 0 and shown["rows"] <= generic.MOST_SHOWN >= shown["cols"]


def test_the_values_of_a_matrix_are_those_logged_under_its_keys(cpu_run):
    run = cpu_run("03_flash")
    story = generic.explain(run)
    number, score = next((n, v) for n, v in enumerate(story.values) if v["event"] == "score")
    assert (score["row_key"], score["col_key"]) == ("row", "col") and score["keys"] == ["row", "col"]
    matrix = np.full(score["rows"] * score["cols"], np.nan, np.float32)
    matrix[story.columns[f"value_{number}_cell"].astype(int)] = story.columns[f"value_{number}"]
    rows, q, k = slice(score["row0"], score["row0"] + score["rows"]), run.arrays["q"][0, 0], run.arrays["k"][0, 0]
    true = q[rows].astype(float) @ k.astype(float).T * run.request.problem.scale
    assert np.allclose(matrix.reshape(score["rows"], score["cols"]), true, atol=1e-5)
    o = next(v for v in story.values if v["event"] == "o")
    assert (o["row_key"], o["col_key"], o["slice"]) == ("tile", "dim", f"row {rows.start}")
    assert o["left_out"] == o["count"] * 15 // 16
    frames = {n: f for n, f in enumerate(story.frames) if f["phase"] == "scores"}
    assert set(story.columns[f"value_{number}_step"]) == set(frames)
    assert all(f["logged"][0]["event"] == "score" for f in frames.values())


def test_a_tensor_is_shown_in_the_slice_and_at_the_elements_that_the_run_touched(cpu_run):
    last = Scope(2 * 20 + 19)  # the last tile of head 2
    run = cpu_run("03_flash", DenseProblem(seq_len=320, num_heads=3), small_tiles("03_flash"), last)
    story = generic.explain(run)
    q = next(t for t in story.tensors if t["name"] == "q")
    assert (q["slice"], q["row0"], q["rows"], q["of_rows"]) == ("head 2", 64, 256, 320)
    column = story.columns[f"tensor_{story.tensors.index(q)}"].reshape(256, 32)
    assert np.array_equal(column, run.arrays["q"][0, 2, 64:])
    load = next(f for f in story.frames if f["phase"] == "load_q")["touched"][0]
    assert load["rect"] == [304, 319, 0, 31] and load["cells"] is None and load["elsewhere"] == 0
    outside = story.frames[1]["touched"]  # of K the first tile: K is shown from its first row on
    assert {t["tensor"]: t["rect"] for t in outside} == {"k": [0, 15, 0, 31], "v": [0, 15, 0, 31]}


def test_scattered_cells_are_runs_other_slices_are_elsewhere_and_each_role_has_steps(cpu_run):
    run = cpu_run("lab_global", KERNELS["lab_global"].problem_type("strided", 4, stride=8))
    story = generic.explain(run)
    first = story.frames[0]["touched"][0]
    assert first["cells"] == [[8 * lane, 0, 0] for lane in range(32)] and first["rect"] == [0, 248, 0, 0]
    walk = generic.explain(cpu_run("paged_v1"))
    cache = [t for f in walk.frames for t in f["touched"] if t["tensor"] == "k_cache"]
    assert cache and sum(t["elsewhere"] for t in cache) > 0 and any(t["rect"] for t in cache)
    story = generic.explain(cpu_run("lab_roles"))
    working = [f for f in story.frames if f["role"]]
    assert len({f["role"] for f in working}) == 2
    assert all(f["role"] in f["title"] and f["role"] in f["sentence"] for f in working)


def test_a_kernel_without_marks_has_a_step_for_each_block(variant):
    spec = variant("lab_global", "    PROBE_MARK(walk, step);\n", "")
    (spec.path).write_text(spec.source.replace("  PROBE_MARK(write, steps);\n", ""))
    spec = load_kernel(spec.path)
    story = generic.explain(execute.run(Request(spec, spec.problem_type())))
    (frame,) = story.frames
    assert frame["title"] == "run" and frame["lines"]
    assert frame["sentence"].startswith("Block 0, run: reads X (1,024 bytes)")


def test_a_kernel_that_a_user_brings_and_a_family_that_nothing_knows(monkeypatch):
    spec = load_kernel(ONE_KERNEL)
    run = execute.run(Request(spec, spec.problem_type()))
    check(run, generic.explain(run))
    spec = odd_kernel(monkeypatch)
    run = execute.run(Request(spec, spec.problem_type()))
    story = generic.explain(run)
    check(run, story)
    unknown = [f for f in story.frames if f["phase"] not in PHASES]
    assert all(f["phase"].replace("_", " ") in f["title"] for f in unknown)


def test_nan_and_infinity_are_counted_and_named(cpu_run):
    settings = tuple({**dict(small_tiles("03_flash")), "SUBTRACT_MAX": 0}.items())
    run = cpu_run("03_flash", DenseProblem(score_scale=64.0), settings)
    story = generic.explain(run)
    check(run, story)
    named = [f["sentence"] for f in story.frames if any(one["inf"] or one["nan"] for one in f["logged"])]
    assert named and all("infinite" in said or "NaN" in said for said in named)
    assert any("infinite" in said or "NaN" in said for said in generic.states(story)[-1].values)
    made = stage_of(run, stage.provenance(run))
    table = made.tabs[0].blocks[0]
    odd = {row[0]: row[-1] for row in table["rows"]}
    assert odd["q"] == "none" and ("NaN" in odd["o"] or "infinite" in odd["o"])
    encoding.decode(encoding.encode(made))


# ---- the page of a watched call ----


def call(**fields):
    kernel = current().kernels["06_mma"]
    problem = SixteenBitProblem(**fields)
    return Request(kernel, problem, tuple(kernel.settings_for(problem).items()))


def test_a_large_call_names_its_fastest_rung_with_its_share_of_the_roof_and_a_small_one_has_no_near_time():
    request = call(seq_len=4096, head_dim=128, num_heads=16)
    first, *rest = any_kernel.rungs(request)
    assert first.us and all(rung.us is None or rung.us >= first.us for rung in rest)
    said = any_kernel.fastest(request)
    assert said.startswith(f"{first.name} is the fastest rung for this call: about ") and " % of the " in said
    shown = any_kernel.call_tab(request, None)
    assert said in [block.get("text") for block in shown]
    size = 4 * request.problem.tensors()[0].nbytes + 4 * 16 * 4096
    assert f"{size / 2**20:,.1f} MiB" in any_kernel.moved(request)
    request = call(seq_len=20)
    assert any_kernel.fastest(request) == "" and all(rung.us is None for rung in any_kernel.rungs(request))
    assert any_kernel.WORDS.say("no_time", {}) in [block.get("text") for block in any_kernel.call_tab(request, None)]

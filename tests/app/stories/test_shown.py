"""What pages say, without a browser: figures, warnings and refusals of single links. That every story shows every
kernel whole is tested by test_stories.py."""

import re
from dataclasses import replace

import pandas as pd
import pytest
from pages import open_page, page_of, words

from app.measured import measuring
from app.stories import start
from explainers.stories.timing import sweeps as timed_sweeps
from kernels.catalog import KERNELS
from kernels.errors import BuildError, WorkerDied
from kernels.measure import bench
from kernels.recordings import tables
from kernels.run import execute, workers

SMALL = (("BLOCK_Q", 16), ("BLOCK_KV", 16))


def state(page):
    return {entry["name"]: entry["values"] for entry in page.stage.state}


def said(link, tab):
    return words(open_page(link).tab(tab))


@pytest.mark.parametrize(
    ("link", "said", "tone"),
    [
        ("what_if=RESCALE", "No rescaling: after the max rises, .* The output o is off by up to [0-9.]+[.] ", "bad"),
        ("what_if=SUBTRACT_MAX&score_scale=100", "No max subtraction: .* The output holds NaN or infinity.", "bad"),
        ("what_if=SUBTRACT_MAX", "No max subtraction: .* On this problem the output is right all the same.", "info"),
        ("", "", "info"),
    ],
)
def test_why_tiles_says_what_a_what_if_does_to_the_output(link, said, tone):
    stage = open_page(f"tiling?kernel=03_flash&backend=cpu&{link}").stage
    assert re.fullmatch(f"{said}.*", stage.summary) and stage.tone == tone


# ---- where it comes from ----


def test_the_start_page_says_where_runs_go_and_why_not_elsewhere():
    text = words(open_page("start").stage.side)
    survey = workers.survey()
    assert all(device.name in text for device in survey.devices.values())
    assert all(reason.rstrip(".") in text for reason in survey.reasons.values())


def test_the_ladder_says_which_builds_its_bytes_and_its_times_are_of(monkeypatch):
    spec = KERNELS["08b_three_bfloat16"]
    columns = {"name": [spec.name], "status": ["ok"], "own_settings": [True], "problem": ["a"], "l2": ["cold"]}
    columns |= {"seq_len": [16384], "batch": [1], "num_heads": [8], "head_dim": [64], "dtype": ["float32"]}
    columns |= {
        "causal": [False],
        "median_us": [9497.0],
        "settings": ["BLOCK_Q=128 BLOCK_KV=64 KEY_GROUPS=1 PAD=8 RESCALE=1"],
    }
    where = tables.Provenance("A GPU", "", "2026-11-22", "", codes={spec.name: spec.code_hash})
    monkeypatch.setattr(tables, "recorded", lambda kind: {"a": (pd.DataFrame(columns), where)})
    (made,) = start.spine(open_page("start?backend=cpu").asked.subject)
    rung = next(r for r in made["rungs"] if r["name"] == spec.name)
    assert rung["us_tokens"] == 16384 and rung["bytes_tokens"] == 64
    assert rung["us_build"] == "BLOCK_Q 128, BLOCK_KV 64, KEY_GROUPS 1, PAD 8" and rung["bytes_build"].startswith(
        "BLOCK_Q 64,"
    )
    assert made["label"] == "executed" and "(the CPU). Q, K and V are 1 x 2 x 64 x 32." in made["about"]
    assert "The times are of another problem" in made["about"] and "16384 queries and keys of 64" in made["about"]


def test_the_provenance_names_the_worst_output_and_what_it_is_allowed():
    shown = open_page("tiling?backend=cpu").stage.provenance
    assert shown["label"] == "executed" and "executed on" in shown["said"] and not shown["warnings"]
    assert "largest error against float64" in shown["said"] and "(o), torch's own" in shown["said"]
    assert ", allowed " in shown["said"] and "records" in shown["said"]


@pytest.mark.usefixtures("fresh")
def test_a_run_that_misses_float64_is_not_to_be_trusted_and_a_whatif_is_broken_on_purpose(monkeypatch):
    assert not open_page("tiling?kernel=03_flash&what_if=RESCALE&backend=cpu").stage.provenance["warnings"]
    monkeypatch.setattr(execute, "yardstick", lambda request: dict.fromkeys(("o",), 1e-12))
    real = execute.judge
    monkeypatch.setattr(execute, "judge", lambda *asked: tuple(replace(e, allowed=1e-12) for e in real(*asked)))
    (warning,) = open_page("tiling?kernel=03_flash&backend=cpu&seed=5").stage.provenance["warnings"]
    assert "The output o misses float64" in warning and "Do not trust this run" in warning


def test_a_recorded_run_says_the_gpu_and_the_date_and_what_is_not_recorded(recordings):
    recordings("03_flash", settings=SMALL)
    page = open_page("tiling?kernel=03_flash&backend=recorded")
    assert page.stage.provenance["label"] == "recorded"
    assert "recorded on NVIDIA Test, 2026-01-02" in page.stage.provenance["said"]
    assert "01_naive is not compared. No recording of 01_naive" in words(page.tab("bytes"))


def test_the_block_table_is_shown_from_recordings_and_what_is_lacking_is_refused(recordings):
    page = open_page("block_table?view=walk&scenario=two_chats&backend=cpu")
    (request,) = {r for r in _requests(page.asked.subject) if r.kernel.name == "paged_v1"}
    recordings("paged_v1", request.problem, request.settings)
    shown = open_page("block_table?view=walk&scenario=two_chats&backend=recorded")
    assert "recorded on NVIDIA Test" in shown.stage.provenance["said"] and len(shown.stage.frames) == len(
        page.stage.frames
    )
    with pytest.raises(Exception, match="No recording of paged_v1 has this code, this problem and these constants"):
        open_page("block_table?view=walk&scenario=churn&backend=recorded").stage  # noqa: B018


def _requests(what):
    from app.web import asking

    return asking.requests_in(what)


def test_recordings_can_be_compared(recordings):
    for kernel in ("03_flash", "08b_three_bfloat16"):
        recordings(kernel, settings=SMALL)
    page = open_page("compare?backend=recorded&a=03_flash&b=08b_three_bfloat16")
    assert page.stage.provenance["label"] == "recorded" and {"recorded_problem"} <= set(page.choices)


@pytest.mark.usefixtures("fresh")
def test_one_kernels_fault_in_the_comparison_is_said_and_is_not_the_pages(monkeypatch):
    real = execute.traffic

    def traffic(request):
        if request.kernel.name == "02_tiled":
            raise WorkerDied("It died. Look.")
        return real(request)

    monkeypatch.setattr(execute, "traffic", traffic)
    text = said("tiling?backend=cpu&seed=43", "bytes")
    assert "02_tiled is not compared. It died." in text and "Naive" in text


# ---- online softmax, block table ----


def test_a_whatif_build_is_told_where_it_goes_wrong():
    page = open_page("online_softmax?kernel=03_flash&what_if=RESCALE&backend=cpu")
    assert page.stage.tone == "bad" and "goes wrong at step 9" in page.stage.summary
    wrong = [n for n, frame in enumerate(page.stage.frames, 1) if frame["wrong"]]
    assert wrong[0] == 9 and state(page)["this row"][-1] == "wrong since step 9"


def test_a_shuffle_is_told_to_give_the_same_output():
    tab = open_page("block_table?view=walk&scenario=churn&shuffle=1&backend=cpu").tab("shuffle")
    assert "the same output, bit for bit" in words(tab)
    (table,) = (block for block in tab if block["kind"] == "table")
    assert [row[-1] for row in table["rows"]] == ["yes"] * 3


def test_another_scenario_begins_at_its_end_as_it_was_allocated():
    page = open_page("block_table?backend=cpu&scenario=two_chats&moment=2&shuffle=3", change=("scenario", "churn"))
    assert (page.asked.link["moment"], page.asked.link["shuffle"]) == ("12", "0")


# ---- the memories ----


def test_the_hierarchy_says_whose_figures_it_shows():
    page = open_page("memory_hierarchy")
    text = " ".join([page.stage.provenance["said"], words(page.tab("levels"))])
    assert "Recorded on NVIDIA H100" in text and "a load and its address take" in text  # the newest


def test_occupancy_says_what_limits_each_launch():
    page = open_page("occupancy?kernel=paged_v2&arch=sm_75")
    assert {frame["tile"] for frame in page.stage.frames} == {0, 1} and state(page)["limited by"]
    assert "driver's own figure" in words(page.tab("labels"))
    timeline = open_page("occupancy?view=timeline&backend=cpu")
    assert "SMs" in timeline.stage.summary


@pytest.mark.parametrize(
    "params", ["", "kernel=paged_v1&build=probed&arch=sm_80", "kernel=lab_access&op=ldmatrix&width=16&arch=sm_100a"]
)
def test_the_source_page_compiles_without_a_gpu(params):
    assert "accesses of this build have the width of their source line" in said(f"source?{params}", "widths")


def test_the_source_page_asks_only_what_a_build_depends_on():
    names = set(open_page("source?kernel=03_flash").choices)
    assert {"head_dim", "BLOCK_Q", "RESCALE"} <= names and not {"seq_len", "seed", "causal"} & names


def test_the_source_page_says_what_an_architecture_cannot():
    with pytest.raises(BuildError, match="It needs sm_80 or later for cp.async"):
        open_page("source?kernel=lab_access&op=cp_async&arch=sm_75").stage  # noqa: B018


# ---- timing and compare ----


def test_the_timing_page_shows_what_is_recorded_and_by_how_much_it_is_faster(times):
    page = open_page("timing")
    assert "NVIDIA Test" in page.stage.provenance["said"] and "as fast as" in words(page.tab("figures"))
    other = open_page("timing?baseline=01_naive")
    assert "as long as 01_naive" in words(other.tab("figures")) and not other.asked.told and not other.stage.told


def test_the_timing_page_says_that_nothing_is_recorded(times):
    tables.path_of(bench.KIND, "NVIDIA Test").unlink()
    page = open_page("timing")
    assert "No times are recorded" in " ".join([page.asked.error, page.stage.summary if page.stage else ""])


def test_every_recorded_sweep_can_be_looked_at(times):
    found = timed_sweeps.known((), measuring.times()).sweeps
    assert len(found) == 2
    for sweep in found:
        page = open_page(f"timing?sweep={sweep}")
        assert page.stage.frames and not page.stage.told and not page.asked.told


@pytest.mark.parametrize(
    "choice",
    [
        "a=01_naive&b=02_tiled",
        "a=08b_three_bfloat16&b=08b_three_bfloat16&b_PAD=0",
        "a=03_flash&b=03_flash&b_RESCALE=0",
        "a=paged_v1&b=paged_v2",
    ],
)
def test_compare_shows_both_sides_on_one_clock(choice):
    page = open_page(f"compare?backend=cpu&{choice}")
    assert not page.asked.error and not page.asked.told
    assert [code["side"] for code in page.stage.codes] == [0, 1] and {v["side"] for v in page.stage.views} == {0, 1}
    assert all(len(frame["sentences"]) == 2 for frame in page.stage.frames)
    assert "float64" in words(page.tab("outputs"))
    if "RESCALE" in choice:
        text = " ".join([page.stage.summary, words(page.tab("outputs"))])
        assert page.stage.tone == "bad" and "broken on purpose" in text and "agree" not in text


def test_compare_says_the_times_of_both(times):
    page = open_page("compare?backend=cpu&a=03_flash&b=08b_three_bfloat16")
    assert "as fast as" in page.stage.summary or "times" in page.stage.summary
    assert "NVIDIA Test" in words(page.tab("verdict"))


# ---- any kernel ----


def test_every_kernel_that_marks_its_steps_is_on_the_page_of_any_kernel():
    shown = {name: spec for name, spec in KERNELS.items() if not spec.repeats}
    marked = {name for name, spec in shown.items() if "PROBE_MARK" in "".join(text for _, text in spec.files)}
    assert marked <= set(page_of("any_kernel").kernels)

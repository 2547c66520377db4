"""Launches: bars, gaps, steps and questions from the times of two runs, and the bytes of a run on the CPU."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from explainers.stories.launches import story
from explainers.stories.launches.host_code import host_code
from explainers.stories.launches.runs import after_calls, as_they_go
from explainers.story.questions import MOST
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.streams import steps
from kernels.measure import launch_times
from kernels.measure.launch_times import LaunchTimes
from kernels.measure.load import Sustained
from kernels.run import execute


def made(name: str, gap: int, length: int = 1000, host_ns: float = 9.0) -> LaunchTimes:
    """One run of a kernel: steps of `length` ns, each `gap` ns after the one before."""
    request = next(r for r in launch_times.RECORDINGS.asked() if r.kernel.name == name)
    count = len(launch_times.names(request))
    starts = np.arange(count) * (length + gap)
    table = pd.DataFrame({"run": 0, "step": range(count), "start_ns": starts, "end_ns": starts + length})
    numbers = {"events_ns": 5000.0, "host_ns": host_ns, "timed_ns": float(starts[-1] + length)}
    framed = {"framed_ns": 6000.0, "framed_events_ns": 6220.0, "after_ns": 1500.0}
    runs = pd.DataFrame({"run": [0], **numbers, **framed})
    host = {}, {"Python": 1000.0}, "Test CPU"
    clock = 32, 100.0, Sustained(4.5, 4.4, 4.6, 1980, 300)
    return LaunchTimes(
        request, table, runs, table[:0], *host, *clock, "recorded", "NVIDIA Test 80GB HBM3", "2026-11-26"
    )


def goes(name: str, calls: list[tuple[int, int]], kernels: list[tuple[int, int]]) -> LaunchTimes:
    """One run of a kernel as it goes, the same from Python and from C++."""
    parts = [
        {"cpp": cpp, "call": call, "run": 0, "step": step, "start_ns": start, "end_ns": end}
        for cpp in (False, True)
        for call, listed in ((True, calls), (False, kernels))
        for step, (start, end) in enumerate(listed)
    ]
    graph = {"capture_ns": 2000.0, "instantiate_ns": 7000.0, "update_ns": 500.0} if name == "launch_graph" else {}
    return replace(made(name, 700 if name == "launch_one_stream" else 300), free=pd.DataFrame(parts), graph=graph)


@pytest.fixture
def stage_of(monkeypatch):
    """The stage of runs. The plain one is first."""

    def stage(*pair):
        monkeypatch.setattr(story, "load", lambda request: request)
        return story.STORY.stage(SimpleNamespace(requests=pair), None)

    return stage


@pytest.fixture
def two():
    return made("launch_one_stream", 700), made("launch_graph", 300)


@pytest.fixture
def free():
    stream = goes("launch_one_stream", [(0, 8), (8, 17), (17, 20)], [(10, 12), (20, 23), (25, 26)])
    return stream, goes("launch_graph", [(0, 5)], [(7, 9), (10, 13), (14, 15)])


def sentences(stage):
    return [frame["sentence"] for frame in stage.frames]


def asked(stage):
    return {question.id: question for question in stage.questions}


def answer(question):
    return question.options[question.answer]


def lit_code(stage, frame):
    """The text of the lit lines of the code pane."""
    files = {file["name"]: file["lines"] for file in stage.codes[0].files}
    return [files[name][int(line) - 1] for name, line in (place.rsplit(":", 1) for place in frame["lines"])]


def test_a_step_is_a_start_run_by_run_and_the_last_is_the_end(stage_of, two):
    stage = stage_of(*two)
    said = sentences(stage)
    titles = [frame["title"].partition(":")[0] for frame in stage.frames]
    assert titles == ["One stream"] * 3 + ["One CUDA graph"] * 3 + ["The end"]
    assert said[0].startswith("One stream: prefill starts first, on stream 0. A stream is a queue")
    assert said[1].endswith("It uses nothing of prefill, but a stream keeps its order.")
    assert said[2].endswith("Likely (not measured): the GPU first completes the writes of partials.")
    again = "One CUDA graph: partials starts 0.3 µs after the end of prefill. With one stream, this gap takes 0.7 µs."
    assert said[4].startswith(again) and "A guess: " in said[4] and "A guess: " not in said[5]
    assert said[6].startswith("The GPU is idle for 0.6 µs in place of 1.4 µs (One stream). The way is one CUDA graph.")
    assert lit_code(stage, stage.frames[-1]) == ["cudaGraphLaunch(exec, stream0);"]
    lit = lit_code(stage, stage.frames[4])
    assert lit[0].startswith("partials<<<dim3(") and lit[-1] == "cudaGraphLaunch(exec, stream0);"


def test_a_gap_has_no_reason_of_the_gpu_if_the_host_may_be_the_cause_or_the_launch_waits_for_no_writes(stage_of):
    late = stage_of(made("launch_one_stream", 700, host_ns=1e6))
    assert "The host makes its calls meanwhile" in sentences(late)[1] and "why" not in asked(late)
    assert sentences(stage_of(made("launch_dependent", 700)))[1].endswith("starts 0.7 µs after the end of prefill.")


def sizes_after(entry, call):
    """The numbers and dim3 of a call behind the name of its kernel, each as three numbers."""
    found = re.findall(r"dim3\(([\d, ]+)\)|(?<!\w)(\d+)", call.partition(entry)[2])
    numbers = [tuple(map(int, (several or single).split(","))) for several, single in found]
    return [size + (1,) * (3 - len(size)) for size in numbers]


def test_the_host_calls_each_launch_with_the_grid_of_the_plan():
    for name in ("launch_one_stream", "launch_dependent", "launch_grid_barrier", "launch_copy_pinned"):
        request = made(name, 700).request
        calls = host_code(request)
        said = " ".join(line.strip() for line in calls.lines)
        for place, step in enumerate(steps(request.plan)):
            launch = request.plan.launches[step.number]
            own = " ".join(calls.lines[number - 1].strip() for number in calls.of_step[place])
            if not step.tensor:
                assert sizes_after(launch.entry, own)[:2] == [launch.grid, launch.block]
        assert said.count("cudaMemcpyAsync(") == sum(2 for launch in request.plan.launches if launch.fetch)
        assert ("&early" in said) == (name == "launch_dependent")
    assert "cudaStreamWaitEvent(stream0, copied_k1);" in said and "cudaMallocHost(&host_k" in said


def test_the_summary_has_the_idea_or_the_cost_and_the_time_of_each_run(stage_of, two):
    plain, graph = (one.request.kernel for one in two)
    said = stage_of(*two).summary
    assert graph.idea[1:] in said and said.endswith("The run takes 3.6 µs in place of 4.4 µs (One stream).")
    slower = stage_of(*two[::-1]).summary
    assert plain.costs[1:] in slower
    assert slower.endswith("So the run is slower: 4.4 µs in place of 3.6 µs (One CUDA graph).")


def test_the_gpu_waits_for_a_call_that_ends_after_the_kernel_before(stage_of, free):
    runs, stage = as_they_go([*free]), stage_of(*free)
    assert [(run["title"], run["host"]) for run in runs] == [
        (title, host) for host in ("Python", "C++") for title in ("One stream", "One CUDA graph")
    ]
    assert [gap["late"] for gap in runs[0]["gaps"]] == [17, None]
    assert not any(gap["late"] for gap in runs[1]["gaps"])
    said = sentences(stage)
    assert said[1] == "Prefill ends at 0.012 µs, but Python's call of partials ends at 0.017 µs. So the GPU waits."
    assert said[2].startswith("The call of merge ends before partials does.")
    assert "saves 0.011 µs of 0.026 µs" in said[5] and "pays after 819 runs" in said[5]
    assert "3 launches take 0.026 µs, because the GPU waits" in stage.summary
    assert "C++ calls take: 0.015 µs in place of 0.026 µs." in stage.summary


def test_a_host_that_is_fast_enough_is_no_reason_and_no_question(stage_of, free):
    fast = goes("launch_one_stream", [(0, 1), (1, 2), (2, 3)], [(10, 12), (20, 23), (25, 26)])
    assert "kernels hide Python's calls" in stage_of(fast, free[1]).summary
    for pair, host in ((free, True), ((fast, free[1]), False)):
        stage = stage_of(*pair)
        found = asked(stage)
        assert ("host" in found) == host and found["why"].shows == {"panel": 4, "gap": 0}
        assert stage.frames[found["why"].step]["title"] == "One stream: partials"
        assert ["summary" in frame for frame in stage.frames] == [n >= 6 for n in range(len(stage.frames))]
        first, second = (line[0].shown for line in stage.views[0].meta.lines)
        assert [*first, *second] == [*range(len(stage.frames))] and len(first) == 6
    assert "The first takes 0.7 µs with one stream and 0.3 µs with one CUDA graph." in stage.frames[-1]["summary"]


def test_only_a_graph_has_runs_as_they_go():
    plain = [goes(name, [(0, 1)], [(2, 3)]) for name in ("launch_one_stream", "launch_two_streams")]
    assert as_they_go(plain) == [] and as_they_go([made("launch_one_stream", 0)]) == []


def test_the_clocks_name_the_time_after_the_last_end_and_the_sustained_time(stage_of, two):
    stage_of(*two)
    said = " ".join(block["text"] for block in story.clock_tab(SimpleNamespace(requests=two[:1]), None))
    assert "timer and events are 2.0% apart" in said and "starts 1.5 µs after the last end" in said
    assert "On a chip at work at 1,980 MHz and 300 W, a run takes 4.5 µs (sustained)." in said


def test_the_source_names_the_run_that_the_host_still_enqueued(stage_of, two):
    late = made("launch_copy_pageable", 0, host_ns=1e6)
    said = stage_of(two[0], late).provenance.said
    assert f"{late.request.kernel.title}: the host was still enqueuing during the run." in said
    assert "whole run" not in said
    said = stage_of(*two).provenance.said
    assert "rested" in said and "the host had enqueued the whole run." in said


def test_the_answers_are_those_of_the_runs(stage_of, two):
    stage = stage_of(*two)
    found = asked(stage)
    assert answer(found["why"]) == "partials waits for the end of prefill, and a start takes time"
    assert answer(found["shortened"]) == "Mostly the gaps" and answer(found["faster"]) == "One CUDA graph"
    assert answer(found["gap"]) == "0.7 µs" and found["gap"].options == ["0.3 µs", "0.7 µs", "1 µs", "1.4 µs"]
    reasons = ["That is the gap before merge of One CUDA graph.", "", "merge itself takes 1 µs."]
    assert found["gap"].reasons == [*reasons, "Nothing runs for 1.4 µs in the whole run."]
    assert all(len(question.options) <= MOST for question in found.values())
    assert found["gap"].covers == [{"panel": [0, 1], "gap": [0, 1000]}]  # every gap of both runs


def test_the_picture_has_the_bars_and_gaps_of_the_runs(stage_of, two):
    (lanes,) = stage_of(*two).views[0].meta.lines[0]
    assert [row.name for row in lanes.rows] == ["stream 0", "stream 0"] and [row.group for row in lanes.rows] == [0, 1]
    spans = [(span.row, span.start, span.end, span.since) for span in lanes.spans]
    starts = [(0, 0), (0, 1700), (0, 3400), (1, 0), (1, 1300), (1, 2600)]
    assert spans == [(row, start, start + 1000, step) for step, (row, start) in enumerate(starts)]
    gaps = [(gap.row, gap.end - gap.start, gap.now) for gap in lanes.gaps]
    assert gaps == [(0, 700, [1]), (0, 700, [2]), (1, 300, [4]), (1, 300, [5])]
    assert lanes.spans[1].tip == "partials\n1,000 ns from 1,700 ns on (recorded on NVIDIA Test)"
    assert lanes.gaps[0].tip.startswith("gap: 700 ns\nfrom the end of prefill to the start of partials")


def test_streams_are_rows_and_copies_have_their_bytes_and_launches_at_the_same_time_share_a_row():
    assert [bar["part"] for bar in after_calls(made("launch_dependent", -900))["bars"]] == [0, 1, 2]
    run = after_calls(made("launch_copy_pinned", 0))
    copies = [bar for bar in run["bars"] if bar["kind"] == "copy"]
    tensor = run["made"].request.plan.tensor("k")
    assert run["rows"] == ["stream 0", "stream 1"] and {bar["row"] for bar in copies} == {1}
    assert sum(bar["bytes"] for bar in copies if bar["name"] == "copy of k") == tensor.nbytes


def test_children_have_a_row_with_gaps_from_the_start_of_their_parent_and_from_the_last_end(stage_of):
    """A parent from 0 to 15, four children that overlap, and a child after them."""
    starts, ends = np.array([(0, 15), (7, 20), (8, 18), (9, 12), (10, 11), (28, 30)]).T * 1000
    table = pd.DataFrame({"run": 0, "step": range(6), "start_ns": starts, "end_ns": ends})
    family = replace(made("launch_children", 0), table=table)
    run, stage = after_calls(family), stage_of(family)
    assert run["rows"] == ["stream 0", "children"] and [bar["part"] for bar in run["bars"]] == [0, 0, 1, 2, 3, 0]
    gaps = {gap["to"]: (gap["since"], gap["ns"]) for gap in run["gaps"]}
    assert gaps["partials 0"] == ("start", 7000) and gaps["merge"] == ("end", 8000)
    assert gaps["partials 3"] == ("end", -10000)
    said = sentences(stage)
    assert said[1] == "Partials 0, a child, starts 7 µs after the start of parent, the kernel that launches it."
    assert said[5] == "Merge, a child, starts 8 µs after the end of partials 0."
    assert [line.strip().partition("<<<")[0] for line in lit_code(stage, stage.frames[2])] == ["partials"]


def test_every_recording_has_questions_with_lengths_of_its_gaps(stage_of):
    for found in (entry.load() for entry in launch_times.recorded()):
        question = asked(stage_of(found)).get("gap")
        assert question is None or "0 µs" not in question.options


def test_the_cpu_gives_order_and_bytes_and_no_time():
    request = made("launch_one_stream", 0).request
    small = request.problem.problem_type()
    whole = Request(request.kernel, small, request.settings, Scope.everything(request.kernel.plan(small)), "cpu")
    text, table = story.executed_tab(SimpleNamespace(request=whole), execute)
    assert text["label"] == "executed" and "no times" in text["text"]
    assert [row[0] for row in table["rows"]] == ["prefill", "partials", "merge"]
    assert table["rows"][-1][-1] == 4 * small.sequences * small.num_heads * small.head_dim  # o, written once

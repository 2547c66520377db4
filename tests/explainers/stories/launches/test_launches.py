"""Launches: bars, gaps, steps and questions from the times of two runs, and the bytes of a run on the CPU."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from explainers.stories.launches import as_it_goes, launch_questions, sentences, story
from explainers.stories.launches.host_code import host_code
from explainers.stories.launches.runs import explain
from explainers.story.questions import MOST
from kernels.core.request import Request
from kernels.core.streams import steps
from kernels.measure import launch_times
from kernels.measure.launch_times import LaunchTimes
from kernels.measure.load import Sustained


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
    return LaunchTimes(request, table, runs, table[:0], *host, *clock, "recorded", "NVIDIA Test", "2026-11-26")


def goes(name: str, calls: list[tuple[int, int]], kernels: list[tuple[int, int]]) -> LaunchTimes:
    """One run of a kernel as it goes, the same from Python and from C++."""
    parts = [
        {"cpp": cpp, "call": call, "run": 0, "step": step, "start_ns": start, "end_ns": end}
        for cpp in (False, True)
        for call, listed in ((True, calls), (False, kernels))
        for step, (start, end) in enumerate(listed)
    ]
    graph = {"capture_ns": 2000.0, "instantiate_ns": 7000.0, "update_ns": 500.0} if name == "launch_graph" else {}
    return replace(made(name, 300), free=pd.DataFrame(parts), graph=graph)


@pytest.fixture
def two():
    return [explain(made("launch_one_stream", 700)), explain(made("launch_graph", 300))]


def test_a_step_is_a_start_run_by_run_and_the_last_is_the_end(two):
    frames = story.frames_of(two, [])
    assert [(frame["panel"], frame["at"]) for frame in frames] == sorted((f["panel"], f["at"]) for f in frames)
    assert len(frames) == sum(len(run.bars) for run in two) + 1 and frames[-1]["bar"] == -1
    assert lit_code(two[1], story.code(two, frames), frames[-1]["lines"]) == ["cudaGraphLaunch(exec, stream0);"]
    second = next(f for f in frames if f["panel"] == 1 and two[1].bars[f["bar"]]["name"] == "partials")
    said = "One CUDA graph: partials starts 0.3 µs after the end of prefill. With one stream, this gap takes 0.7 µs."
    assert second["sentence"].startswith(said) and "A guess: " in second["sentence"]
    assert frames[0]["sentence"].startswith("One stream: prefill starts first, on stream 0. A stream is a queue")
    lit = lit_code(two[1], story.code(two, frames), second["lines"])
    order, needed = (next(f["sentence"] for f in frames if f["panel"] == 0 and f["bar"] == n) for n in (1, 2))
    assert order.endswith("It uses nothing of prefill, but a stream keeps its order.")
    assert needed.endswith("Likely (not measured): the GPU first completes the writes of partials.")
    assert lit[0].startswith("partials<<<dim3(") and lit[-1] == "cudaGraphLaunch(exec, stream0);"


def test_a_gap_has_no_reason_of_the_gpu_if_the_host_may_be_the_cause_or_the_launch_waits_for_no_writes(two):
    late = explain(made("launch_one_stream", 700, host_ns=1e6))
    assert "The host makes its calls meanwhile" in sentences.start(late, 1, [late])
    assert not {"why"} & {q.id for q in launch_questions.questions([late], [], story.frames_of([late], []))}
    early = explain(made("launch_dependent", 700))
    assert sentences.start(early, 1, [early]).endswith("starts 0.7 µs after the end of prefill.")


def lit_code(run, code, lines):
    """The text of the lit lines of the code pane."""
    files = {file["name"]: file["lines"] for file in code.files}
    return [files[name][int(line) - 1] for name, line in (place.rsplit(":", 1) for place in lines)]


def sizes_after(entry, call):
    """The numbers and dim3 of a call behind the name of its kernel, each as three numbers."""
    found = re.findall(r"dim3\(([\d, ]+)\)|(?<!\w)(\d+)", call.partition(entry)[2])
    numbers = [tuple(map(int, (several or single).split(","))) for several, single in found]
    return [size + (1,) * (3 - len(size)) for size in numbers]


def test_the_host_calls_each_launch_with_the_grid_of_the_plan(two):
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


def test_the_summary_has_the_idea_or_the_cost_and_the_time_of_each_run(two):
    assert [run.idle for run in two] == [1400, 600]
    graph = two[1].request.kernel
    assert sentences.summary(two).endswith("The run takes 3.6 µs in place of 4.4 µs (One stream).")
    assert graph.idea[1:] in sentences.summary(two)
    slower = sentences.summary(two[::-1])
    assert slower.endswith("So the run is slower: 4.4 µs in place of 3.6 µs (One CUDA graph).")
    assert two[0].request.kernel.costs[1:] in slower


@pytest.fixture
def free():
    stream = goes("launch_one_stream", [(0, 8), (8, 17), (17, 20)], [(10, 12), (20, 23), (25, 26)])
    graph = goes("launch_graph", [(0, 5)], [(7, 9), (10, 13), (14, 15)])
    return as_it_goes.runs_of([stream, graph])


def test_the_gpu_waits_for_a_call_that_ends_after_the_kernel_before(free):
    assert [run.panel["title"] for run in free] == [
        f"{title}, from {host}" for host in ("Python", "C++") for title in ("One stream", "One CUDA graph")
    ]
    assert [gap["late"] for gap in free[0].panel["gaps"]] == [17, 0]
    assert not any(gap["late"] for gap in free[1].panel["gaps"])
    said = [frame["sentence"] for frame in as_it_goes.frames_of(free)]
    assert said[1] == "Prefill ends at 0.012 µs, but Python's call of partials ends at 0.017 µs. So the GPU waits."
    assert said[2].startswith("The call of merge ends before partials does.") and len(said) == 6
    assert "saves 0.011 µs of 0.026 µs" in said[-1] and "pays after 819 runs" in said[-1]
    assert "3 launches take 0.026 µs, because the GPU waits" in as_it_goes.summary(free)
    assert "C++ calls take: 0.015 µs in place of 0.026 µs." in as_it_goes.summary(free)


def test_a_host_that_is_fast_enough_is_no_reason_and_no_question(two, free):
    made = goes("launch_one_stream", [(0, 1), (1, 2), (2, 3)], [(10, 12), (20, 23), (25, 26)])
    fast = as_it_goes.runs_of([made, free[1].made])
    assert "kernels hide Python's calls" in as_it_goes.summary(fast)
    for runs, asked in ((free, True), (fast, False)):
        frames = story.frames_of(two, runs)
        found = {q.id: q for q in launch_questions.questions(two, runs, frames)}
        assert ("host" in found) == asked and found["why"].shows == {"panel": 4, "gap": 0}
        assert frames[found["why"].step]["panel"] == 4 and frames[-1]["scene"] == 1
        assert ["summary" in frame for frame in frames] == [frame["scene"] == 1 for frame in frames]
    assert "The first takes 0.7 µs with one stream and 0.3 µs with one CUDA graph" in frames[-1]["summary"]


def test_only_a_graph_has_runs_as_they_go():
    plain = [goes(name, [(0, 1)], [(2, 3)]) for name in ("launch_one_stream", "launch_two_streams")]
    assert as_it_goes.runs_of(plain) == [] and as_it_goes.runs_of([made("launch_one_stream", 0)]) == []


def test_the_clocks_name_the_time_after_the_last_end_and_the_sustained_time(two):
    said = " ".join(sentences.clock(two[0].made))
    assert "timer and events are 2.0% apart" in said and "starts 1.5 µs after the last end" in said
    assert "On a chip at work at 1,980 MHz and 300 W, a run takes 4.5 µs (sustained)." in said


def test_the_source_names_the_run_that_the_host_still_enqueued(two):
    late = explain(made("launch_copy_pageable", 0, host_ns=1e6))
    said = sentences.source([two[0], late])
    assert f"{late.title}: the host was still enqueuing during the run." in said and "whole run" not in said
    assert "rested" in said and "the host had enqueued the whole run." in sentences.source(two)


def test_the_answers_are_those_of_the_runs(two):
    asked = {q.id: q for q in launch_questions.questions(two, [], story.frames_of(two, []))}
    assert asked["why"].options[asked["why"].answer] == "partials waits for the end of prefill, and a start takes time"
    assert asked["gap"].options[asked["gap"].answer] == "0.7 µs"
    assert asked["shortened"].options[asked["shortened"].answer] == "Mostly the gaps"
    assert asked["faster"].options[asked["faster"].answer] == "One CUDA graph"
    assert all(len(q.options) <= MOST for q in asked.values())


def test_streams_are_rows_and_copies_have_their_bytes():
    run = explain(made("launch_copy_pinned", 0))
    copies = [bar for bar in run.bars if bar["copy"]]
    tensor = run.request.plan.tensor("k")
    assert run.panel(0)["rows"] == ["stream 0", "stream 1"] and {bar["row"] for bar in copies} == {1}
    assert sum(bar["bytes"] for bar in copies if bar["name"] == "copy of k") == tensor.nbytes


def test_launches_of_one_stream_at_the_same_time_have_parts_of_its_row():
    run = explain(made("launch_dependent", -900))
    assert [bar["lane"] for bar in run.bars] == [0, 1, 2] and run.panel(0)["lanes"] == [3]


def spans(name: str, steps: list[tuple[int, int]]) -> LaunchTimes:
    """One run of a kernel with these starts and ends."""
    found = made(name, 0)
    starts, ends = zip(*steps)
    table = pd.DataFrame({"run": 0, "step": range(len(steps)), "start_ns": starts, "end_ns": ends})
    return replace(found, table=table)


@pytest.fixture
def family():
    """A parent from 0 to 15, four children that overlap, and a child after them."""
    steps = [(0, 15), (7, 20), (8, 18), (9, 12), (10, 11), (28, 30)]
    return explain(spans("launch_children", [(1000 * start, 1000 * end) for start, end in steps]))


def test_children_have_a_row_with_gaps_from_the_start_of_their_parent_and_from_the_last_end(family):
    assert family.panel(0)["rows"] == ["stream 0", "children"] and family.panel(0)["lanes"] == [1, 4]
    gaps = {family.bars[gap["after"]]["name"]: (gap["since"], gap["end"] - gap["start"]) for gap in family.gaps}
    assert gaps["partials 0"] == ("start", 7000) and gaps["merge"] == ("end", 8000)
    assert gaps["partials 3"] == ("end", -10000)
    said = [frame["sentence"] for frame in story.frames_of([family], [])]
    assert said[1] == "Partials 0, a child, starts 7 µs after the start of parent, the kernel that launches it."
    assert said[5] == "Merge, a child, starts 8 µs after the end of partials 0."
    lit = lit_code(family, story.code([family], []), sentences.lines(family, 2))
    assert [line.strip().partition("<<<")[0] for line in lit] == ["partials"]


def test_the_wrong_lengths_of_a_gap_are_other_times_of_the_runs_with_their_meaning(two):
    asked = next(q for q in launch_questions.questions(two, [], story.frames_of(two, [])) if q.id == "gap")
    assert asked.options == ["0.3 µs", "0.7 µs", "1 µs", "1.4 µs"]
    assert asked.reasons[0] == "That is the gap before merge of One CUDA graph." and asked.reasons[1] == ""
    assert asked.reasons[2:] == ["merge itself takes 1 µs.", "Nothing runs for 1.4 µs in the whole run."]


def test_every_recording_has_questions_with_lengths_of_its_gaps():
    for found in (entry.load() for entry in launch_times.recorded()):
        runs = [explain(found)]
        for asked in launch_questions.questions(runs, [], story.frames_of(runs, [])):
            assert asked.id != "gap" or "0 µs" not in asked.options


def test_the_cpu_gives_order_and_bytes_and_no_time():
    from app.parts import running
    from explainers.stories.launches import executed
    from kernels.core.scope import Scope

    request = made("launch_one_stream", 0).request
    small = request.problem.problem_type()
    whole = Scope.everything(request.kernel.plan(small))
    text, table = executed.blocks(Request(request.kernel, small, request.settings, whole, "cpu"), running)
    assert text["label"] == "executed" and "no times" in text["text"]
    assert [row[0] for row in table["rows"]] == ["prefill", "partials", "merge"]
    assert table["rows"][-1][-1] == 4 * small.sequences * small.num_heads * small.head_dim  # o, written once

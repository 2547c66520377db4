"""The sentences of the story of launches, with the numbers of the runs."""

import re

from explainers.stories.launches.bars import inside, us
from explainers.stories.launches.runs import LaunchRun
from explainers.story.frames import Lines
from explainers.story.glossary import figure
from kernels.core.streams import steps
from kernels.measure.launch_times import AHEAD_NS, LaunchTimes

NEAR = 0.01  # a total that is higher by less is no slower
MEGA = 1e6
GUESS = "A guess: the graph has its next launch ready on the GPU."


def start(run: LaunchRun, bar: int, runs: list[LaunchRun]) -> str:
    """The start of a launch or a copy, and its reason. It names the run if there are two."""
    own = run.bars[bar]
    said = f"{run.title}: {own['name']}" if len(runs) > 1 else own["name"][0].upper() + own["name"][1:]
    gap, awaited = run.gap_before(bar), run.awaited(bar)
    said += ", a child," if run.rows[own["row"]][1] else ""
    work = f" It brings {figure(own['bytes'] / MEGA, 3)} MB." if own["copy"] else ""
    if gap is None or awaited is None:
        return f"{said} {_first(run, bar, run is runs[0])}{work}"
    before, wait = run.bars[awaited]["name"], own["start"] - run.bars[awaited]["end"]
    if gap["since"] == "start":
        after = own["start"] - gap["start"]
        return f"{said} starts {us(after)} after the start of {before}, the kernel that launches it.{work}"
    if wait < 0:
        return f"{said} starts {us(-wait)} before the end of {before}. {_early(run, bar)}{work}"
    when = f"{said} starts {us(wait)} after the end of {before}"
    if awaited != gap["before"]:
        return f"{when}, on {run.row_name(run.bars[awaited]['row'])}: it waits for the event of this end."
    return f"{when}. {work.strip() or _reason(run, bar, runs)}".rstrip()


def _first(run: LaunchRun, bar: int, new: bool) -> str:
    """The first start on a stream. new: whether the reader has seen no stream yet."""
    stream = run.row_name(run.bars[bar]["row"])
    if bar == run.order[0] and run.request.plan.graph:
        return "starts first. A CUDA graph is a recorded list of launches, sent with one call."
    if bar == run.order[0]:
        return f"starts first, on {stream}.{' A stream is a queue: it runs one kernel after another.' if new else ''}"
    others = " and ".join(name for row in range(len(run.rows)) if (name := run.row_name(row)) != stream)
    return f"starts at {us(run.bars[bar]['start'])} on {stream}. It does not wait for {others}."


def _early(run: LaunchRun, bar: int) -> str:
    """The reason for a start before the end of the one before."""
    number = list(steps(run.request.plan))[bar].number
    if run.request.plan.launches[number].dependent:
        return "A dependent launch may start early: it waits only before its first read."
    return "They run at the same time."


def _reason(run: LaunchRun, bar: int, runs: list[LaunchRun]) -> str:
    """The reason for a gap on a stream, or "". The second run has the gap of the first one in its place."""
    plain, name = runs[0], run.bars[bar]["name"]
    place = next((n for n, one in enumerate(plain.bars) if one["name"] == name), None)
    gap = None if run is plain or place is None else plain.gap_before(place)
    if gap and gap["since"] == "end" and gap["end"] > gap["start"]:
        same = f"With {inside(plain.title)}, this gap takes {us(gap['end'] - gap['start'])}."
        return f"{same} {GUESS}" if run.request.plan.graph and bar == run.order[1] else same
    if not run.own_gaps:
        return "" if run.request.plan.graph else "The host makes its calls meanwhile: a part of this may be its time."
    launch, before = run.request.plan.launches[list(steps(run.request.plan))[bar].number], run.awaited(bar)
    if launch.dependent or launch.parent:
        return ""
    if before is not None and not run.needs(bar, before):
        return f"It uses nothing of {run.bars[before]['name']}, but a stream keeps its order."
    return f"Likely (not measured): the GPU first completes the writes of {run.bars[before or 0]['name']}."


def held(runs: list[LaunchRun]) -> str:
    """The summary of the runs after all calls, behind the runs as they go."""
    firsts = [(run.gaps[0], inside(run.title)) for run in runs]
    ways = " and ".join(f"{us(gap['end'] - gap['start'])} with {title}" for gap, title in firsts)
    said = "Second measurement: the GPU is held until all calls are made, so only its own gaps remain."
    return f"{said} The first takes {ways}."


def ends(runs: list[LaunchRun]) -> str:
    """The idle time of each run, and the cost of the last one's way."""
    own, costs = runs[-1], f"The cost of {inside(runs[-1].title)}: {runs[-1].request.kernel.costs}"
    if len(runs) == 1:
        return costs
    return f"The GPU is idle for {us(own.idle)} in place of {us(runs[0].idle)} ({runs[0].title}). {costs}"


def summary(runs: list[LaunchRun]) -> str:
    """The idea of the last run, or its cost if its timed build is slower. Then the time of each run."""
    own, kernel = runs[-1], runs[-1].request.kernel
    slower = own.timed_ns > (1 + NEAR) * runs[0].timed_ns
    why = kernel.costs if slower else kernel.idea
    said = f"{why[0].upper()}{why[1:].rstrip('.')}."
    if len(runs) == 1:
        return f"{said} The run takes {us(own.total)}."
    verdict = "So the run is slower:" if slower else "The run takes"
    return f"{said} {verdict} {us(own.total)} in place of {us(runs[0].total)} ({runs[0].title})."


def note(runs: list[LaunchRun], free: bool) -> str:
    """What the runs are, and the source of the times, for the picture."""
    made = runs[-1].made
    when = "A kernel holds the GPU until the host has made all calls."
    if free:
        apart = max(run.made.clocks_apart_ns for run in runs)
        when = f"Host against GPU: ±{us(apart)}. Within a row of the GPU: steps of {made.timer_step_ns} ns."
    elif any(run.made.late for run in runs):
        when = "The GPU starts after the host's first calls. The others come during the run."
    return f"{when} {made.provenance.capitalize()} on {device(made)} after a pause, median of {len(made.runs)} runs."


def source(runs: list[LaunchRun]) -> str:
    """The origin of the times, and the host's place at the start of each run."""
    made = runs[-1].made
    late = [f"{run.title}: the host was still enqueuing during the run. " for run in runs if run.made.late]
    when = "after the host's first call" if late else "after the host had enqueued the whole run"
    return (
        f"Times {made.provenance} on {made.device}, {made.date}, rested (no long work before): the median of "
        f"{len(made.runs)} runs that started {when}. {''.join(late)}Problem: {made.request.problem.size}."
    )


def clock(made: LaunchTimes) -> list[str]:
    """The precision of the times of a run."""
    own = made.runs
    builds, sustained = (own.timed_ns.median(), own.events_ns.median()), made.sustained
    load = f" at {sustained.clock:,} MHz and {sustained.power} W" if sustained.clock and sustained.power else ""
    return [
        f"{made.request.kernel.name}: before a run after all calls, a kernel spins for {AHEAD_NS // 1000} µs, and the "
        "host makes its calls meanwhile.",
        f"{made.request.kernel.name}: the GPU's timer has steps of {made.timer_step_ns} ns. One kernel reads it before "
        f"a run and one after it. Between both, timer and events are {abs(made.apart):.1%} apart. "
        f"The events' own {us(made.overhead_ns)} are taken off. "
        f"The kernel after the run starts {us(made.after_ns)} after the last end.",
        f"Two events take {us(builds[0])} round the timed build and {us(builds[1])} round the build with the timer. "
        "Each copy is between two kernels of one thread, which read the timer. "
        f"On a chip at work{load}, a run takes {us(1000 * sustained.median_us)} (sustained).",
    ]


def lines(run: LaunchRun, bar: int) -> Lines:
    """The lines of the host's call for a launch or a copy. A child has the line of its parent's call."""
    plan, kernel = run.request.plan, run.request.kernel
    launch = plan.launches[list(steps(plan))[bar].number]
    if not launch.parent:
        return run.calls.lit(bar)
    source = kernel.source.splitlines()
    found = [n for n, line in enumerate(source, 1) if re.search(rf"(?<!\w){re.escape(launch.entry)}<<<", line)]
    return {f"{kernel.path.name}:{n}": 1 for n in found}


def last_call(run: LaunchRun) -> Lines:
    """The line of the call that sends a graph. Another run has none: its calls have steps of their own."""
    return run.calls.last if run.request.plan.graph else {}


def device(made: LaunchTimes) -> str:
    """The GPU without the size of its memory."""
    return re.sub(r" \d+GB.*", "", made.device)

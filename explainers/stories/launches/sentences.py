"""The sentences of the story of launches, with the numbers of the runs."""

import re

from explainers.stories.launches.runs import LaunchRun, us
from explainers.story.frames import Lines
from explainers.story.glossary import figure
from kernels.core.streams import steps
from kernels.measure.launch_times import LaunchTimes

NEAR = 0.01  # a total that is higher by less is no slower


def start(run: LaunchRun, bar: int, named: bool) -> str:
    """The start of a launch or a copy. named: whether it names the run."""
    own = run.bars[bar]
    said = f"{run.title}: {own['name']}" if named else own["name"][0].upper() + own["name"][1:]
    gap, stream = run.gap_before(bar), run.row_name(own["row"])
    if bar == run.order[0]:
        return f"{said} starts first on {stream}. The host enqueued {run.enqueued} in {us(run.host_ns)}, {run.lead}."
    if gap is None:
        return f"{said} starts first on {stream}, at {figure(own['start'])} ns."
    before, wait = run.bars[gap["before"]]["name"], gap["end"] - gap["start"]
    when = f"{figure(abs(wait))} ns {'before' if wait < 0 else 'after'} the {gap['since']} of {before}"
    if run.rows[own["row"]][1]:
        return f"{said}, a child, starts {when}."
    return f"{said} starts {when}, on {stream}." if wait < 0 else f"{said} starts on {stream}, {when}."


def ends(runs: list[LaunchRun]) -> str:
    """The end of each run, and whether the host would be slower."""
    said = [f"{run.title} ends after {us(run.total)}." for run in runs]
    for run in runs:
        if run.ahead and not run.made.late and run.host_ns > run.total:
            said.append(
                f"The host's calls for {run.title} take {us(run.host_ns)}. Without the lead, the GPU would wait."
            )
    return " ".join(said)


def summary(runs: list[LaunchRun]) -> str:
    """The time of each run and its time without work, in the order of the picture. Then the idea of the last run, or
    its cost if it is slower."""
    kernel, slower = runs[-1].request.kernel, runs[-1].total > (1 + NEAR) * runs[0].total
    times = [f"{run.title} takes {us(run.total)}, {us(run.idle)} of it in gaps." for run in runs]
    why = f"The cost: {kernel.costs}" if slower else kernel.idea[0].upper() + kernel.idea[1:]
    return f"{' '.join(times)} {why.rstrip('.')}."


def source(runs: list[LaunchRun]) -> str:
    """The origin of the times, and the host's place at the start of each run."""
    made, ahead = runs[-1].made, runs[-1].ahead
    count = len(made.runs[made.runs.ahead == ahead])
    late = [f"{run.title}: the host was still enqueuing during the run. " for run in runs if ahead and run.made.late]
    when = "on an idle GPU"
    if ahead:
        when = "after the host's first call" if late else "after the host had enqueued the whole run"
    return (
        f"Times {made.provenance} on {made.device}, {made.date}, rested (no long work before): the "
        f"median of {count} runs that started {when}. {''.join(late)}Problem: {made.request.problem.size}."
    )


def clock(made: LaunchTimes, ahead: bool) -> list[str]:
    """The precision of the times of a run."""
    own = made.runs[made.runs.ahead == ahead]
    builds = own.timed_ns.median(), own.events_ns.median()
    return [
        f"{made.request.kernel.name}: the GPU's timer has steps of {made.timer_step_ns} ns. "
        f"The time line and two events are {abs(made.apart(ahead)):.1%} apart. "
        f"The events' own {us(made.overhead_ns)} are taken off.",
        f"Two events take {us(builds[0])} round the timed build and {us(builds[1])} round the build with the timer. "
        "Each copy is between two kernels of one thread, which read the timer.",
    ]


def lines(run: LaunchRun, bar: int) -> Lines:
    """The line of the launch or copy in the opening comment, and of the kernel's definition. A graph's first launch
    has the line of the graph, too."""
    kernel, own = run.request.kernel, run.bars[bar]
    source = kernel.source.splitlines()
    number, launches = list(steps(run.request.plan))[bar].number, run.request.plan.launches
    entry = launches[number].entry
    nth = 0 if launches[number].parent else [launch.entry for launch in launches[:number]].count(entry)
    entries = [n for n, line in enumerate(source) if re.search(rf'\bentry = "{re.escape(entry)}"', line)]
    place = entries[min(nth, len(entries) - 1)] if entries else 0
    found = [place]
    if own["copy"]:
        found += [n for n in range(place, len(source)) if "fetch = " in source[n]][:1]
    else:
        found += [n for n, line in enumerate(source) if re.search(rf"(?<!\w){re.escape(entry)}\(", line)][:1]
    if bar == run.order[0]:
        found += [n for n in range(place) if source[n] == "graph = true"]
    return {f"{kernel.path.name}:{n + 1}": 1 for n in sorted(set(found))}


def device(made: LaunchTimes) -> str:
    """The GPU without the size of its memory."""
    return re.sub(r" \d+GB.*", "", made.device)

"""The sentences of the story of launches, with the numbers of the runs."""

import re

from explainers.stories.launches.runs import LaunchRun
from explainers.story.frames import Lines
from explainers.story.glossary import figure
from kernels.measure.launch_times import LaunchTimes

NEAR = 0.01  # two totals that differ by less are equal


def us(ns: float) -> str:
    """A time in microseconds."""
    return f"{figure(ns / 1e3, 3)} µs"


def start(run: LaunchRun, bar: int, named: bool) -> str:
    """The start of a launch or a copy. named: whether it names the run."""
    own = run.bars[bar]
    said = f"{run.title}: {own['name']}" if named else own["name"][0].upper() + own["name"][1:]
    gap = next((g for g in run.gaps if g["row"] == own["row"] and g["end"] == own["start"]), None)
    stream = f"stream {run.streams[own['row']]}"
    if gap is None:
        return f"{said} is the first on {stream}. It starts at {figure(own['start'])} ns."
    before, wait = run.bars[gap["before"]]["name"], gap["end"] - gap["start"]
    if wait < 0:
        return f"{said} starts {figure(-wait)} ns before the end of {before}, on {stream}."
    return f"{said} starts on {stream}, {figure(wait)} ns after the end of {before}."


def ends(runs: list[LaunchRun]) -> str:
    """The end of each run."""
    return " ".join(f"{run.title} ends after {us(run.total)}." for run in runs)


def summary(runs: list[LaunchRun]) -> str:
    """The two totals, and whether the second way takes more or less time. One run has its idle time."""
    own = runs[-1]
    if len(runs) == 1:
        return (
            f"{own.title}: the run takes {us(own.total)}, rested. For {us(own.idle)} of it, no kernel and no copy runs."
        )
    plain = runs[0]
    change = own.total / plain.total - 1
    if abs(change) < NEAR:
        than = "as long as"
    elif change > 1:
        than = f"{1 + change:.3g} times as long as"
    else:
        than = f"{abs(change):.0%} {'more' if change > 0 else 'less'} time than"
    calls = [run.made.host_ns(run.ahead) for run in runs]
    return (
        f"{own.title}: the run takes {than} {plain.title}, {us(own.total)} and {us(plain.total)}, rested. "
        f"Nothing runs for {us(own.idle)} and {us(plain.idle)}. "
        f"The host's calls take {us(calls[1])} and {us(calls[0])}."
        f"{_cost(own) if change > NEAR else ''}"
    )


def _cost(run: LaunchRun) -> str:
    """What a slower way costs, in the words of its kernel."""
    return f" Its cost: {run.request.kernel.costs.rstrip('.')}."


def source(runs: list[LaunchRun]) -> str:
    """The origin of the times, and the host's place at the start of each run."""
    made, ahead = runs[-1].made, runs[-1].ahead
    count = len(made.runs[made.runs.ahead == ahead])
    late = [f"{run.title}: the host was still enqueuing during the run. " for run in runs if ahead and run.made.late]
    when = "on an idle GPU"
    if ahead:
        when = "after the host's first call" if late else "after the host had enqueued the whole run"
    return (
        f"Times {made.provenance} on {made.device}, {made.date}, rested: the median of {count} runs that started "
        f"{when}. {''.join(late)}Problem: {made.request.problem.size}."
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
    """The line of the kernel's definition, or of its copy in the opening comment."""
    kernel, name = run.request.kernel, run.bars[bar]["name"]
    wanted = r"fetch = " if run.bars[bar]["copy"] else rf"(?<!\w){re.escape(name)}\("
    found = [n for n, line in enumerate(kernel.source.splitlines(), 1) if re.search(wanted, line)]
    return {f"{kernel.path.name}:{found[0]}": 1} if found else {}

"""The story of launches: all kernels and copies of a run on one time line, alone or above another way of launching."""

from dataclasses import dataclass, replace
from functools import lru_cache

import pandas as pd

from explainers.stories.launches import executed, launch_questions, sentences
from explainers.stories.launches.frames import LaunchFrame, LaunchMeta, Panel
from explainers.stories.launches.host_code import purpose
from explainers.stories.launches.runs import LaunchRun, explain, us
from explainers.story import stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Block, Code, Stage, State, Tab, View
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.measure import launch_times
from kernels.measure.launch_times import LaunchTimes


@dataclass(frozen=True)
class Look:
    """The shown runs, the plain way first.

    ahead: whether the host started its calls well before the run.
    request: of the run on the CPU for the tab of bytes.
    """

    requests: tuple[Request, ...]
    ahead: bool
    request: Request


class Launches(Story[Look]):
    """The launches and copies of one run, or of two on one scale."""

    def refusal(self, spec: KernelSpec) -> str:
        if any(spec.problem_type.launch_cases(spec)):
            return ""
        return f"{spec.name} has no problem with times of its launches. Choose a kernel whose problem has launch_cases."

    def stage(self, subject: Look, runner: Runner) -> Stage:
        runs = [explain(load(request), subject.ahead) for request in subject.requests]
        frames, own = frames_of(runs), runs[-1]
        return Stage(
            headline=stage.headline(own.request.kernel),
            frames=frames,
            views=[view(runs, frames)],
            codes=[code(runs, frames)],
            state=strip(runs, frames),
            tabs=[Tab("gaps", "Every gap"), Tab("executed", "Order and bytes"), Tab("clock", "Clock and events")],
            provenance=stage.Provenance(own.made.provenance, sentences.source(runs)),
            summary=sentences.summary(runs),
            questions=launch_questions.questions(runs, frames),
        )

    def parts(self) -> dict[str, Part[Look]]:
        return {"gaps": gaps_tab, "executed": executed_tab, "clock": clock_tab}


@lru_cache(maxsize=16)
def load(request: Request) -> LaunchTimes:
    """The launch times of a request: made on this machine's GPU, or recorded."""
    return launch_times.launch_times(request)


def frames_of(runs: list[LaunchRun]) -> list[LaunchFrame]:
    """A step for each start of a launch or a copy, in the order of time, and a last one for the ends."""
    found: list[LaunchFrame] = []
    starts = sorted((run.bars[n]["start"], p, n) for p, run in enumerate(runs) for n in run.order)
    for at, panel, bar in starts:
        run = runs[panel]
        found.append(
            {
                "tile": -1,
                "title": f"{run.title}: {run.bars[bar]['name']}"
                if len(runs) > 1
                else f"{run.bars[bar]['name']} starts",
                "sentence": sentences.start(run, bar, runs),
                "lines": sentences.lines(run, bar),
                "panel": panel,
                "bar": bar,
                "at": at,
            }
        )
    end = max(run.total for run in runs)
    last: LaunchFrame = {
        "tile": -1,
        "title": "The end",
        "sentence": sentences.ends(runs),
        "lines": sentences.last_call(runs[-1]),
        "panel": len(runs) - 1,
        "bar": -1,
        "at": end,
    }
    return [*found, last]


def view(runs: list[LaunchRun], frames: list[LaunchFrame]) -> View:
    """The picture: a panel for each run, on one scale."""
    made, longest = runs[-1].made, max(run.total for run in runs)
    host = max(run.host_ns for run in runs)
    kernels = {bar["entry"]: run.request.kernel for run in runs for bar in run.bars if bar["entry"]}
    meta: LaunchMeta = {
        "panels": [panel(run) for run in runs],
        "frames": frames,
        "purposes": {entry: purpose(kernel, entry) for entry, kernel in kernels.items()},
        "window": 1.02 * max(longest, min(host, 2 * longest)),
        "lead": sentences.lead(runs),
        "note": sentences.note(made, runs[-1].ahead),
        "label": f"{made.provenance} on {sentences.device(made)}",
    }
    return View("launches", "launches", "Time line", meta)


def panel(run: LaunchRun) -> Panel:
    """A run in the picture."""
    rows = range(len(run.rows))
    return {
        "title": run.title,
        "calls": sentences.called(run),
        "host": run.host_ns,
        "rows": [run.row_name(row) for row in rows],
        "lanes": [1 + max(bar["lane"] for bar in run.bars if bar["row"] == row) for row in rows],
        "bars": run.bars,
        "gaps": run.gaps,
        "idle": run.idle,
        "total": run.total,
    }


def code(runs: list[LaunchRun], frames: list[LaunchFrame]) -> Code:
    """The host's calls of each run in the order of the picture, then the kernels, with the last run first."""
    made = stage.code(runs[-1].request, frames)
    kernels = [run.request.kernel for run in runs[:-1]]
    files = [*made.files, *(stage.source_file(k.path.name, k.source) for k in kernels)]
    return replace(made, files=[*(run.calls.file for run in runs), *files])


def strip(runs: list[LaunchRun], frames: list[LaunchFrame]) -> list[State]:
    """The strip, in microseconds: the wait and the length of the launch or copy of the step, and the time without work
    so far in each run."""
    shown = [(runs[frame["panel"]], frame["bar"]) for frame in frames]
    bars = [run.bars[bar] if bar >= 0 else None for run, bar in shown]
    gaps = [run.gap_before(bar) for run, bar in shown]
    waits = [gap["end"] - gap["start"] if gap else None for gap in gaps]
    places = ["idle so far"] if len(runs) == 1 else ["idle so far, above", "idle so far, below"]
    idle = [State(said, [us(run.idle_until(f["at"])) for f in frames]) for said, run in zip(places, runs)]
    return [
        State(
            "gap before", [us(wait) if wait and wait > 0 else "none" if bar else "–" for wait, bar in zip(waits, bars)]
        ),
        State("lasts", [us(bar["end"] - bar["start"]) if bar else "–" for bar in bars]),
        *idle,
    ]


def gaps_tab(look: Look, runner: Runner) -> list[Block]:
    """The gaps of each run as a table."""
    rows = []
    for run in (explain(load(request), look.ahead) for request in look.requests):
        for gap in run.gaps:
            before, after = (run.bars[gap[place]]["name"] for place in ("before", "after"))
            since = f"the {gap['since']} of {before}"
            rows.append([run.title, run.row_name(gap["row"]), since, after, round(gap["end"] - gap["start"])])
    table = pd.DataFrame(rows, columns=["run", "row", "from", "to the start of", "ns"])
    return [stage.table(table, "A negative gap is an overlap: the next one started before the end.")]


def clock_tab(look: Look, runner: Runner) -> list[Block]:
    """The precision of the times: the step of the timer, and the distance from events."""
    return [stage.text(said) for request in look.requests for said in sentences.clock(load(request), look.ahead)]


def executed_tab(look: Look, runner: Runner) -> list[Block]:
    """The order and the bytes of a run on the CPU."""
    return executed.blocks(look.request, runner)


STORY = Launches()

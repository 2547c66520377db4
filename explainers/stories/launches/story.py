"""The story of launches: all kernels and copies of a run on one time line, alone or above another way of launching."""

from dataclasses import dataclass, replace
from functools import lru_cache

import pandas as pd

from explainers.stories.launches import as_it_goes, executed, launch_questions, sentences
from explainers.stories.launches.as_it_goes import FreeRun
from explainers.stories.launches.bars import us
from explainers.stories.launches.frames import LaunchFrame, LaunchMeta, Panel
from explainers.stories.launches.host_code import purpose
from explainers.stories.launches.runs import LaunchRun, explain
from explainers.story import stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Block, Code, Stage, State, Tab, View
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.measure import launch_times
from kernels.measure.launch_times import LaunchTimes

ROOM = 1.18  # the axis, of the longest run: the name of its last bar stands behind it


@dataclass(frozen=True)
class Look:
    """The shown runs, the plain way first.

    request: of the run on the CPU for the tab of bytes.
    """

    requests: tuple[Request, ...]
    request: Request


class Launches(Story[Look]):
    """The launches and copies of one run, or of two on one scale."""

    def refusal(self, spec: KernelSpec) -> str:
        if any(spec.problem_type.launch_cases(spec)):
            return ""
        return f"{spec.name} has no problem with times of its launches. Choose a kernel whose problem has launch_cases."

    def stage(self, subject: Look, runner: Runner) -> Stage:
        made = [load(request) for request in subject.requests]
        runs, free = [explain(one) for one in made], as_it_goes.runs_of(made)
        frames, own = frames_of(runs, free), runs[-1]
        return Stage(
            headline=stage.headline(own.request.kernel),
            frames=frames,
            views=[view(runs, free, frames)],
            codes=[code(runs, frames)],
            state=strip(runs, free, frames),
            tabs=[Tab("gaps", "Every gap"), Tab("executed", "Order and bytes"), Tab("clock", "Clock and events")],
            provenance=stage.Provenance(
                own.made.provenance, sentences.source(runs), place=stage.place(own.made.device, own.made.date)
            ),
            summary=as_it_goes.summary(free) if free else sentences.summary(runs),
            questions=launch_questions.questions(runs, free, frames),
        )

    def parts(self) -> dict[str, Part[Look]]:
        return {"gaps": gaps_tab, "executed": executed_tab, "clock": clock_tab}


@lru_cache(maxsize=16)
def load(request: Request) -> LaunchTimes:
    """The launch times of a request: made on this machine's GPU, or recorded."""
    return launch_times.launch_times(request)


def frames_of(runs: list[LaunchRun], free: list[FreeRun]) -> list[LaunchFrame]:
    """The steps of the runs as they go. Then a step for each start of a launch or a copy, run by run, and a last one
    for the ends."""
    found = [_frame(runs, free, panel, bar) for panel, run in enumerate(runs) for bar in run.order]
    if free:  # the host's calls are known by now, so the first starts are one step
        found = found[:1] + [frame for frame in found[1:] if frame["at"]]
    last: LaunchFrame = {
        "tile": -1,
        "title": "The end",
        "sentence": sentences.ends(runs),
        "lines": sentences.last_call(runs[-1]),
        "scene": int(bool(free)),
        "panel": len(free) + len(runs) - 1,
        "bar": -1,
        "at": runs[-1].total,
    }
    found.append(last)
    if free:
        for frame in found:
            frame["summary"] = sentences.held(runs)
    return [*as_it_goes.frames_of(free), *found]


def _frame(runs: list[LaunchRun], free: list[FreeRun], panel: int, bar: int) -> LaunchFrame:
    """The start of a launch or a copy."""
    run = runs[panel]
    name = run.bars[bar]["name"]
    return {
        "tile": -1,
        "title": f"{run.title}: {name}" if len(runs) > 1 else f"{name} starts",
        "sentence": sentences.start(run, bar, runs),
        "lines": sentences.lines(run, bar),
        "scene": int(bool(free)),
        "panel": len(free) + panel,
        "bar": bar,
        "at": run.bars[bar]["start"],
    }


def view(runs: list[LaunchRun], free: list[FreeRun], frames: list[LaunchFrame]) -> View:
    """The picture: the runs as they go on one axis, then the runs after all calls on another one."""
    made = runs[-1].made
    kernels = {bar["entry"]: run.request.kernel for run in runs for bar in run.bars if bar["entry"]}
    longest = [max(run.total for run in listed) for listed in (free, runs) if listed]
    meta: LaunchMeta = {
        "panels": panels_of(runs, free),
        "frames": frames,
        "purposes": {entry: purpose(kernel, entry) for entry, kernel in kernels.items()},
        "windows": [ROOM * total for total in longest],
        "notes": [sentences.note(runs, goes) for goes in (True, False)[-len(longest) :]],
        "label": f"{made.provenance} on {sentences.device(made)}",
    }
    return View("launches", "launches", "Time line", meta)


def panels_of(runs: list[LaunchRun], free: list[FreeRun]) -> list[Panel]:
    """The panels in the order of the frames."""
    return [*(run.panel for run in free), *(run.panel(int(bool(free))) for run in runs)]


def code(runs: list[LaunchRun], frames: list[LaunchFrame]) -> Code:
    """The host's calls of each run in the order of the picture, then the kernels, with the last run first."""
    made = stage.code(runs[-1].request, frames)
    kernels = [run.request.kernel for run in runs[:-1]]
    files = [*made.files, *(stage.source_file(k.path.name, k.source) for k in kernels)]
    return replace(made, files=[*(run.calls.file for run in runs), *files])


def strip(runs: list[LaunchRun], free: list[FreeRun], frames: list[LaunchFrame]) -> list[State]:
    """The strip, in microseconds: the wait and the length of the launch, copy or call of the step, and its run."""
    panels = panels_of(runs, free)
    shown = [(panels[frame["panel"]], frame["bar"]) for frame in frames]
    bars = [panel["bars"][bar] if bar >= 0 else None for panel, bar in shown]
    gaps = [next((gap for gap in panel["gaps"] if gap["after"] == bar), None) for panel, bar in shown]
    waits = [gap["end"] - gap["start"] if gap else None for gap in gaps]
    kinds = ["" if not bar else "first kernel" if bar["entry"] else "first copy" if bar["copy"] else "" for bar in bars]
    said = [(us(wait) if wait > 0 else "none") if wait is not None else kind or "–" for wait, kind in zip(waits, kinds)]
    return [
        State("gap before", said),
        State("lasts", [us(bar["end"] - bar["start"]) if bar else "–" for bar in bars]),
        State("run", [panel["said"].partition(", ")[0] for panel, _ in shown]),
    ]


def gaps_tab(look: Look, runner: Runner) -> list[Block]:
    """The gaps of each run as a table."""
    made = [load(request) for request in look.requests]
    rows = []
    for panel in panels_of([explain(one) for one in made], as_it_goes.runs_of(made)):
        for gap in panel["gaps"]:
            before, after = (panel["bars"][gap[place]]["name"] for place in ("before", "after"))
            since = f"the {gap['since']} of {before}"
            rows.append([panel["title"], panel["rows"][gap["row"]], since, after, round(gap["end"] - gap["start"])])
    table = pd.DataFrame(rows, columns=["run", "row", "from", "to the start of", "ns"])
    return [stage.table(table, "A negative gap is an overlap: the next one started before the end.")]


def clock_tab(look: Look, runner: Runner) -> list[Block]:
    """The precision of the times: the step of the timer, and the distance from events."""
    made = [load(request) for request in look.requests]
    return [stage.text(said) for one in made for said in (*as_it_goes.costs(one), *sentences.clock(one))]


def executed_tab(look: Look, runner: Runner) -> list[Block]:
    """The order and the bytes of a run on the CPU."""
    return executed.blocks(look.request, runner)


STORY = Launches()

"""A story to copy: the running sum of one row, each time a kernel logs it. explainers/story/base.py explains the parts.
The page opens by its address only."""

import altair as alt
import pandas as pd

from explainers.charts.inline import Inline
from explainers.charts.palette import AXIS
from explainers.story import probed, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.frames import Frame
from explainers.story.glossary import short
from explainers.story.stage import Block, Question, Stage, State, Tab, View
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run

HEIGHT = 300
ALT = "The running sum of the row after each step"


class SumFrame(Frame):
    """One step.

    row: the row of the query.
    l: the sum of its weights so far.
    """

    row: int
    l: float


def frames_of(run: Run) -> list[SumFrame]:
    """The logged sums of the run's first row, in the order of the trace."""
    logged = run.trace.frame("file", "line", "event", "row", "value")
    sums = logged[logged.event == "l"]
    sums = sums[sums.row == sums.row.min()]
    return [
        {
            "tile": -1,
            "title": f"Row {row.row:g}",
            "row": int(row.row),
            "l": float(row.value),
            "lines": {f"{row.file}:{row.line}": 1},
            "sentence": f"The kernel logs l = {short(row.value)} for row {row.row:g}.",
        }
        for row in sums.itertuples()
    ]


def chart(frames: list[SumFrame]) -> alt.LayerChart:
    """The sum after each step. The rule follows the clock."""
    data = Inline()
    steps = pd.DataFrame({"step": range(1, len(frames) + 1), "l": [frame["l"] for frame in frames]})
    x, y = alt.X("step:Q", title="step"), alt.Y("l:Q", title="sum l")
    line = data.chart("sums", steps).mark_line(point=True).encode(x=x, y=y)
    rule = data.chart("sums").mark_rule(color=AXIS).encode(x=x).transform_filter("datum.step == step")
    return data.layered([line, rule], HEIGHT)


def view(frames: list[SumFrame]) -> View:
    """The picture: the chart on the whole pane. A click goes to the nearest step."""
    meta = {"spec": chart(frames).to_dict(), "alt": ALT, "at": list(range(1, len(frames) + 1))}
    return View("chart", "sums", "Row sum", meta)


class RowSums(Story[Request]):
    """The running sum of one row."""

    WANTS = ("l", "rescale")

    def refusal(self, spec: KernelSpec) -> str:
        return probed.without_events(spec, {"l": ("row",)})

    def stage(self, subject: Request, runner: Runner) -> Stage:
        run = runner.run(subject)
        frames = frames_of(run)
        return stage.of_request(
            subject,
            frames,
            [view(frames)],
            state=[State("sum l", [frame["l"] for frame in frames], colour="P")],
            tabs=[Tab("sums", "Every sum"), stage.BUILDS, stage.DATA],
            provenance=runner.provenance(run),
            questions=questions(frames),
        )

    def parts(self) -> dict[str, Part[Request]]:
        return {"sums": sums_tab}


def sums_tab(subject: Request, runner: Runner) -> list[Block]:
    """The sums as a table."""
    frames = frames_of(runner.run(subject))
    return [stage.table(pd.DataFrame({"row": [f["row"] for f in frames], "l": [f["l"] for f in frames]}))]


def questions(frames: list[SumFrame]) -> list[Question]:
    """Asks for the largest change of the sum, and for the last sum. A listed story asks at least two questions."""
    if len(frames) < 2:
        return []
    row, sums = frames[0]["row"], [frame["l"] for frame in frames]
    changes = [abs(after - before) for before, after in zip(sums, sums[1:])]
    largest = changes.index(max(changes)) + 1
    last = len(frames) - 1
    return [
        Question(
            "largest_change",
            f"At which step does the sum l of row {row} change most?",
            "number",
            largest + 1,
            f"At step {largest + 1}, l changes by {short(max(changes))}.",
            step=largest,
        ),
        Question(
            "last_sum",
            f"How large is the sum l of row {row} at the end?",
            "number",
            sums[last],
            frames[last]["sentence"],
            step=last,
            tolerance=stage.MEASURED,
        ),
    ]


STORY = RowSums()

"""A story to copy: the running sum of one row, each time a kernel logs it. Its texts are in words.toml.
The page opens by its address only."""

from explainers.story import probed, scene, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import short
from explainers.story.stage import Block, Stage, State, Tab, View
from explainers.story.words import Row, Words
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run

WORDS = Words.of(str(__package__))


def data_of(run: Run) -> Row:
    """Every table and number of the page.

    sums: a row for each logged sum of the run's first row, in the order of the trace. change: from the sum before.
    largest: the row with the largest change.
    """
    logged = run.trace.frame("file", "line", "event", "row", "value")
    sums = logged[logged.event == "l"]
    sums = sums[sums.row == sums.row.min()].reset_index(drop=True)
    sums = sums.assign(change=sums.value.diff().abs().fillna(0.0), step=sums.index + 1)
    return {"sums": sums, "largest": sums.loc[sums.change.idxmax()].to_dict(), "last": sums.iloc[-1].to_dict()}


def steps_of(data: Row) -> list[Row]:
    """A row for each step, with the columns that its texts use. tile: of its outer step. lines: of code."""
    rows = data["sums"].to_dict("records")
    return [{**row, "tile": -1, "lines": {f"{row['file']}:{row['line']}": 1}} for row in rows]


def picture(data: Row) -> View:
    """A bar for each sum. A click goes to its step."""
    bars = [
        scene.Bar(
            name=f"step {sum['step']}",
            value=sum["value"],
            text=short(sum["value"]),
            datum={"step": sum["step"]},
            tip=f"l = {short(sum['value'])}",
            now=[sum["step"] - 1],
            go=sum["step"] - 1,
            colour="P",
        )
        for sum in data["sums"].to_dict("records")
    ]
    return scene.view("sums", "Row sum", [[scene.Bars(title=["The running sum l of the row"], bars=bars)]])


class RowSums(Story[Request]):
    """The running sum of one row."""

    WANTS = ("l", "rescale")

    def refusal(self, spec: KernelSpec) -> str:
        return probed.without_events(spec, {"l": ("row",)})

    def stage(self, subject: Request, runner: Runner) -> Stage:
        run = runner.run(subject)
        data = data_of(run)
        frames = WORDS.frames(steps_of(data), data)
        return stage.of_request(
            subject,
            frames,
            [picture(data)],
            state=[State("sum l", [*data["sums"].value], colour="P")],
            tabs=[Tab("sums", "Every sum"), stage.BUILDS, stage.DATA],
            provenance=runner.provenance(run),
            questions=WORDS.questions(data, len(frames) - 1) if len(frames) > 1 else [],
        )

    def parts(self) -> dict[str, Part[Request]]:
        return {"sums": sums_tab}


def sums_tab(subject: Request, runner: Runner) -> list[Block]:
    """The sums as a table."""
    return [stage.table(data_of(runner.run(subject))["sums"][["row", "value"]])]


STORY = RowSums()

"""A story to copy: a value of one row, each time a kernel logs it. The texts of its steps are in words.toml.
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
EVENT = "l"  # the running sum. Each event with the key `row` works


def data_of(run: Run) -> Row:
    """Every table and number of the page.

    values: a row for each logged value of one row of the run, in the order of the trace. change: from the value before.
    largest: the row with the largest change.
    """
    logged = run.trace.frame("file", "line", "event", "row", "value")
    values = logged[logged.event == EVENT]
    row = values.groupby("row").value.nunique().idxmax()  # the first one with the most different values
    values = values[values.row == row].reset_index(drop=True)
    values = values.assign(change=values.value.diff().abs().fillna(0.0), step=values.index + 1)
    return {
        "values": values,
        "largest": values.loc[values.change.idxmax()].to_dict(),
        "last": values.iloc[-1].to_dict(),
    }


def steps_of(data: Row) -> list[Row]:
    """A row for each step, with the columns that its texts use. tile: of its outer step. lines: of code."""
    rows = data["values"].to_dict("records")
    return [{**row, "tile": -1, "lines": {f"{row['file']}:{row['line']}": 1}} for row in rows]


def picture(data: Row) -> View:
    """A bar for each value. A click goes to its step."""
    bars = [
        scene.Bar(
            name=f"step {one['step']}",
            value=one["value"],
            text=short(one["value"]),
            datum={"step": one["step"]},
            tip=f"{EVENT} = {short(one['value'])}",
            now=[one["step"] - 1],
            go=one["step"] - 1,
            colour="P",
        )
        for one in data["values"].to_dict("records")
    ]
    title = f"{EVENT} of row {short(data['last']['row'])}"
    return scene.view("values", "Values", [[scene.Bars(title=[title], bars=bars)]])


class RowValues(Story[Request]):
    """A logged value of one row."""

    WANTS = (EVENT, "rescale")

    def refusal(self, spec: KernelSpec) -> str:
        return probed.without_events(spec, {EVENT: ("row",)})

    def stage(self, subject: Request, runner: Runner) -> Stage:
        run = runner.run(subject)
        data = data_of(run)
        frames = WORDS.frames(steps_of(data), data)
        return stage.of_request(
            subject,
            frames,
            [picture(data)],
            state=[State(EVENT, [*data["values"].value], colour="P")],
            tabs=[Tab("values", "Every value"), stage.BUILDS, stage.DATA],
            provenance=runner.provenance(run),
            questions=WORDS.questions(data, len(frames) - 1) if len(frames) > 1 else [],
        )

    def parts(self) -> dict[str, Part[Request]]:
        return {"values": values_tab}


def values_tab(subject: Request, runner: Runner) -> list[Block]:
    """The values as a table."""
    return [stage.table(data_of(runner.run(subject))["values"][["row", "value"]])]


STORY = RowValues()

"""The tables of a chart with many layers. Each table is in the spec once."""

import altair as alt
import pandas as pd

from explainers.charts.palette import AXIS


class Inline:
    """Tables by name, as the records of a spec. Several layers share one copy, which saves most of the work of a chart
    with ten layers."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, object]]] = {}

    ends: dict[str, object] | None = None  # of the names at the lines' ends: their column, and the bounds of the axis

    def chart(self, name: str, frame: pd.DataFrame | None = None) -> alt.Chart:
        """A Chart of the table with that name. Pass `frame` on the first use. A missing value becomes null."""
        if frame is not None:
            self.rows[name] = frame.astype(object).where(frame.notna(), None).to_dict("records")
        return alt.Chart(alt.NamedData(name=name))

    def step_rule(self, steps: pd.DataFrame, x: alt.X) -> alt.Chart:
        """A rule at the place of the step. steps: a row for each, with its number in the column `step`."""
        rule = self.chart("steps", steps).mark_rule(color=AXIS, strokeWidth=1.5).encode(x=x)
        return rule.transform_filter("datum.step == step")

    def layered(self, layers: list[alt.Chart], height: int) -> alt.LayerChart:
        """The layers with their data and the parameter `step`. The step follows the clock, from 1."""
        first = layers[0].add_params(alt.param(name="step", value=1))  # a chart of layers takes it over
        made = alt.LayerChart(layer=[first, *layers[1:]], height=height)  # at once: Altair copies a chart at every turn
        made["datasets"] = self.rows
        made["usermeta"] = {"ends": self.ends}
        return made

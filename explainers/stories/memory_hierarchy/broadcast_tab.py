"""The tab on reads of one address or many: constant memory serves one address at a time."""

import altair as alt

from explainers.charts.palette import OKABE_ITO
from explainers.story import stage
from explainers.story.glossary import figure
from explainers.story.stage import Block
from kernels.measure import pattern_cycles


def broadcast_blocks() -> list[Block]:
    """The recorded cycles of a read against the number of different words in a warp. Empty without a recording."""
    table, source = pattern_cycles.broadcasts()
    if source is None:
        return []
    memories = list(dict.fromkeys(table.memory))
    first, most = table.different.min(), table.different.max()
    at = table.set_index(["memory", "different"]).cycles
    said = [
        f"{name}: {figure(at[name, first])} cycles if all read one word, {figure(at[name, most])} if they read {most}."
        for name in memories
    ]
    constant = at[memories[0]]
    step = (constant[most] - constant[first]) / (most - first)
    scale = alt.Scale(domain=memories, range=[OKABE_ITO["vermillion"], OKABE_ITO["green"]])
    chart = (
        alt.Chart(table)
        .mark_line(point=True)
        .encode(
            x=alt.X("different:Q", title="different words that the 32 lanes read"),
            y=alt.Y("cycles:Q", title="cycles of a read"),
            color=alt.Color("memory:N", title=None, scale=scale, legend=alt.Legend(orient="top")),
            tooltip=["memory:N", "different:Q", alt.Tooltip("cycles:Q", format=".4g")],
        )
        .properties(height=260)
    )
    caption = f"Recorded on {source.device}, {source.date}: one warp, each read with the address from the read before."
    lesson = f"Each further word costs {figure(step)} cycles in constant memory. It serves one address at a time."
    return [
        stage.heading("One address or many"),
        stage.text(" ".join(said), source.label),
        stage.text(f"{lesson} L1 serves all words of a line of 128 bytes at once."),
        stage.chart(chart, "Cycles of a read against the number of different words", caption),
    ]

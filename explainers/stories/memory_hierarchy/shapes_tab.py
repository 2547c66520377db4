"""The tab on rows, tiles and columns of a matrix: a 2-D texture against global memory."""

import altair as alt
import pandas as pd

from explainers.charts.palette import OKABE_ITO
from explainers.story import stage
from explainers.story.glossary import figure
from explainers.story.stage import Block
from kernels.measure import pattern_cycles

LANES, SIDE = 32, 32  # of a warp, of the drawn part of the matrix
WARPS = 16  # of the block
TEXTURE, PLAIN = "2-D texture", "Global memory"  # names of the kernel's memories
PLACES = ("numbers in L1", "numbers in L2")
DRAWN = {32: "a row of 32", 8: "a tile of 8 x 4", 1: "a column of 32"}  # columns of a shape -> its name

HEADER = alt.Header(labelFontSize=13)


def shapes_blocks() -> list[Block]:
    """The recorded cycles of a read of each shape, through a texture and from global memory. Empty without them."""
    table, source = pattern_cycles.shapes()
    if source is None:
        return []
    table = table.assign(
        shape=[f"{columns} x {LANES // columns}" for columns in table["columns"]],
        place=[PLACES[int(areas > table.areas.min())] for areas in table.areas],
    )
    near = table[table.place == PLACES[0]].set_index(["memory", "columns"]).cycles
    areas = [number // WARPS for number in sorted(set(table.areas))]  # of each warp
    turns = " or ".join(f"{number} areas ({place})" for number, place in zip(areas, PLACES))
    caption = (
        f"Recorded on {source.device}, {source.date}: {WARPS} warps of one SM read, each in turn from {turns} "
        "of 32 x 32 numbers. Cycles of the SM for one read of a warp."
    )
    shapes = stage.chart(
        _shapes(),
        "The numbers of a warp's read in a part of the matrix: a row, a tile and a column",
        "Lane 0 is dark, lane 31 is bright.",
    )
    cycles = stage.chart(_cycles(table), "Cycles of a warp's read against its shape", caption)
    return [
        stage.heading("Which shape a warp reads"),
        *(stage.text(said, source.label) for said in sentences(near)),
        stage.text(
            "These cycles leave out the copy into the CUDA array. The other remedy is a tile in shared memory, padded "
            "against bank conflicts."
        ),
        stage.row([shapes], [cycles]),
        stage.link("The numbers that each lane reads", "any_kernel", {"kernel": str(table.kernel[0])}),
    ]


def sentences(near: pd.Series) -> list[str]:
    """The figures in words. near: (memory, columns) -> cycles, with the numbers in L1."""
    texture, plain = near[TEXTURE], near[PLAIN]
    row, tile, column = sorted(DRAWN, reverse=True)
    wins = [
        f"{columns} x {LANES // columns}"
        for columns in sorted(texture.index)
        if 1.05 * texture[columns] < plain[columns]
    ]
    return [
        f"{TEXTURE}: {figure(texture[row])} cycles for a row and {figure(texture[column])} for a column. "
        f"The texture unit fetches about {LANES / texture[row]:.0f} numbers a cycle, in any shape.",
        f"{PLAIN}: {figure(plain[row])} cycles for a row, {figure(plain[tile])} for a tile, but "
        f"{figure(plain[column])} for a column: each number comes from a line of its own.",
        f"So global memory is {texture[row] / plain[row]:.1f} times faster along rows, and the texture "
        f"{plain[column] / texture[column]:.1f} times faster along columns.",
        f"The texture wins by more than 5 % for {' and '.join(wins)}, out of {len(texture)} shapes (columns x rows).",
    ]


def _shapes() -> alt.FacetChart:
    """The 32 numbers of each drawn shape."""
    rows = [
        {"shape": name, "column": lane % columns, "row": lane // columns, "lane": lane}
        for columns, name in DRAWN.items()
        for lane in range(LANES)
    ]
    domain = alt.Scale(domain=[0, SIDE])
    return (
        alt.Chart(pd.DataFrame(rows).assign(right=lambda t: t.column + 0.9, below=lambda t: t.row + 0.9))
        .mark_rect()
        .encode(
            x=alt.X("column:Q", scale=domain, title="column", axis=alt.Axis(tickCount=4)),
            x2="right:Q",
            y=alt.Y("row:Q", scale=alt.Scale(domain=[SIDE, 0]), title="row", axis=alt.Axis(tickCount=4)),
            y2="below:Q",
            color=alt.Color("lane:Q", scale=alt.Scale(scheme="cividis"), legend=None),
            tooltip=["lane:Q", "row:Q", "column:Q"],
        )
        .properties(width=80, height=80)
        .facet(column=alt.Column("shape:N", sort=list(DRAWN.values()), title=None, header=HEADER))
    )


def _cycles(table: pd.DataFrame) -> alt.Chart:
    memories = [TEXTURE, PLAIN]
    scale = alt.Scale(domain=memories, range=[OKABE_ITO["blue"], OKABE_ITO["orange"]])
    order = [f"{columns} x {LANES // columns}" for columns in sorted(set(table["columns"]), reverse=True)]
    top = alt.Legend(orient="top", direction="vertical", symbolType="stroke")
    return (
        alt.Chart(table)
        .mark_line(point=True)
        .encode(
            x=alt.X("shape:N", sort=order, title="columns x rows of the shape", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("cycles:Q", title="cycles of a warp's read"),
            color=alt.Color("memory:N", title=None, scale=scale, legend=top),
            strokeDash=alt.StrokeDash("place:N", title=None, sort=list(PLACES), legend=top),
            tooltip=["memory:N", "shape:N", "place:N", alt.Tooltip("cycles:Q", format=".4g")],
        )
        .properties(width=280, height=180)
    )

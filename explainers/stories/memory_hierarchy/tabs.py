"""The tabs of Memory: the levels, reads of one address or many, and shapes of reads."""

import altair as alt
import pandas as pd

from explainers.charts.palette import OKABE_ITO
from explainers.models.memory_levels import bytes_said, edges, machine_of, plateaus, short_name
from explainers.story import stage
from explainers.story.glossary import figure
from explainers.story.stage import Block
from explainers.story.words import Names, Words
from kernels.measure import pattern_cycles
from kernels.measure.hierarchy import Measured

WORDS = Words.of(str(__package__))
SOURCES = {
    "latency": "One SM, by a chain of loads",
    "bandwidth": "All SMs, each with its own L1, by streaming reads",
}
PAGES: tuple[tuple[str, str, str, dict[str, str]], ...] = (  # level, path of a story, its sight, choices
    ("Registers", "registers", "scores that never leave the registers", {}),  # it opens at the step with a held row
    ("Shared memory", "bank_conflicts", "32 lanes that want the same bank", {"step": "1"}),
    ("L1 cache", "coalescing", "how many sectors a load of a warp brings", {"step": "1"}),
    ("L2 cache", "block_table", "a KV cache whose pages lie anywhere", {"view": "walk", "step": "2"}),
    ("Device memory", "tiling", "a tile that a kernel fetches from it", {"step": "2"}),
)


def levels_tab(measured: Measured, label: str, data: Names) -> list[Block]:
    """The plateaus, the ends of the caches, and links to stories. data: names of words.toml."""
    machine = machine_of(measured.device)
    ends = [
        {
            "source": source,
            "level": short_name(edge.level),
            "fits": bytes_said(edge.fits),
            "leaves": bytes_said(edge.leaves) if edge.leaves else "",
        }
        for kind, source in SOURCES.items()
        for edge in edges(measured.table, kind)
    ]
    held = {"gpu": machine.gpu, "bytes": bytes_said(machine.shared_bytes)} if machine else {}
    facts = [
        stage.text(WORDS.say("additions", {})),
        *(stage.text(WORDS.say("end", end), "derived") for end in ends),
        *([stage.text(WORDS.say("shared_bytes", held))] if machine else []),
        *(stage.text(said) for gpu, said in WORDS.table("stores").items() if gpu in measured.device),
        *([stage.text(WORDS.say("far_half", {}))] if data["far_half"] else []),
    ]
    levels, formats = plateaus(measured.table), {"cycles": "{:.0f}", "ns": "{:.1f}", "GB/s": "{:,.0f}"}
    levels = levels[levels[list(formats)].notna().any(axis=1) | levels.level.str.endswith("not measured yet")]
    texts = {name: ["" if pd.isna(v) else form.format(v) for v in levels[name]] for name, form in formats.items()}
    table = stage.table(levels.assign(**texts), WORDS.say("caption", {"label": label}))
    return [
        stage.text(WORDS.say("on_device", {**data, "device": measured.device})),
        stage.row([table], [stage.heading("Content of the figures"), *facts]),
        stage.heading("Kernels that meet the levels"),
        *(stage.link(f"{level}: {sight}", story, query) for level, story, sight, query in PAGES),
    ]


# ---- one address or many ----


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


# ---- shapes ----


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

"""The memory hierarchy: measured latency and bandwidth against the working set, next to the textbook's figures.

The steps of the clock are the working sets of the chain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from explainers.stories.bank_conflicts import bank_conflicts
from explainers.stories.block_table import block_table
from explainers.stories.coalescing import coalescing
from explainers.stories.memory_hierarchy.level_charts import COLOURS, bandwidth_chart, chart_view, latency_chart
from explainers.stories.memory_hierarchy.memory_levels import (
    MIB,
    SPACES,
    Edge,
    bytes_said,
    edges,
    latencies,
    level_name,
    levels_met,
    machine_of,
    nearest_bandwidth,
    plateaus,
    sizes,
)
from explainers.stories.registers import threads
from explainers.stories.tiling import tiling
from explainers.story import probed, stage
from explainers.story.stage import Block
from kernels.build.occupancy import Machine
from kernels.core.fields import fields_of, write_value
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.measure.hierarchy import RUNS, Measured
from kernels.trace.probes import sites_of


def as_text(levels: pd.DataFrame) -> pd.DataFrame:
    """Returns the plateaus as texts, empty without a measurement."""
    formats = {"textbook cycles": "{:.0f}", "cycles": "{:.1f}", "ns": "{:.1f}", "GB/s": "{:,.0f}"}
    texts = {name: ["" if pd.isna(v) else form.format(v) for v in levels[name]] for name, form in formats.items()}
    return levels.assign(**texts)


def sentence(levels: pd.DataFrame, device: str) -> str:
    """Returns a sentence with the cycles of the plateaus."""
    at = levels.set_index("level")
    l1, l2, far = (at.cycles[name] for name in ("L1 cache", "L2 cache", "Device memory"))
    if pd.isna(l1) or pd.isna(l2) or pd.isna(far):
        return f"Only a part of {device} has been measured so far."
    return (
        f"On {device} a load waits {at.cycles['Shared memory']:.0f} cycles for shared memory, {l1:.0f} for L1, "
        f"{l2:.0f} for L2 and {far:.0f} "
        f"for device memory: L2 is {l2 / l1:.1f} times as far as L1, device memory {far / l1:.1f} times."
    )


@dataclass(frozen=True)
class Example:
    """A kernel that meets a level.

    level: the name of the level.
    story: the path of the story with this kernel.
    kernel: the kernel.
    subject: the sight in that story.
    choices: other choices of the link.
    scenario: whether the story's scenario gives the problem, so the link has no fields.
    """

    level: str
    story: str
    kernel: KernelSpec
    subject: str
    choices: dict[str, str]
    scenario: bool = False

    @property
    def link(self) -> Block:
        fields = {} if self.scenario else _fields(self.kernel)
        query = {"kernel": self.kernel.name, **fields, **self.choices}
        return stage.link(f"{self.level}: {self.subject}, in {self.kernel.name}", self.story, query)


def kernels_that_meet() -> list[Block]:
    """Returns a link for each level: a story, its kernel, its problem and its step."""
    rung, paged = threads.first(probed.accepting(tiling).values()), probed.first(block_table)
    banks, sectors, tiled = (probed.first(module) for module in (bank_conflicts, coalescing, tiling))
    first = {"step": "1"}  # Registers opens at the step with a held row
    walk = {"view": "walk", "step": "2"}
    examples = (
        Example("Registers", "registers", rung, "scores that never leave the registers", {}),
        Example("Shared memory", "bank_conflicts", banks, "32 lanes that want the same bank of it", first),
        Example("L1 cache", "coalescing", sectors, "how many sectors a load of a warp brings", first),
        Example("L2 cache", "block_table", paged, "a KV cache whose pages lie anywhere", walk, scenario=True),
        Example("Device memory", "tiling", tiled, "a tile that a kernel fetches from it", {"step": "2"}),
    )
    return [example.link for example in examples]


def _fields(kernel: KernelSpec) -> dict[str, str]:
    return {name: write_value(value) for name, value in kernel.problem_type().values().items()}


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel walks a working set of a chosen size and logs the clock."""
    problem = spec.problem_type
    walks = "walk" in probed.marks(spec) and "working_set" in fields_of(problem)
    return walks and any(tensor.axes == ("clock",) for tensor in problem().tensors())


WANTS = ("walk",)


def frames(table: pd.DataFrame, lines: dict[str, str]) -> list[dict[str, Any]]:
    """Returns a frame for each working set. lines: space -> source line of its load."""
    made, levels, known = [], levels_met(table), latencies(table)
    for number, size in enumerate(sizes(table)):
        figures = {space: known[space, size] for space in SPACES if (space, size) in known}
        lit = {lines[space]: 1 for space in figures if space in lines}
        said = size_sentence(size, figures, levels[size])
        made.append({"title": bytes_said(size), "tile": number, "lines": lit, "sentence": said})
    return made


def size_sentence(size: int, figures: dict[str, tuple[float, float]], level: str) -> str:
    """Returns the cost of a chain over a working set, and its level. figures: space -> (cycles, ns)."""
    others = {"a load that skips the L1": figures.get("from_l2"), "a load from shared memory": figures.get("shared")}
    rest = " and ".join(f"{load} takes {found[0]:.0f} cycles" for load, found in others.items() if found)
    if "through_l1" not in figures:
        return f"Working set {bytes_said(size)}: {rest}."
    cycles, ns = figures["through_l1"]
    said = f"Working set {bytes_said(size)}: {cycles:.0f} cycles a load ({ns:.0f} ns); {level}."
    return f"{said} {rest[0].upper()}{rest[1:]}." if rest else said


def states(table: pd.DataFrame) -> list[stage.State]:
    """Returns the strip: cycles, ns, GB/s and the level of the step."""
    at, known = sizes(table), latencies(table)

    def figures(space: str, which: int = 0) -> list[float | None]:
        return [round(known[space, size][which], 1) if (space, size) in known else None for size in at]

    bandwidth = [nearest_bandwidth(table, size) for size in at]
    said = [f"{b[0]:,.0f} GB/s at {bytes_said(b[1])}" if b else "no stream of this size" for b in bandwidth]
    return [
        stage.State("through L1", figures("through_l1"), "cycles", colour=COLOURS[SPACES["through_l1"]]),
        stage.State("that is", figures("through_l1", 1), "ns"),
        stage.State("past L1", figures("from_l2"), "cycles", colour=COLOURS[SPACES["from_l2"]]),
        stage.State("shared memory", figures("shared"), "cycles", colour=COLOURS[SPACES["shared"]]),
        stage.State("whole GPU reads", said),
        stage.State("level", list(levels_met(table).values())),
    ]


def lines_of(spec: KernelSpec) -> dict[str, str]:
    """Returns space -> FILE:LINE of the load of a chain in this space.

    Rule: a load of the walk below a line with SPACE_NAME belongs to that space. The remaining load belongs to the
    remaining space.
    """
    begin = spec.problem_type()
    spaces = fields_of(type(begin))["space"].metadata["allowed"]
    found, left = {}, []
    walking = False
    for site in sites_of(Request(spec, begin)):
        walking = site.event == "walk" if site.kind == "mark" else walking
        if not walking or site.event != "load":
            continue
        above = spec.source.splitlines()[max(0, site.line - 2)]
        asked = next((space for space in spaces if f"SPACE_{space.upper()}" in above), None)
        if asked:
            found[asked] = site.place
        else:
            left.append(site.place)
    rest = [space for space in spaces if space not in found]
    return found | dict(zip(rest, left))


def stage_of(
    measured: Measured, shown: pd.DataFrame, label: str, spec: KernelSpec, here: Sequence[Block]
) -> stage.Stage:
    """Returns the whole stage.

    measured: the table for sentences and steps.
    shown: the rows of the charts, from `beside`.
    label: measured or recorded.
    spec: the kernel of the chase.
    here: the controls for measuring on this machine.
    """
    table = measured.table
    made = frames(table, lines_of(spec))
    at, machine = sizes(table), machine_of(measured.device)
    views = [
        chart_view(
            "latency", "Latency", latency_chart(shown, table, machine), "Cycles of one load against the working set", at
        ),
        chart_view(
            "bandwidth", "Bandwidth", bandwidth_chart(shown, table), "GB/s of the whole GPU against the working set", at
        ),
    ]
    said = (
        f"{label.capitalize()} on {measured.device}, driver {measured.driver}, {measured.date}: median of {RUNS} runs."
    )
    tabs = [stage.Tab("now", "Measure on this GPU", list(here))] if here else []
    return stage.Stage(
        headline=stage.headline(spec),
        frames=made,
        views=views,
        codes=[stage.code(probed.sample(spec), made)],
        state=states(table),
        tabs=[*tabs, stage.Tab("levels", "The levels", levels_tab(measured, label))],
        provenance=stage.Provenance(label, said),
        questions=questions(table, measured.device),
    )


def questions(table: pd.DataFrame, device: str) -> list[stage.Question]:
    """Returns questions on the distance of the L2 and on the end of the L1."""
    cycles, known = plateaus(table).set_index("level").cycles, edges(table)
    l1, l2 = cycles["L1 cache"], cycles["L2 cache"]
    found = [_question_of_distance(table, device, l1, l2)] if pd.notna(l1) and pd.notna(l2) else []
    return [*found, _question_of_end(table, known[0])] if known else found


def _question_of_distance(table: pd.DataFrame, device: str, l1: float, l2: float) -> stage.Question:
    beyond_l1 = next((n for n, size in enumerate(sizes(table)) if size >= MIB), 0)
    return stage.Question(
        "l2_over_l1",
        "How many times as long does a load wait for the L2 as for the L1?",
        "number",
        round(float(l2 / l1), 1),
        f"On {device} it is {l2:.0f} cycles and {l1:.0f}: {l2 / l1:.1f} times.",
        step=beyond_l1,
        unit="times",
        view="latency",
        tolerance=stage.MEASURED,
        veils=("sentence", "strip", "tabs"),
    )


def _question_of_end(table: pd.DataFrame, l1: Edge) -> stage.Question:
    inside = max((n for n, size in enumerate(sizes(table)) if size <= l1.fits), default=0)
    return stage.Question(
        "l1_holds",
        "Up to which working set does every load of the chain find its data in the L1?",
        "options",
        1,
        f"{frames(table, {})[inside]['sentence']} The next one measured is slower.",
        options=[bytes_said(size) for size in (l1.fits // 16, l1.fits, l1.fits * 16)],
        step=inside,
        view="latency",
        veils=("sentence", "strip", "picture", "tabs"),
    )


def levels_tab(measured: Measured, label: str) -> list[Block]:
    """Returns the plateaus next to the textbook's figures, the ends of the caches, and links to stories."""
    levels, machine = plateaus(measured.table), machine_of(measured.device)
    caption = (
        f"Cycles, ns, GB/s: {label}, medians over the plateau (latency: L1 up to 128 KiB, L2 from 512 KiB to 16 MiB, "
        "device memory from 128 MiB); timed builds of a pointer chase and of a stream whose output equalled the "
        "reference. A chain's figure holds the address arithmetic too: none in shared memory, two additions in global. "
        "Textbook cycles: the round figures that courses give, of no GPU in particular; they are not measured."
    )
    return [
        stage.text(sentence(levels, measured.device)),
        stage.table(as_text(levels), caption),
        stage.heading("Where each cache ends"),
        *(stage.text(said, "derived") for said in _end_sentences(measured.table)),
        *([stage.text(_shared_sentence(machine))] if machine else []),
        stage.heading("Where kernels meet it"),
        *kernels_that_meet(),
    ]


def _end_sentences(table: pd.DataFrame) -> list[str]:
    """Returns a sentence for each end of a cache, by the chain and by the stream."""
    sources = {"latency": "One chain of loads", "bandwidth": "The stream of the whole GPU"}
    found = []
    for kind, source in sources.items():
        for edge in edges(table, kind):
            beyond = f", and no longer at {bytes_said(edge.leaves)}" if edge.leaves else ""
            found.append(f"{source} has {level_name(edge.level)}'s figure up to {bytes_said(edge.fits)}{beyond}.")
    return found


def _shared_sentence(machine: Machine) -> str:
    return (
        f"Shared memory of a multiprocessor of the {machine.gpu}: {bytes_said(machine.shared_bytes)} (CUDA's table "
        "of compute capabilities)."
    )

"""The tab of the levels: plateaus, the ends of the caches, and kernels that meet each level."""

import pandas as pd

from explainers.stories.memory_hierarchy.level_charts import far_half
from explainers.stories.memory_hierarchy.memory_levels import bytes_said, edges, machine_of, plateaus, short_name
from explainers.story import stage
from explainers.story.stage import Block
from kernels.build.occupancy import Machine
from kernels.measure.hierarchy import Measured

ADDITIONS = (
    "These cycles include additions for the address: two instructions in global memory, and one inside the load of "
    "shared memory. So a load alone is faster."
)
FAR_HALF = (
    "Between L2 and device memory is one more plateau. Likely, these loads go to the half of L2 that is farther from "
    "the SM. The table does not prove it: a mixture of loads from L2 and from device memory could look alike."
)
STORES = {  # CUDA C++ Programming Guide, compute capabilities 8.0 and 9.0
    "A100": "L1 and shared memory share one store of 192 KiB in each SM.",
    "H100": "L1 and shared memory share one store of 256 KiB in each SM, so L1 ends below 256 KiB.",
    "H200": "L1 and shared memory share one store of 256 KiB in each SM, so L1 ends below 256 KiB.",
}


PAGES: tuple[tuple[str, str, str, dict[str, str]], ...] = (  # level, path of a story, its sight, choices
    ("Registers", "registers", "scores that never leave the registers", {}),  # it opens at the step with a held row
    ("Shared memory", "bank_conflicts", "32 lanes that want the same bank", {"step": "1"}),
    ("L1 cache", "coalescing", "how many sectors a load of a warp brings", {"step": "1"}),
    ("L2 cache", "block_table", "a KV cache whose pages lie anywhere", {"view": "walk", "step": "2"}),
    ("Device memory", "tiling", "a tile that a kernel fetches from it", {"step": "2"}),
)


def as_text(levels: pd.DataFrame) -> pd.DataFrame:
    """Returns the plateaus as texts, empty without a measurement. A level without any figure, such as registers, has no
    row."""
    formats = {"cycles": "{:.1f}", "ns": "{:.1f}", "GB/s": "{:,.0f}"}
    levels = levels[levels[list(formats)].notna().any(axis=1) | levels.level.str.endswith("not measured yet")]
    texts = {name: ["" if pd.isna(v) else form.format(v) for v in levels[name]] for name, form in formats.items()}
    return levels.assign(**texts)


def _waits(levels: pd.DataFrame) -> str:
    """Returns the cycles of each level in words, or "" if a level lacks a measurement. levels: by name."""
    names = ("Shared memory", "L1 cache", "L2 cache", "Device memory")
    cycles = [levels.cycles[name] for name in names]
    if pd.isna(cycles).any():
        return ""
    shared, l1, l2, far = cycles
    return (
        f"a load and its address take {shared:.0f} cycles in shared memory, {l1:.0f} in L1, {l2:.0f} in L2 and "
        f"{far:.0f} in device memory"
    )


def sentence(levels: pd.DataFrame, device: str) -> str:
    """Returns a sentence with the cycles of the plateaus."""
    at = levels.set_index("level")
    waits = _waits(at)
    if not waits:
        return f"Only a part of {device} has been measured so far."
    l1, l2, far = (at.cycles[name] for name in ("L1 cache", "L2 cache", "Device memory"))
    times = f"L2 takes {l2 / l1:.1f} times as long as L1, and device memory {far / l1:.1f} times"
    return f"On {device}, {waits}. So {times}."


def lesson(table: pd.DataFrame) -> str:
    """Returns the latencies of the levels in one sentence, or "" if a level lacks a measurement."""
    at = plateaus(table).set_index("level")
    waits = _waits(at)
    if not waits:
        return ""
    said = f"The farther the data is, the longer it takes: {waits}."
    return f"{said} L1 is near, too, but only in shared memory the kernel decides what stays."


def levels_tab(measured: Measured, label: str) -> list[Block]:
    """Returns the plateaus the ends of the caches, and links to stories."""
    levels, machine = plateaus(measured.table), machine_of(measured.device)
    caption = (
        f"Cycles, ns and GB/s are {label}: medians over a plateau of a pointer chase or a streaming read. GB/s are "
        "those of all SMs together. Since Maxwell, textures and L1 share one cache."
    )
    facts = [
        stage.text(ADDITIONS),
        *(stage.text(said, "derived") for said in _end_sentences(measured.table)),
        *([stage.text(_shared_sentence(machine))] if machine else []),
        *(stage.text(said) for gpu, said in STORES.items() if gpu in measured.device),
        *([stage.text(FAR_HALF)] if far_half(measured.table) else []),
    ]
    return [
        stage.text(sentence(levels, measured.device)),
        stage.row([stage.table(as_text(levels), caption)], [stage.heading("Content of the figures"), *facts]),
        stage.heading("Kernels that meet the levels"),
        *(stage.link(f"{level}: {sight}", story, query) for level, story, sight, query in PAGES),
    ]


def _end_sentences(table: pd.DataFrame) -> list[str]:
    """Returns a sentence for each end of a cache, by the chain and by the stream."""
    sources = {
        "latency": "One SM, by a chain of loads",
        "bandwidth": "All SMs, each with its own L1, by streaming reads",
    }
    found = []
    for kind, source in sources.items():
        for edge in edges(table, kind):
            beyond = f", and no longer at {bytes_said(edge.leaves)}" if edge.leaves else ""
            found.append(f"{source}: as fast as {short_name(edge.level)} up to {bytes_said(edge.fits)}{beyond}.")
    return found


def _shared_sentence(machine: Machine) -> str:
    return f"An SM of the {machine.gpu} has {bytes_said(machine.shared_bytes)} of shared memory, from CUDA's table."

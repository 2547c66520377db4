"""Questions about the levels of the memory: how far L2 is, and what happens at the end of L1."""

import pandas as pd

from explainers.stories.memory_hierarchy.memory_levels import (
    MIB,
    Edge,
    bytes_said,
    edges,
    latencies,
    plateaus,
    stairs,
)
from explainers.story.questions import idea
from explainers.story.stage import Question


def questions(table: pd.DataFrame) -> list[Question]:
    """Returns the questions. The table has their keys."""
    cycles, known = plateaus(table).set_index("level").cycles, edges(table)
    if cycles[["L1 cache", "L2 cache", "Device memory"]].isna().any() or not known:
        return []
    return [_distance(table, cycles), _end(table, known[0], cycles)]


def _distance(table: pd.DataFrame, cycles: pd.Series) -> Question:
    l1, l2, far = cycles["L1 cache"], cycles["L2 cache"], cycles["Device memory"]
    step = next((n for n, size in enumerate(stairs(table)) if size >= MIB), 0)
    wrong = {
        "Just as long, as both are on the chip": f"Both are on the chip, but L2 is shared by all SMs: {l2:.0f} cycles.",
        "Twice as long": f"L1 answers after {l1:.0f} cycles and L2 only after {l2:.0f}.",
        "About 100 times as long": f"Even device memory needs only {far / l1:.0f} times as long as L1.",
    }
    return idea(
        "l2_over_l1",
        "A load misses L1 and finds its data in L2. How long does it wait, compared with a hit in L1?",
        f"About {l2 / l1:.0f} times as long",
        wrong,
        f"L1 answers after {l1:.0f} cycles and L2 after {l2:.0f}. Data must stay close to be fast.",
        step=step,
        view="latency",
        veils=("strip", "tabs"),
        hides=_shown(table, stairs(table)[step]),
        covers=[{"beyond": True}],
    )


def _end(table: pd.DataFrame, l1: Edge, cycles: pd.Series) -> Question:
    step = max((n for n, size in enumerate(stairs(table)) if size <= l1.fits), default=0)
    fits = bytes_said(l1.fits)
    wrong = {
        "It grows a little with each byte": f"Up to {fits} it does not grow at all.",
        "It stays, as the GPU loads ahead": "Each load needs the address from the load before, so nothing is ahead.",
        "It falls, as more data is in flight": "Only one load is in flight at a time.",
    }
    return idea(
        "l1_holds",
        "The data grows until L1 cannot hold it. How does the wait for a load change?",
        "It jumps to the wait for L2",
        wrong,
        f"L1 holds {fits} here. Soon after, each load takes {cycles['L2 cache']:.0f} cycles in place of "
        f"{cycles['L1 cache']:.0f}.",
        step=step,
        view="latency",
        veils=("strip", "tabs"),
        covers=[{"beyond": True}],
    )


def _shown(table: pd.DataFrame, size: int) -> list[str]:
    """Returns the texts of the latencies at a step, in the sentence and in the strip."""
    known = latencies(table)
    figures = [figure for space in ("through_l1", "from_l2") for figure in known.get((space, size), ())]
    return sorted({text for value in figures for text in (f"{value:.0f}", f"{value:.1f}")})

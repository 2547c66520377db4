"""Decoding over a work list: equal ranges of pages, and the merge of their partial results."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from explainers.stories.block_table import paging, range_tables
from explainers.stories.block_table.paging import Paged
from explainers.stories.block_table.range_types import RangesList, RangesMeta
from explainers.stories.block_table.range_walk import STAGES, WARPS, Walked, walk
from explainers.stories.block_table.work_lists import FIRST, LIST_AXES, PAGES, SEQ, WorkList, lists_of
from explainers.stories.occupancy import grid
from explainers.story import axes, probed, stage
from explainers.story.glossary import short
from kernels.core.spec import KernelSpec
from kernels.run.results import Run

NEEDS = {
    "score": ("sequence", "head", "token"),
    "warp_m": ("sequence", "head", "tile"),
    "warp_l": ("sequence", "head", "tile"),
    "m": ("sequence", "head", "partition"),
    "l": ("sequence", "head", "partition"),
    "weight": ("sequence", "head", "partition"),
    "m_all": ("sequence", "head"),
    "l_all": ("sequence", "head"),
}
WANTS = tuple(NEEDS)


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel computes attention over pages from a work list, and logs m and l of warps, units and
    merges."""
    request = probed.sample(spec)
    listed = bool(axes.with_axes(request, *LIST_AXES))
    return listed and paging.attends(request) and probed.logs(spec, NEEDS)


def shares(spec: KernelSpec) -> bool:
    """Whether the kernel also has a list of shared prefixes."""
    return len(lists_of(probed.sample(spec))) > 1


def view(
    run: Run, story: Walked, names: Sequence[str], colours: Sequence[str]
) -> tuple[RangesMeta, dict[str, np.ndarray]]:
    """Returns the meta and the columns of the view `ranges`. names, colours: the sequences."""
    paged, constants = Paged(run.request), run.request.constants
    meta: RangesMeta = {
        "frames": story.frames,
        "names": list(names),
        "colours": list(colours),
        "sequence": story.sequence,
        "head": story.head,
        "kv_head": story.kv_head,
        "length": int(paging.lengths(run)[story.sequence]),
        "size": paged.block_size,
        "lists": [_list(run, made) for made in story.lists],
        "units": story.units,
        "stages": int(constants[STAGES]),
        "stage_pages": max(1, 16 * int(constants[WARPS]) // paged.block_size),
        "warps": int(constants[WARPS]),
        "merged": story.merged,
    }
    columns = {"scores": story.scores, "o": story.o}
    if story.score_errors is not None:
        columns["errors"] = story.score_errors
    return meta, columns


def _list(run: Run, made: WorkList) -> RangesList:
    """Returns a work list as a strip: its pages end to end, and the pieces of each range."""
    tables = [paging.pages_of(run, n) for n in range(len(paging.lengths(run)))]
    cells: list[list[int]] = []
    units: list[list[int]] = []
    for unit in made.in_order:
        row = made.table[unit]
        units.append([unit, made.range_of[unit], len(cells), int(row[PAGES])])
        cells += [[int(row[SEQ]), e, tables[row[SEQ]][e]] for e in range(row[FIRST], row[FIRST] + row[PAGES])]
    sharers = {unit: made.sequences(unit) for unit in made.in_order}
    return {"shared": made.shared, "ranges": made.ranges, "cells": cells, "units": units, "sharers": sharers}


def stage_of(
    run: Run,
    names: Sequence[str],
    colours: Sequence[str],
    place: tuple[int, int],
    provenance: stage.Provenance,
    tabs: Iterable[stage.Tab] = (),
    live: tuple[int, str] | None = None,
) -> stage.Stage:
    """Returns the whole stage of a whole run.

    names, colours: the sequences.
    place: the followed sequence and query head.
    tabs: the tabs after those of the lists.
    live: as in grid.view.
    """
    story = walk(run, names, *place)
    own = [
        stage.Tab("list", "Work list", range_tables.list_blocks(story, names)),
        stage.Tab("merge", "Merge", range_tables.merge_blocks(story, names[story.sequence])),
    ]
    return stage.Stage(
        headline=stage.headline(run.request.kernel),
        frames=story.frames,
        views=[
            stage.View("ranges", "ranges", "Ranges", *view(run, story, names, colours)),
            grid.view(run.request, live),
        ],
        codes=[stage.code(run.request, story.frames)],
        state=states(story),
        tabs=[*own, *tabs],
        provenance=provenance,
    )


def states(story: Walked) -> list[stage.State]:
    """Returns the strip: range, page, warp, current m and l, and the bytes that the followed blocks read."""
    units = story.units

    def of(key: str) -> list[Any]:
        return [f.get(key) for f in story.frames]

    found = [
        stage.State(
            "range",
            [units[f["unit"]]["range"] if f["unit"] >= 0 and not f.get("merged") else None for f in story.frames],
        ),
        stage.State("page", of("page")),
        stage.State("warp", of("warp")),
        stage.State("max m", of("m"), colour="S"),
        stage.State("sum l", of("l"), colour="P"),
        stage.State("read so far", np.cumsum([f["read"] for f in story.frames]).tolist(), "B", colour="load"),
    ]
    if story.score_errors is not None:
        worst = [
            float(np.nanmax(story.score_errors[f["tokens"][0] : f["tokens"][1] + 1])) if "tokens" in f else None
            for f in story.frames
        ]
        found.append(stage.State("score off by", [None if w is None else short(w) for w in worst]))
    return found

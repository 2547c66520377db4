"""Decoding over a work list: equal ranges of pages, and the merge of their partial results."""

from collections.abc import Iterable, Sequence

import numpy as np

from explainers.models import grid
from explainers.stories.block_table import paging, range_tables
from explainers.stories.block_table.paging import Paged
from explainers.stories.block_table.range_types import RangesFrame, RangesList, RangesMeta
from explainers.stories.block_table.range_walk import Walked, walk
from explainers.stories.block_table.work_lists import FIRST, LIST_AXES, PAGES, SEQ, WorkList, list_names
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
WARP_TOKENS = 16  # tokens of a warp's product


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel computes attention over pages from a work list, and logs m and l of each part."""
    request = probed.sample(spec)
    has_list = bool(axes.with_axes(request, *LIST_AXES))
    return has_list and paging.attends(request) and probed.logs(spec, NEEDS)


def shares(spec: KernelSpec) -> bool:
    """Whether the kernel also has a list of shared prefixes."""
    return len(list_names(probed.sample(spec))) > 1


def view(
    run: Run, story: Walked, names: Sequence[str], colours: Sequence[str]
) -> tuple[RangesMeta, dict[str, np.ndarray]]:
    """Returns the meta and the columns of the view `ranges`. names, colours: the sequences."""
    request, paged = run.request, Paged(run.request)
    warps = request.required_value_of("warps")
    meta: RangesMeta = {
        "frames": story.frames,
        "names": list(names),
        "colours": list(colours),
        "sequence": story.sequence,
        "head": story.head,
        "kv_head": story.kv_head,
        "length": int(paging.lengths(run)[story.sequence]),
        "size": paged.block_size,
        "lists": [_strip(run, work_list) for work_list in story.lists],
        "units": story.units,
        "stages": request.required_value_of("stages"),
        "stage_pages": max(1, WARP_TOKENS * warps // paged.block_size),
        "warps": warps,
        "merged": story.merged,
    }
    columns = {"scores": story.scores, "o": story.o}
    if story.errors:
        columns["errors"] = story.errors.scores
    return meta, columns


def _strip(run: Run, work_list: WorkList) -> RangesList:
    """Returns a work list as a strip: its pages end to end, and the pieces of each range."""
    tables = [paging.pages_of(run, n) for n in range(len(paging.lengths(run)))]
    cells: list[list[int]] = []
    units: list[list[int]] = []
    for unit in work_list.in_order:
        row = work_list.table[unit]
        sequence, first, pages = int(row[SEQ]), int(row[FIRST]), int(row[PAGES])
        units.append([unit, work_list.range_of[unit], len(cells), pages])
        cells += [[sequence, entry, tables[sequence][entry]] for entry in range(first, first + pages)]
    return {
        "shared": work_list.shared,
        "ranges": work_list.ranges,
        "cells": cells,
        "units": units,
        "sharers": {unit: work_list.sequences(unit) for unit in work_list.in_order},
    }


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
    tabs: the tabs after the lists'.
    live: as in grid.view.
    """
    story = walk(run, names, *place)
    own = [
        stage.Tab("list", "Work list", range_tables.list_blocks(story, names)),
        stage.Tab("merge", "Merge", range_tables.merge_blocks(story, names[story.sequence])),
    ]
    return stage.of_request(
        run.request,
        story.frames,
        [
            stage.View("ranges", "ranges", "Ranges", *view(run, story, names, colours)),
            grid.view(run.request, live),
        ],
        state=states(story),
        tabs=[*own, *tabs],
        provenance=provenance,
    )


def states(story: Walked) -> list[stage.State]:
    """Returns the strip: range, page, warp, current m and l, and the bytes that the followed blocks read."""

    def of(key: str) -> list[object]:
        return [frame.get(key) for frame in story.frames]

    found = [
        stage.State("range", [_range_of(story, frame) for frame in story.frames]),
        stage.State("page", of("page")),
        stage.State("warp", of("warp")),
        stage.State("max m", of("m"), colour="S"),
        stage.State("sum l", of("l"), colour="P"),
        stage.State("read so far", np.cumsum([f["read"] for f in story.frames]).tolist(), "B", colour="load"),
    ]
    if story.errors:
        scores = story.errors.scores
        found.append(stage.State("score off by", [_score_error(scores, frame) for frame in story.frames]))
    return found


def _range_of(story: Walked, frame: RangesFrame) -> int | None:
    """Returns the range of a frame. The plan and the merge have none."""
    in_unit = frame["unit"] >= 0 and not frame.get("merged")
    return story.units[frame["unit"]]["range"] if in_unit else None


def _score_error(errors: np.ndarray, frame: RangesFrame) -> str | None:
    """Returns the largest error of a score in the frame's tokens, if it has any."""
    if "tokens" not in frame:
        return None
    first, last = frame["tokens"]
    return short(float(np.nanmax(errors[first : last + 1])))

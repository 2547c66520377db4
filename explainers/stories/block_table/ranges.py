"""Decoding over a work list: equal ranges of pages, and the merge of their partial results."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from explainers.models import grid
from explainers.stories.block_table import paging
from explainers.stories.block_table.paging import Paged
from explainers.stories.block_table.range_trace import (
    FIRST,
    LIST_AXES,
    PAGES,
    SEQ,
    RangesFrame,
    RangesList,
    RangesMeta,
    WorkList,
    list_names,
)
from explainers.stories.block_table.range_walk import Walked, walk
from explainers.story import axes, probed, stage
from explainers.story.glossary import listed, short
from kernels.core.spec import KernelSpec
from kernels.kv_cache.work_list import FIELDS
from kernels.run.results import Run


def list_blocks(story: Walked, names: Sequence[str]) -> list[stage.Block]:
    """Returns every unit of every list, as the kernel reads it."""
    rows = []
    for work_list in story.lists:
        for unit in range(len(work_list.table)):
            row = dict(zip(FIELDS, work_list.table[unit].tolist()))
            then = row["next"] if row["next"] >= 0 else None
            kept = work_list.shared or row["partitions"] > 1  # an uncut sequence writes O at once
            sharers = listed([names[s] for s in work_list.sequences(unit)])
            rows.append(
                {
                    "list": "shared prefix" if work_list.shared else "own pages",
                    "unit": unit,
                    "range": work_list.range_of[unit],
                    "sequence": sharers,
                    "first entry": row["first"],
                    "pages": row["pages"],
                    "next unit": then,
                    "partition": row["partition"],
                    "slot": row["slot"] + row["partition"] if kept else None,
                    "followed": story.sequence in work_list.sequences(unit),
                }
            )
    table = pd.DataFrame(rows).convert_dtypes()
    if not any(work_list.shared for work_list in story.lists):
        table = table.drop(columns="list")
    caption = (
        "The work list as the kernel reads it, made on the host before each step. Lit: the units that the steps follow."
    )
    return [stage.table(table, caption, lit="followed")]


def merge_blocks(story: Walked, name: str) -> list[stage.Block]:
    """Returns every partial result of the sequence, and their merge."""
    rows: list[dict[str, object]] = [
        {
            "partition": unit["partition"],
            "range": f"{'prefix range' if story.lists[unit['list']].shared else 'range'} {unit['range']}",
            "tokens": f"{unit['tokens'][0]} to {unit['tokens'][1] - 1}",
            "m_i": unit["m"],
            "l_i": unit["l"],
            "e^(m_i - m)": unit.get("weight", 1.0),
            "l_i e^(m_i - m)": unit["l"] * unit.get("weight", 1.0),
        }
        for unit in story.units
    ]
    total = sum(unit["l"] * unit.get("weight", 1.0) for unit in story.units)
    whole = {
        "partition": None,
        "range": f"all of {name}",
        "tokens": "all",
        "m_i": story.merged["m"],
        "l_i": story.merged["l"],
    }
    table = pd.DataFrame([*rows, whole | {"e^(m_i - m)": None, "l_i e^(m_i - m)": total}]).convert_dtypes()
    said = "Logged: m = max m_i,  l = \u03a3 l_i e^(m_i - m),  O = \u03a3 O_i e^(m_i - m) / l"
    return [stage.table(table, said)]


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
        stage.Tab("list", "Work list", list_blocks(story, names)),
        stage.Tab("merge", "Merge", merge_blocks(story, names[story.sequence])),
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

    return [
        stage.State("range", [_range_of(story, frame) for frame in story.frames]),
        stage.State("page", of("page")),
        stage.State("warp", of("warp")),
        stage.State("max m", of("m"), colour="S"),
        stage.State("sum l", of("l"), colour="P"),
        stage.State("read so far", np.cumsum([f["read"] for f in story.frames]).tolist(), "B", colour="load"),
    ]


def _range_of(story: Walked, frame: RangesFrame) -> int | None:
    """Returns the range of a frame. The plan and the merge have none."""
    in_unit = frame["unit"] >= 0 and not frame.get("merged")
    return story.units[frame["unit"]]["range"] if in_unit else None


def asked(made: stage.Stage) -> dict[str, object]:
    """The names for the questions about the equal ranges, and the merge of the sequence.

    longest: pages of the longest range. most: pages of the longest sequence. low: the piece with the least weight.
    """
    meta: RangesMeta = made.views[0].meta
    own, units, merged = meta["lists"][-1], meta["units"], meta["merged"]["m"]
    low = min(units, key=lambda unit: unit["weight"]) if len(units) > 1 and "weight" in units[0] else None
    per_sequence = Counter(cell[0] for cell in own["cells"])
    per_range = Counter[int]()
    for _, number, _, pages in own["units"]:
        per_range[number] += pages
    names: dict[str, object] = {
        **{"view": "ranges", "name": meta["names"][meta["sequence"]], "pieces": len(units), "m": merged, "low": low},
        **{"pages": len(own["cells"]), "ranges": own["ranges"]},
        **{"longest": max(per_range.values()), "most": max(per_sequence.values())},
    }
    if low:
        names |= {
            **{"part": units.index(low), "merged": next(n for n, f in enumerate(made.frames) if f.get("merged"))},
            "power": f"e^({short(low['m'])} - {short(merged)})".replace("- -", "+ "),
            "digits": sorted({f"{low['weight']:.{digits}g}" for digits in (3, 4, 5)}),
        }
    return names

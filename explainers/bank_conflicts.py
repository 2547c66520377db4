"""Bank conflicts: a warp's accesses of shared memory, wavefront by wavefront, and what each source line of a kernel costs.

Lanes, offsets and widths are logged; banks, passes and wavefronts are derived by the rules of kernels/memory.py.
"""

from dataclasses import dataclass

import altair as alt
import pandas as pd

from explainers.glossary import count
from explainers.palette import AXIS, OKABE_ITO
from kernels import memory
from kernels.probes import READS

SHOWN_ACCESSES = 16  # of one warp, so that a story stays short enough to step through
KINDS = {"load": "a load", "store": "a store", "ldmatrix": "an ldmatrix", "cp_async": "a cp.async", "cp_async_l2": "a cp.async past L1"}


@dataclass(frozen=True)
class Story:
    """frames: one per wavefront; each has access (its place in `accesses`), wavefront, sentence, title and lines.

    accesses: a dict per access for the view: line, kind, bytes, tensor, wavefronts, ideal, and cells: [lane, bank, wavefront, word, sharers, pass].
    left_out: accesses of the warp that are not shown.
    """

    frames: list[dict]
    accesses: list[dict]
    left_out: int


def explain(run, line=None, warp=0):
    """The Story of one warp of the traced block: its accesses of shared memory, or only those of the probe on that line."""
    found = memory.requests(run.trace, "shared")
    sites = run.request.sites
    table = found.table
    first = table.block.min() if len(table) else 0
    keep = (table.block == first) & (table.warp == warp)
    if line is not None:
        keep &= table.line == line
    mine = found.where(keep)
    accesses, frames = [], []
    for number in range(min(SHOWN_ACCESSES, len(mine.table))):
        row = mine.table.iloc[number]
        access = _access(row, mine.offsets[number], mine.active[number])
        accesses.append(access)
        for wavefront in range(max(1, access["wavefronts"])):
            frames.append({"tile": number, "access": number, "wavefront": wavefront, "title": f"Access {number} · {wavefront + 1} of {access['wavefronts']}",
                           "sentence": _sentence(number, access, wavefront), "lines": {sites[row.line].code_line: 1}})
    return Story(frames, accesses, max(0, len(mine.table) - SHOWN_ACCESSES))


def _access(row, offsets, active):
    """What the view draws of one access."""
    addresses = [int(o) if on else None for o, on in zip(offsets, active)]
    matrices = {8: 1, 16: 2}.get(int(active.sum()), 4) if row.kind == "ldmatrix" else 4
    found = memory.shared_wavefronts(addresses, int(row.bytes), row.kind, matrices)
    parts = sorted({touch.part for touches in found.banks.values() for touch in touches})
    longest = {part: max(touch.wavefront for touches in found.banks.values() for touch in touches if touch.part == part) + 1 for part in parts}
    start = {part: sum(longest[p] for p in parts if p < part) for part in parts}
    cells = [[lane, bank, start[touch.part] + touch.wavefront, touch.word, len(touch.lanes), touch.part]
             for bank, touches in found.banks.items() for touch in touches for lane in touch.lanes]
    return {"line": int(row.line), "kind": KINDS[row.kind], "bytes": int(row.bytes), "tensor": row.tensor, "active": int(active.sum()), "cells": sorted(cells),
            "wavefronts": found.wavefronts, "ideal": found.ideal, "conflicts": found.conflicts, "parts": [[start[p], start[p] + longest[p]] for p in parts]}


def _sentence(number, access, wavefront):
    """What this wavefront serves, and why the access takes as many as it does."""
    cells, parts = access["cells"], access["parts"]
    now = [cell for cell in cells if cell[2] == wavefront]
    lanes, words = sorted({cell[0] for cell in now}), {cell[3] for cell in now}
    part = next((n for n, (start, end) in enumerate(parts) if start <= wavefront < end), 0)
    start, end = parts[part] if parts else (0, 1)
    in_part = [cell for cell in cells if start <= cell[2] < end]
    want = {}
    for cell in in_part:
        want.setdefault(cell[1], set()).add(cell[3])
    worst = max(want, key=lambda bank: len(want[bank]))
    served = [cell[0] for cell in in_part]
    whose = "the warp" if len(parts) == 1 else f"pass {part + 1} of {len(parts)} (lanes {min(served)} to {max(served)})"
    text = f"Access {number}, {access['kind']} of {access['bytes']} bytes a lane of {access['tensor']}: "
    if len(want[worst]) > 1:
        text += f"{whose} wants {len(want[worst])} different words of bank {worst}, so it takes {end - start} wavefronts. "
    elif len(in_part) > len({cell[3] for cell in in_part}):
        text += f"{whose} wants at most one word of each bank, and lanes that want the same word share it: 1 wavefront. "
    else:
        text += f"{whose} wants at most one word of each bank: 1 wavefront. "
    return text + f"Wavefront {wavefront + 1} of {access['wavefronts']} serves {_lanes(lanes)} with {count(len(words), 'word')}."


def _lanes(lanes):
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if lanes == list(range(lanes[0], lanes[-1] + 1)):
        return f"lanes {lanes[0]} to {lanes[-1]}"
    return f"{len(lanes)} lanes"


def reading(story):
    """Wavefronts, ideal and conflicts per access of the shown accesses that read (a walk), as means; the table's row for the metrics on top."""
    shown = [a for a in story.accesses if a["kind"] in [KINDS[kind] for kind in READS]] or story.accesses
    return {name: sum(a[name] for a in shown) / max(1, len(shown)) for name in ("wavefronts", "ideal", "conflicts")}


def compare_padding(plain, padded):
    """Per source line, wavefronts per request of a run without and with padding, and at best; the sums over all requests beside them."""
    sites, source = plain.request.sites, plain.request.kernel.source.splitlines()
    tables = [memory.requests(run.trace, "shared").by_line for run in (plain, padded)]
    keys = ["launch", "line"]
    both = tables[0].merge(tables[1][[*keys, "wavefronts"]], on=keys, suffixes=("_without", "_with"))
    code = [sites[line].code_line for line in both.line]
    return pd.DataFrame({"source line": code, "tensor": both.tensor, "kind": both.kind, "bytes": both.bytes, "requests": both.requests,
                         "at best": both.ideal / both.requests, "not padded": both.wavefronts_without / both.requests,
                         "padded": both.wavefronts_with / both.requests, "access": [source[number - 1].strip() for number in code],
                         "wavefronts without": both.wavefronts_without, "wavefronts with": both.wavefronts_with})


def padding_sentence(table):
    """What padding changes in all, in a sentence."""
    before, after = int(table["wavefronts without"].sum()), int(table["wavefronts with"].sum())
    worst = table.loc[(table["wavefronts without"] - table["wavefronts with"]).idxmax()]
    return (f"All accesses of shared memory together: {before:,} wavefronts without padding, {after:,} with it. Most of that is line {worst['source line']}: "
            f"{worst['not padded']:g} wavefronts a request without, {worst['padded']:g} with, {worst['at best']:g} at best.")


def cycles_chart(table, now=None):
    """Measured cycles per access against derived wavefronts, a point per recorded setting; the line is one cycle a wavefront; `now` is marked."""
    tips = ["stride:Q", "WIDTH:Q", "PAD:Q", "SWIZZLE:Q", "MATRICES:Q", alt.Tooltip("wavefronts:Q", format=".3g"), alt.Tooltip("cycles:Q", format=".4g")]
    axis = alt.Scale(type="log", base=2, domain=[1, 40])
    x = alt.X("wavefronts:Q", scale=axis, title="wavefronts per access (derived)", axis=alt.Axis(values=[1, 2, 4, 8, 16, 32]))
    y = alt.Y("cycles:Q", scale=axis, title="cycles per access (measured)", axis=alt.Axis(values=[1, 2, 4, 8, 16, 32]))
    points = alt.Chart(table).mark_point(filled=True, size=60, opacity=0.75, color=OKABE_ITO["blue"]).encode(x=x, y=y, tooltip=tips)
    line = alt.Chart(pd.DataFrame({"wavefronts": [1, 32], "cycles": [1, 32]})).mark_line(color=AXIS, strokeDash=[4, 4]).encode(x=x, y=y)
    layers = [line, points]
    if now is not None and len(now):
        layers.append(alt.Chart(now).mark_point(size=220, strokeWidth=3, color=OKABE_ITO["vermillion"]).encode(x=x, y=y, tooltip=tips))
    return alt.layer(*layers).properties(height=300)

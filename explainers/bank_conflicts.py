"""Bank conflicts: a warp's accesses of shared memory, wavefront by wavefront, and what each source line of a kernel
costs.

Lanes, offsets and widths are logged; banks, passes and wavefronts are derived by the rules of kernels/memory/model.py.
"""

from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from explainers import stories
from explainers.frames import BankAccess, BankFrame, BanksMeta
from explainers.glossary import count
from explainers.palette import AXIS, OKABE_ITO
from kernels.core.spec import KernelSpec
from kernels.memory import model
from kernels.run.results import Run
from kernels.trace.kinds import READS, kind_of
from kernels.trace.probes import sites_of

SHOWN_ACCESSES = 16  # of one warp, so that a story stays short enough to step through
WANTS = ("walk",)


@dataclass(frozen=True)
class Story:
    """frames: one per wavefront of each access, for the browser. accesses: what the view draws of each. left_out:
    accesses of the warp that are not shown."""

    frames: list[BankFrame]
    accesses: list[BankAccess]
    left_out: int


def accepts(spec: KernelSpec) -> bool:
    """Every kernel that has a probe of an access of shared memory."""
    return stories.accesses(spec, "shared")


def explain(run: Run, at: tuple[str, int] | None = None, warp: int = 0) -> Story:
    """The Story of one warp of the traced block: its accesses of shared memory, or only those of the probe at (file,
    line)."""
    found = model.requests(run.trace, space="shared")
    sites, table = sites_of(run.request), found.table
    first = table.block.min() if len(table) else 0
    keep = (table.block == first) & (table.warp == warp)
    if at is not None:
        keep &= (table.file == at[0]) & (table.line == at[1])
    mine = found.where(keep)
    accesses: list[BankAccess] = []
    frames: list[BankFrame] = []
    for number in range(min(SHOWN_ACCESSES, len(mine.table))):
        row = mine.table.iloc[number]
        site, access = sites.find(row.file, row.line), _access(row, mine.offsets[number], mine.active[number])
        accesses.append(access)
        total = access["wavefronts"]
        for wavefront in range(max(1, total)):
            frames.append(
                {
                    "tile": number,
                    "access": number,
                    "wavefront": wavefront,
                    "title": f"Access {number} · {f'{wavefront + 1} of {total}' if total else 'no wavefront'}",
                    "sentence": _sentence(number, access, wavefront),
                    "lines": {site.place: 1},
                }
            )
    return Story(frames, accesses, max(0, len(mine.table) - SHOWN_ACCESSES))


def view(story: Story) -> BanksMeta:
    """What the view `banks` draws."""
    return {"frames": story.frames, "accesses": story.accesses}


def _access(row: Any, offsets: np.ndarray, active: np.ndarray) -> BankAccess:
    """What the view draws of one access."""
    addresses = [int(o) if on else None for o, on in zip(offsets, active)]
    matrices = {8: 1, 16: 2}.get(int(active.sum()), 4) if row.kind == "ldmatrix" else 4
    found = model.shared_wavefronts(addresses, int(row.bytes), row.kind, matrices)
    touches = [(bank, touch) for bank, mine in found.banks.items() for touch in mine]
    parts = sorted({touch.part for _, touch in touches})
    longest = {part: max(touch.wavefront for _, touch in touches if touch.part == part) + 1 for part in parts}
    start = {part: sum(longest[p] for p in parts if p < part) for part in parts}
    cells = [
        [lane, bank, start[touch.part] + touch.wavefront, touch.word, len(touch.lanes), touch.part]
        for bank, touch in touches
        for lane in touch.lanes
    ]
    return {
        "file": str(row.file),
        "line": int(row.line),
        "kind": kind_of(row.kind, "shared").said,
        "bytes": int(row.bytes),
        "tensor": row.tensor,
        "active": int(active.sum()),
        "cells": sorted(cells),
        "wavefronts": found.wavefronts,
        "ideal": found.ideal,
        "conflicts": found.conflicts,
        "parts": [[start[p], start[p] + longest[p]] for p in parts],
    }


def _sentence(number: int, access: BankAccess, wavefront: int) -> str:
    """What this wavefront serves, and why the access takes as many as it does."""
    cells, parts = access["cells"], access["parts"]
    text = f"Access {number}, {access['kind']} of {access['bytes']} bytes a lane of {access['tensor']}: "
    if not access["wavefronts"]:
        return text + "no lane takes part, or the data goes past this pipe: no wavefront."
    now = [cell for cell in cells if cell[2] == wavefront]
    lanes, words = sorted({cell[0] for cell in now}), {cell[3] for cell in now}
    part = next((n for n, (start, end) in enumerate(parts) if start <= wavefront < end), 0)
    start, end = parts[part] if parts else (0, 1)
    in_part = [cell for cell in cells if start <= cell[2] < end]
    want: dict[int, set[int]] = {}
    for cell in in_part:
        want.setdefault(cell[1], set()).add(cell[3])
    worst = max(want, key=lambda bank: len(want[bank]))
    served = [cell[0] for cell in in_part]
    whose = "the warp" if len(parts) == 1 else f"pass {part + 1} of {len(parts)} (lanes {min(served)} to {max(served)})"
    if len(want[worst]) > 1:
        text += (
            f"{whose} wants {len(want[worst])} different words of bank {worst}, so it takes {end - start} wavefronts. "
        )
    elif len(in_part) > len({cell[3] for cell in in_part}):
        text += (
            f"{whose} wants at most one word of each bank, and lanes that want the same word share it: 1 wavefront. "
        )
    else:
        text += f"{whose} wants at most one word of each bank: 1 wavefront. "
    served_now = f"{_lanes(lanes)} with {count(len(words), 'word')}"
    return f"{text}Wavefront {wavefront + 1} of {access['wavefronts']} serves {served_now}."


def _lanes(lanes: list[int]) -> str:
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if lanes == list(range(lanes[0], lanes[-1] + 1)):
        return f"lanes {lanes[0]} to {lanes[-1]}"
    return f"{len(lanes)} lanes"


def reading(story: Story) -> dict[str, float]:
    """Wavefronts, ideal and conflicts per access of the shown accesses that read (a walk), as means; the table's row
    for the metrics on top."""
    said = [kind_of(event, "shared").said for event in READS]
    shown: list[Any] = [a for a in story.accesses if a["kind"] in said] or story.accesses
    names = ("wavefronts", "ideal", "conflicts")
    table = pd.DataFrame([{name: a[name] for name in names} for a in shown], columns=list(names))
    return {name: float(mean) if len(shown) else 0.0 for name, mean in table.mean().items()}


def compare_padding(plain: Run, padded: Run) -> pd.DataFrame:
    """Per source line, wavefronts per request of a run without and with padding, and at best; the sums over all
    requests beside them.

    Columns `file` and `line` name the probe, as explain takes it.
    """
    tables = [model.requests(run.trace, space="shared").by_line for run in (plain, padded)]
    keys = ["launch", "file", "line"]
    both = tables[0].merge(tables[1][[*keys, "wavefronts"]], on=keys, suffixes=("_without", "_with"))
    return pd.DataFrame(
        {
            **source_lines(plain, both),
            "tensor": both.tensor,
            "kind": both.kind,
            "bytes": both.bytes,
            "requests": both.requests,
            "at best": both.ideal / both.requests,
            "not padded": both.wavefronts_without / both.requests,
            "padded": both.wavefronts_with / both.requests,
            "wavefronts without": both.wavefronts_without,
            "wavefronts with": both.wavefronts_with,
            "file": both.file,
            "line": both.line,
        }
    )


def source_lines(run: Run, table: pd.DataFrame) -> dict[str, list[str]]:
    """Of a table of probes (columns file and line), two columns: "source line", FILE:LINE of the access, and "access",
    its text."""
    sites, texts = sites_of(run.request), {name: text.splitlines() for name, text in run.request.kernel.files}
    found = [sites.find(file, line) for file, line in zip(table.file, table.line)]
    return {"source line": [s.place for s in found], "access": [texts[s.file][s.code_line - 1].strip() for s in found]}


def padding_sentence(table: pd.DataFrame) -> str:
    """What padding changes in all, in a sentence."""
    before, after = int(table["wavefronts without"].sum()), int(table["wavefronts with"].sum())
    worst = table.loc[(table["wavefronts without"] - table["wavefronts with"]).idxmax()]
    return (
        f"All accesses of shared memory together: {before:,} wavefronts without padding, {after:,} with it. Most of "
        f"that is "
        f"{worst['source line']}: {worst['not padded']:g} wavefronts a request without, {worst['padded']:g} with, "
        f"{worst['at best']:g} at best."
    )


def cycles_chart(table: pd.DataFrame, now: pd.DataFrame | None = None) -> alt.LayerChart:
    """Measured cycles per access against derived wavefronts, a point per recorded setting; the line is one cycle a
    wavefront; `now` is marked."""
    settings = [f"{name}:Q" for name in table.columns if name.isupper()]
    numbers = [alt.Tooltip("wavefronts:Q", format=".3g"), alt.Tooltip("cycles:Q", format=".4g")]
    tips = ["stride:Q", *settings, *numbers]
    scale, ticks = alt.Scale(type="log", base=2, domain=[1, 40]), alt.Axis(values=[1, 2, 4, 8, 16, 32])
    x = alt.X("wavefronts:Q", scale=scale, title="wavefronts per access (derived)", axis=ticks)
    y = alt.Y("cycles:Q", scale=scale, title="cycles per access (measured)", axis=ticks)
    points = (
        alt.Chart(table)
        .mark_point(filled=True, size=60, opacity=0.75, color=OKABE_ITO["blue"])
        .encode(x=x, y=y, tooltip=tips)
    )
    ends = pd.DataFrame({"wavefronts": [1, 32], "cycles": [1, 32]})
    layers = [alt.Chart(ends).mark_line(color=AXIS, strokeDash=[4, 4]).encode(x=x, y=y), points]
    if now is not None and len(now):
        ring = alt.Chart(now).mark_point(size=220, strokeWidth=3, color=OKABE_ITO["vermillion"])
        layers.append(ring.encode(x=x, y=y, tooltip=tips))
    return alt.LayerChart(layer=layers).properties(height=300)

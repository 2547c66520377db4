"""Bank conflicts: a warp's accesses of shared memory, wavefront by wavefront, plain beside padded or swizzled, and what
each source line of a kernel costs.

Lanes, offsets and widths are logged. The rules of kernels/trace/memory/model.py derive banks, passes and wavefronts
from them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from explainers.charts.palette import AXIS, OKABE_ITO, WAVEFRONTS
from explainers.story import marks, probed, stage
from explainers.story.frames import BankAccess, BankFrame, BankSide, BanksMeta, SectorRequest
from explainers.story.glossary import count
from kernels.core.launch import Constant
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.run.results import Run
from kernels.trace.kinds import kind_of
from kernels.trace.memory import model
from kernels.trace.probes import sites_of

SHOWN_ACCESSES = 16  # different ones of one warp
SHOWN_STEPS = 128  # after which no other access begins, so that a story stays short enough to step through
WANTS = ("walk",)
REMEDIES = ("PAD", "SWIZZLE")  # how the constants begin that move the rows of a tile to other banks; 0: they do not
RULE = (
    "A byte's bank is its address / 4, modulo 32. A wavefront serves at most one word (4 bytes) of each bank; lanes "
    "that want the same word share it.",
    "Up to 4 bytes a lane, all 32 lanes are one pass. 8 bytes a lane take two passes of 16 lanes, 16 bytes four of 8; "
    "an ldmatrix one for each matrix.",
    "A pass takes as many wavefronts as the most different words that it wants of one bank. A pass without an active "
    "lane takes none.",
    "A load's passes merge two by two where every active lane n of the warp wants what lane n XOR 1 wants, or every "
    "one what lane n XOR 2 wants.",
    "A cp.async (through L1) is served like a store, but its lanes do not share words.",
    "Which wavefront serves which word is not known of the hardware: here a bank's words are served in the order of "
    "their addresses. Offsets are from the tensor's own base: another base turns the banks, and changes no count.",
)


@dataclass(frozen=True)
class Story:
    """frames: one per wavefront of each different access, as many as the slower side takes, for the browser. sides:
    what the views draw. left_out: different accesses of the warp that are not shown. total: all its accesses of that
    probe."""

    frames: list[BankFrame]
    sides: list[BankSide]
    left_out: int
    total: int


def accepts(spec: KernelSpec) -> bool:
    """Every kernel that has a probe of an access of shared memory."""
    return probed.accesses(spec, "shared")


# ---- plain, and padded or swizzled ----


def remedies(spec: KernelSpec) -> list[Constant]:
    """The constants that move the rows of a tile to other banks."""
    return [c for c in spec.constants if c.name.startswith(REMEDIES) and 0 in c.values]


def pads(spec: KernelSpec) -> bool:
    """Whether the kernel can pad its tiles, and does more than show what comes of it."""
    return any(c.name.startswith("PAD") for c in remedies(spec)) and bool(spec.problem_type().work)


def before_and_after(request: Request) -> tuple[Request, ...]:
    """The request without any remedy, and with the chosen ones; where none is chosen, with the least that is possible.
    Only the request itself, where its kernel has none."""
    found = remedies(request.kernel)
    plain = _with(request, {c.name: 0 for c in found})
    if not found or not _possible(plain):
        return (request,)
    if plain.constants != request.constants:
        return plain, request
    tried = (_with(request, {c.name: value}) for c in found for value in sorted(c.values) if value)
    after = next((other for other in tried if _possible(other)), None)
    return (plain, after) if after else (request,)


def _with(request: Request, changes: dict[str, int]) -> Request:
    return replace(request, settings=tuple({**request.constants, **changes}.items()))


def _possible(request: Request) -> bool:
    try:
        request.kernel.plan(request.problem, request.constants)
    except ProblemError:
        return False
    return True


def names(requests: Sequence[Request]) -> list[str]:
    """What tells each from the others: the remedies that differ."""
    if len(requests) < 2:
        return [""] * len(requests)
    differ = [
        c.name for c in remedies(requests[0].kernel) if len({request.constants[c.name] for request in requests}) > 1
    ]
    return [", ".join(f"{name} {request.constants[name]}" for name in differ) for request in requests]


# ---- one warp's accesses ----


def explain(runs: Sequence[Run], at: tuple[str, int] | None = None, warp: int = 0) -> Story:
    """The Story of one warp of the traced block, in one run or in two that differ by remedies: its accesses of shared
    memory, or only those of the probe at (file, line).

    Accesses that want the same of the banks, up to which banks and words these are, are shown once, and counted.
    """
    every = [model.requests(run.trace, space="shared") for run in runs]
    mine = [_of_warp(found, at, warp) for found in every]
    total = min(len(found.table) for found in mine)
    groups: dict[Any, list[int]] = {}
    for number in range(total):
        groups.setdefault(tuple(_pattern(found, number) for found in mine), []).append(number)
    shown: list[list[BankAccess]] = [[] for _ in runs]
    steps = 0
    for alike in list(groups.values())[:SHOWN_ACCESSES]:
        if steps < SHOWN_STEPS:
            made = [_access(found, alike[0], len(alike)) for found in mine]
            steps += max(access["wavefronts"] for access in made)
            for side, access in zip(shown, made):
                side.append(access)
    titles = names([run.request for run in runs])
    sides: list[BankSide] = [
        {"name": name, "accesses": accesses, **_memory(found, part)}  # type: ignore[typeddict-item]
        for name, accesses, found, part in zip(titles, shown, every, mine)
    ]
    sites = sites_of(runs[0].request)
    frames = [frame for number in range(len(shown[0])) for frame in _frames(sides, number, sites)]
    return Story(frames, sides, len(groups) - len(shown[0]), total)


def _of_warp(found: model.Requests, at: tuple[str, int] | None, warp: int) -> model.Requests:
    """The accesses of that warp, or of the first that has any there."""
    table = found.table
    keep = table.block == (table.block.min() if len(table) else 0)
    if at is not None:
        keep &= (table.file == at[0]) & (table.line == at[1])
    warps = set(table.warp[keep])
    return found.where(keep & (table.warp == (warp if warp in warps else min(warps, default=0))))


def _pattern(found: model.Requests, number: int) -> Any:
    """What an access wants of the banks, with the banks and words renamed in the order in which lanes name them."""
    row, on = found.table.iloc[number], found.active[number]
    words = found.offsets[number][on] // model.WORD
    words = words[:, None] + np.arange(max(1, int(row.bytes) // model.WORD))
    renamed = (np.unique(part, return_index=True, return_inverse=True) for part in (words % model.BANKS, words))
    order = tuple(tuple(np.argsort(np.argsort(first))[inverse].ravel().tolist()) for _, first, inverse in renamed)
    return row.file, row.line, int(row.bytes), row.kind, on.tobytes(), order


def _memory(found: model.Requests, mine: model.Requests) -> dict[str, Any]:
    """The words of the tensor that the accesses `mine` are of, as far as any access of the block touches it, and those
    of them that none touches."""
    if not len(mine.table):
        return {"words": 0, "free": []}
    first = mine.table.iloc[0]
    there = found.where((found.table.block == first.block) & (found.table.tensor == first.tensor))
    touched = np.zeros(int(there.offsets[there.active].max()) // model.WORD + 5, bool)
    for width, part in there.table.groupby("bytes"):
        at = part.index.to_numpy()
        words = there.offsets[at][there.active[at]] // model.WORD
        touched[(words[:, None] + np.arange(max(1, int(width) // model.WORD))).ravel()] = True
    words = int(np.flatnonzero(touched)[-1]) + 1
    edges = np.flatnonzero(np.diff(np.concatenate(([0], ~touched[:words], [0])).astype(int)))
    return {"words": words, "free": edges.reshape(-1, 2).tolist()}


def _access(found: model.Requests, number: int, alike: int) -> BankAccess:
    """What the views draw of one access."""
    row, active = found.table.iloc[number], found.active[number]
    addresses = [int(o) if on else None for o, on in zip(found.offsets[number], active)]
    matrices = {8: 1, 16: 2}.get(int(active.sum()), 4) if row.kind == "ldmatrix" else 4
    cost = model.shared_wavefronts(addresses, int(row.bytes), row.kind, matrices)
    touches = [(bank, touch) for bank, mine in cost.banks.items() for touch in mine]
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
        "wavefronts": cost.wavefronts,
        "ideal": cost.ideal,
        "conflicts": cost.conflicts,
        "parts": [[start[p], start[p] + longest[p]] for p in parts],
        "number": number,
        "alike": alike,
    }


def _frames(sides: list[BankSide], number: int, sites: Any) -> Iterator[BankFrame]:
    """The steps of one access: until the slower side is done."""
    accesses = [side["accesses"][number] for side in sides]
    first, most = accesses[0], max(access["wavefronts"] for access in accesses)
    named = numbered("Access", first)
    head = f"{named}, {first['kind']} of {first['bytes']} bytes a lane of {first['tensor']}."
    for wavefront in range(max(1, most)):
        said = [_said(side["name"], access, wavefront) for side, access in zip(sides, accesses)]
        yield {
            "tile": number,
            "access": number,
            "wavefront": wavefront,
            "phase": str(wavefront),
            "title": f"{named} · {f'{wavefront + 1} of {most}' if most else 'no wavefront'}",
            "sentence": " ".join([head, *said]),
            "lines": {sites.find(first["file"], first["line"]).place: 1},
            "marks": [marks.CONFLICT] if any(_conflict_begins(access, wavefront) for access in accesses) else [],
        }


def _conflict_begins(access: BankAccess, wavefront: int) -> bool:
    """Whether this is the first wavefront of a pass that wants different words of one bank."""
    pass_ = next((part for part in access["parts"] if part[0] == wavefront), None)
    if not pass_:
        return False
    words = {(bank, word) for _, bank, w, word, *_ in access["cells"] if pass_[0] <= w < pass_[1]}
    return len({bank for bank, _ in words}) < len(words)


def numbered(what: str, shown: BankAccess | SectorRequest) -> str:
    """An access or request by its number, and how many others it stands for."""
    others = shown["alike"] - 1
    return f"{what} {shown['number'] + 1}" + (f", and {count(others, 'other')} alike" if others else "")


def _said(name: str, access: BankAccess, wavefront: int) -> str:
    """What this wavefront serves on one side, and why the access takes as many as it does."""
    title = f"{name}: " if name else ""
    if not access["wavefronts"]:
        return title + "No lane takes part, or the data goes past this pipe: no wavefront."
    cells, parts = access["cells"], access["parts"]
    now = [cell for cell in cells if cell[2] == wavefront]
    part = next((n for n, (start, end) in enumerate(parts) if start <= wavefront < end), len(parts) - 1)
    start, end = parts[part]
    served = [cell for cell in cells if start <= cell[2] < end]
    want: dict[int, set[int]] = {}
    for cell in served:
        want.setdefault(cell[1], set()).add(cell[3])
    worst = max(want, key=lambda bank: len(want[bank]))
    lanes = [cell[0] for cell in served]
    who = "the warp" if len(parts) == 1 else f"pass {part + 1} of {len(parts)} (lanes {min(lanes)} to {max(lanes)})"
    text = title + (who if title else who[0].upper() + who[1:])
    if len(want[worst]) > 1:
        text += f" wants {len(want[worst])} different words of bank {worst}, so it takes {end - start} wavefronts. "
    elif len(served) > len({cell[3] for cell in served}):
        text += " wants at most one word of each bank, and lanes that want the same word share it: 1 wavefront. "
    else:
        text += " wants at most one word of each bank: 1 wavefront. "
    if not now:
        return f"{text}Done after {count(access['wavefronts'], 'wavefront')}."
    words = len({cell[3] for cell in now})
    served_now = f"{_lanes(sorted({cell[0] for cell in now}))} with {count(words, 'word')}"
    return f"{text}Wavefront {wavefront + 1} of {access['wavefronts']} serves {served_now}."


def _lanes(lanes: list[int]) -> str:
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if lanes == list(range(lanes[0], lanes[-1] + 1)):
        return f"lanes {lanes[0]} to {lanes[-1]}"
    return f"{len(lanes)} lanes"


# ---- the stage ----


def stage_of(
    story: Story,
    runs: Sequence[Run],
    provenance: stage.Provenance,
    cycles: str = "",
    late: Sequence[Any] = (),
    told: Sequence[str] = (),
    *,
    chosen: Request,
) -> stage.Stage:
    """The whole stage. runs: as `explain` was given them. cycles: per access, of each side, and whose they are. chosen:
    which of the runs' requests is asked for; the other side is what it is compared with."""
    meta: BanksMeta = {"sides": story.sides}
    views = [
        stage.View("tile_memory", "memory", "The tile in memory", meta),
        stage.View("banks", "banks", "Lanes and banks", meta),
    ]
    return stage.Stage(
        headline=stage.headline(chosen.kernel),
        frames=story.frames,
        views=views,
        codes=[stage.code(chosen, story.frames)],
        state=states(story, cycles),
        tabs=TABS,
        provenance=provenance,
        late=late,
        told=told,
        questions=questions(story),
    )


TABS = [
    stage.Tab("lines", "Every line"),
    stage.Tab("rule", "The rule"),
    stage.Tab("cycles", "Cycles beside wavefronts"),
    stage.Tab("builds", "Builds"),
    stage.Tab("data", "Data and labels"),
]


def states(story: Story, cycles: str) -> list[stage.State]:
    """The strip: wavefronts so far of each side (an access that stands for others counts once), and what the access
    costs on each."""
    found: list[stage.State] = []
    for side, colour in zip(story.sides, ("conflict", "before")):
        sums = np.cumsum([0] + [a["wavefronts"] for a in side["accesses"]])
        so_far = [
            int(sums[f["access"]]) + min(f["wavefront"] + 1, side["accesses"][f["access"]]["wavefronts"])
            for f in story.frames
        ]
        title = f"wavefronts so far{', ' if side['name'] else ''}{side['name']}"
        found.append(stage.State(title, so_far, colour=WAVEFRONTS[colour]))
    for title, name in (("this access takes", "wavefronts"), ("at best", "ideal"), ("conflicts", "conflicts")):
        found.append(_of_both(story, title, [_both(story, f["access"], name) for f in story.frames]))
    if cycles:
        found.append(_of_both(story, "cycles an access", [cycles] * len(story.frames)))
    return found


def _of_both(story: Story, title: str, values: Sequence[str]) -> stage.State:
    """An entry that says of which sides its values are, where any has two."""
    sides = " and ".join(side["name"] for side in story.sides)
    return stage.State(f"{title}, {sides}" if any(" and " in value for value in values) else title, values)


def _both(story: Story, access: int, name: str) -> str:
    values = [str(side["accesses"][access][name]) for side in story.sides]  # type: ignore[literal-required]
    return " and ".join(dict.fromkeys(values) if name == "ideal" else values)


def questions(story: Story) -> list[stage.Question]:
    """Asked before the picture is read; the keys are the trace's."""
    if not story.frames:
        return []
    access, side = story.sides[0]["accesses"][0], story.sides[0]
    last = next(n for n, f in reversed(list(enumerate(story.frames))) if f["access"] == 0)
    where = f" with {side['name']}" if side["name"] else ""
    more: dict[str, Any] = {"unit": "wavefronts", "view": "memory"}
    more["veils"] = ("sentence", "strip", "picture", "tabs")  # the pictures say how many there are
    text = (
        f"{count(access['active'], 'lane')} of a warp make {access['kind']} of {access['bytes']} bytes each{where}: "
        f"{_wants(access)}. In how many wavefronts does shared memory serve them?"
    )
    why = _said(side["name"], access, 0)
    asked = [stage.Question("wavefronts", text, "number", access["wavefronts"], why, **more)]
    if len(story.sides) > 1:
        after = story.sides[1]
        other = after["accesses"][0]
        fewer = other["wavefronts"] < access["wavefronts"]
        saved = f"{other['wavefronts']} instead of {access['wavefronts']}"
        text = f"The same access with {after['name']}: {_wants(other)}. How many wavefronts now?"
        why = f"{_said(after['name'], other, 0)} {'It takes' if fewer else 'Nothing is saved here:'} {saved}."
        asked.append(stage.Question("remedy", text, "number", other["wavefronts"], why, step=last, **more))
    return asked


def _wants(access: BankAccess) -> str:
    """Which words the first two lanes and the last one want: lane 0 from word 0 on, lane 1 from word 32 on, ..."""
    first: dict[int, int] = {}
    for lane, _, _, word, *_ in access["cells"]:
        first[lane] = min(word, first.get(lane, word))
    some = list(first.items())
    said = [f"lane {lane} from word {word:,} on" for lane, word in dict([*some[:2], *some[-1:]]).items()]
    return ", ".join(said) or "none takes part"


# ---- every line ----


def by_line(runs: Sequence[Run]) -> pd.DataFrame:
    """compare_padding of two runs; of one run the same without what padding changes."""
    if len(runs) > 1:
        return compare_padding(*runs)
    table = compare_padding(runs[0], runs[0]).rename(columns={"padded": "wavefronts a request"})
    return table.drop(columns=["not padded", "wavefronts without"]).rename(columns={"wavefronts with": "wavefronts"})


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


def padding_sentence(table: pd.DataFrame, remedy: str = "padding") -> str:
    """What padding, or another remedy, changes in all, in a sentence."""
    before, after = int(table["wavefronts without"].sum()), int(table["wavefronts with"].sum())
    text = f"All accesses of shared memory together: {before:,} wavefronts without {remedy}, {after:,} with it."
    if before == after:
        return f"{text} Nothing is saved."
    worst = table.loc[(table["wavefronts without"] - table["wavefronts with"]).abs().idxmax()]
    return (
        f"{text} Most of that is {worst['source line']}: {worst['not padded']:g} wavefronts a request without, "
        f"{worst['padded']:g} with, {worst['at best']:g} at best."
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

"""The accesses of one warp to shared memory, wavefront by wavefront.

The probes log lanes, offsets and widths. Banks, passes and wavefronts follow from kernels/trace/memory/model.py.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from explainers.stories.bank_conflicts.frames import BankFrame, BankSide
from explainers.stories.bank_conflicts.padding import side_names, unused_words
from explainers.story import marks
from explainers.story.frames import BankAccess
from explainers.story.glossary import count
from explainers.story.warp_requests import renumbered
from kernels.run.results import Run
from kernels.trace.kinds import kind_of
from kernels.trace.memory import model, traced
from kernels.trace.probes import Sites

SHOWN_ACCESSES = 16  # different accesses of one warp
SHOWN_STEPS = 128  # no access starts after this step, so a story stays short


@dataclass(frozen=True)
class Story:
    """The accesses of one warp.

    frames: one for each wavefront of each different access, until the slower side ends.
    sides: the content of the views.
    left_out: the number of different accesses without frames.
    total: the number of all accesses of the warp at that probe.
    unused: the words that the second side leaves free after each row, 0 for another remedy.
    """

    frames: list[BankFrame]
    sides: list[BankSide]
    left_out: int
    total: int
    unused: int = 0


def explain(runs: Sequence[Run], at: traced.Place | None = None, warp: int = 0) -> Story:
    """Returns the Story of one warp of the traced block, in one run or in two runs with different remedies.

    at: one probe, or None for all shared-memory accesses.
    Accesses with equal wishes, up to the numbers of banks and words, share their frames.
    """
    every = [traced.requests(run.trace, space="shared") for run in runs]
    own = [_of_warp(found, at, warp) for found in every]
    total = min(len(found.table) for found in own)
    groups: dict[Hashable, list[int]] = {}
    for number in range(total):
        groups.setdefault(tuple(_pattern(found, number) for found in own), []).append(number)
    shown: list[list[BankAccess]] = [[] for _ in runs]
    steps = 0
    for alike in list(groups.values())[:SHOWN_ACCESSES]:
        if steps >= SHOWN_STEPS:
            break
        accesses = [_access(found, alike[0], len(alike)) for found in own]
        steps += max(access["wavefronts"] for access in accesses)
        for side, access in zip(shown, accesses):
            side.append(access)
    requests = [run.request for run in runs]
    titles = side_names(requests)
    sides: list[BankSide] = [
        _side(name, accesses, found, part) for name, accesses, found, part in zip(titles, shown, every, own)
    ]
    sites = runs[0].sites
    frames = [frame for number in range(len(shown[0])) for frame in _frames(sides, number, sites)]
    return Story(frames, sides, len(groups) - len(shown[0]), total, unused_words(requests))


def _of_warp(found: traced.Requests, at: traced.Place | None, warp: int) -> traced.Requests:
    """Returns the accesses of that warp, or of the first warp with an access there."""
    table = found.table
    keep = table.block == (table.block.min() if len(table) else 0)
    if at is not None:
        keep &= traced.Place(*at).within(table)
    warps = set(table.warp[keep])
    return found.where(keep & (table.warp == (warp if warp in warps else min(warps, default=0))))


def _pattern(found: traced.Requests, number: int) -> tuple[Hashable, ...]:
    """Returns the wishes of an access. Banks and words are numbered in the order of the lanes."""
    row, on = found.table.iloc[number], found.active[number]
    words = found.offsets[number][on] // model.WORD
    words = words[:, None] + np.arange(max(1, int(row.bytes) // model.WORD))
    banks = words % model.BANKS
    return row.file, row.line, row.tensor, int(row.bytes), row.kind, on.tobytes(), renumbered(banks), renumbered(words)


def _side(name: str, accesses: list[BankAccess], found: traced.Requests, own: traced.Requests) -> BankSide:
    """Returns one build's accesses, the words of their tensor up to the last touched one, and the untouched ranges.

    found: all accesses of the block. own: the accesses of the warp.
    """
    if not len(own.table):
        return {"name": name, "accesses": accesses, "words": 0, "free": []}
    first = own.table.iloc[0]
    of_tensor = found.where((found.table.block == first.block) & (found.table.tensor == first.tensor))
    touched = np.zeros(int(of_tensor.offsets[of_tensor.active].max()) // model.WORD + 5, bool)
    for width, part in of_tensor.table.groupby("bytes"):
        at = part.index.to_numpy()
        words = of_tensor.offsets[at][of_tensor.active[at]] // model.WORD
        touched[(words[:, None] + np.arange(max(1, int(width) // model.WORD))).ravel()] = True
    words = int(np.flatnonzero(touched)[-1]) + 1
    edges = np.flatnonzero(np.diff(np.concatenate(([0], ~touched[:words], [0])).astype(int)))
    return {"name": name, "accesses": accesses, "words": words, "free": edges.reshape(-1, 2).tolist()}


def _access(found: traced.Requests, number: int, alike: int) -> BankAccess:
    """Returns the content of the views for one access."""
    row, active = found.table.iloc[number], found.active[number]
    addresses = [int(o) if on else None for o, on in zip(found.offsets[number], active)]
    matrices = {8: 1, 16: 2}.get(int(active.sum()), 4) if row.kind == "ldmatrix" else 4
    cost = model.shared_wavefronts(addresses, int(row.bytes), row.kind, matrices)
    touches = [(bank, touch) for bank, touches_of_bank in cost.banks.items() for touch in touches_of_bank]
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


def _frames(sides: list[BankSide], number: int, sites: Sites) -> Iterator[BankFrame]:
    """Returns the steps of one access, until the slower side ends."""
    accesses = [side["accesses"][number] for side in sides]
    first, most = accesses[0], max(access["wavefronts"] for access in accesses)
    head = _head(first)
    for wavefront in range(max(1, most)):
        first_of_pass = any(wavefront == start for access in accesses for start, _ in access["parts"])
        tell = served_said if first_of_pass else now_said
        said = [tell(side["name"], access, wavefront) for side, access in zip(sides, accesses)]
        yield {
            "tile": number,
            "access": number,
            "wavefront": wavefront,
            "phase": str(wavefront),
            "title": f"Access {first['number'] + 1} · {f'{wavefront + 1} of {most}' if most else 'no wavefront'}",
            "sentence": " ".join([head, *said] if wavefront == 0 else said),
            "lines": {sites.find(first["file"], first["line"]).place: 1},
            "marks": [marks.CONFLICT] if any(_conflict_begins(access, wavefront) for access in accesses) else [],
        }


def _conflict_begins(access: BankAccess, wavefront: int) -> bool:
    """Whether the wavefront is the first of several in its pass."""
    pass_ = next((part for part in access["parts"] if part[0] == wavefront), None)
    if not pass_:
        return False
    return pass_[1] - pass_[0] > 1


def _head(access: BankAccess) -> str:
    """Returns the access in a sentence: Each lane loads 4 bytes of X."""
    bytes_of = f"{access['bytes']} bytes"
    if access["kind"] == "an atomic":
        return f"Each lane updates {bytes_of} of {access['tensor']} by an atomic."
    verb = {"a load": "loads", "a store": "stores"}.get(access["kind"])
    if verb:
        return f"Each lane {verb} {bytes_of} of {access['tensor']}."
    kind = access["kind"][0].upper() + access["kind"][1:]
    return f"{kind} moves {bytes_of} of {access['tensor']} for each lane."


def served_said(name: str, access: BankAccess, wavefront: int) -> str:
    """Returns the reason for the number of wavefronts on one side, and the lanes of this wavefront."""
    text = reason_said(name, access, wavefront)
    if not access["wavefronts"]:
        return text
    served = _served(access, wavefront)
    if access["wavefronts"] == 1 and text.endswith("at most one word."):
        return f"{text[:-1]}: {served}"
    return f"{text} {served[0].upper()}{served[1:]}" if served.startswith("done") else f"{text} Now {served}"


def now_said(name: str, access: BankAccess, wavefront: int) -> str:
    """Returns the lanes of this wavefront on one side, without the reason."""
    if not access["wavefronts"]:
        return reason_said(name, access, wavefront)
    said = f"{name}: {_served(access, wavefront)}" if name else _served(access, wavefront)
    return said[0].upper() + said[1:]


def _served(access: BankAccess, wavefront: int) -> str:
    now = sorted({cell[0] for cell in access["cells"] if cell[2] == wavefront})
    if not now:
        return f"done after {count(access['wavefronts'], 'wavefront')}."
    left = len({cell[0] for cell in access["cells"] if cell[2] > wavefront})
    waits = f", and {count(left, 'lane')} {'waits' if left == 1 else 'wait'}" if left else ""
    return f"{_lanes(now)} {'gets its word' if len(now) == 1 else 'get their words'}{waits}."


def reason_said(name: str, access: BankAccess, wavefront: int) -> str:
    """Returns the reason for the number of wavefronts on one side."""
    title = f"{name[0].upper()}{name[1:]}: " if name else ""
    if not access["wavefronts"]:
        return f"{title or 'It takes '}no wavefront: no lane takes part, or the data takes another path."
    cells, parts = access["cells"], access["parts"]
    part = next((n for n, (start, end) in enumerate(parts) if start <= wavefront < end), len(parts) - 1)
    start, end = parts[part]
    text = _reason([cell for cell in cells if start <= cell[2] < end])
    if len(parts) > 1:
        text = f"in pass {part + 1} of {len(parts)}, {text}"
    return title + (text if title else text[0].upper() + text[1:])


def _reason(served: list[list[int]]) -> str:
    """Returns the cost of a pass in a sentence. served: its cells."""
    want: dict[int, set[int]] = {}
    for cell in served:
        want.setdefault(cell[1], set()).add(cell[3])
    worst = max(want, key=lambda bank: len(want[bank]))
    if len(want[worst]) > 1:
        return f"bank {worst} holds {len(want[worst])} of the words and serves one at a time."
    if len({cell[2] for cell in served}) > 1:
        return "lanes with the same word take turns."
    if len(served) > len({cell[3] for cell in served}):
        return "lanes share words, and each bank serves at most one."
    return "each bank serves at most one word."


def _lanes(lanes: list[int]) -> str:
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if lanes == list(range(lanes[0], lanes[-1] + 1)):
        return f"lanes {lanes[0]} to {lanes[-1]}"
    return f"{len(lanes)} lanes"

"""The requests of one warp to global memory, and the sectors that each request touches.

The probes log lanes, offsets and widths. Sectors and lines are the distinct 32-byte and 128-byte units of the requested
bytes.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pandas as pd

from explainers.stories.coalescing.frames import SectorSide
from explainers.story import marks, source_line
from explainers.story.frames import Frame, SectorRequest
from explainers.story.warp_requests import numbered, renumbered, source_lines
from explainers.story.words import Names, Row, Words
from kernels.run.results import Run
from kernels.trace.kinds import kind_of
from kernels.trace.memory import model, traced
from kernels.trace.memory.traced import Place

WORDS = Words.of(str(__package__))
SHOWN_REQUESTS = 24  # different requests
_VERBS = {"read": "read", "write": "write", "both": "update"}  # by direction


@dataclass(frozen=True)
class Story:
    """The requests of one warp.

    frames: one for each different request.
    sides: the content of the view, one side for each layout.
    """

    frames: list[Frame]
    sides: list[SectorSide]


def explain(run: Run, places: Sequence[Place] | None = None) -> Story:
    """The Story of the first warp of the traced block, at these probes in order, or at all probes of the source.

    The block is of the first launch with one. Requests with equal sectors and lines, up to their numbers, share a
    frame.
    """
    found = traced.requests(run.trace, space="global")
    if places is None:
        places = list(dict.fromkeys(map(Place, found.table.file, found.table.line, found.table.tensor)))
    steps: list[Row] = []
    for tile, probe in enumerate(dict.fromkeys(places)):
        groups: dict[Hashable, list[int]] = {}
        own = _of_warp(found, probe)
        for number, index in enumerate(own):
            groups.setdefault(_pattern(found, index), []).append(number)
        here = list(groups.values())[:SHOWN_REQUESTS]
        requests = [_request(found, own[alike[0]], alike[0], len(alike)) for alike in here]
        steps += [_step(run, probe, request, tile=tile) for request in requests]
    return _story(steps)


def explain_layouts(runs: Mapping[str, Run], chosen: str, at: Place) -> Story:
    """The Story of the same requests under several layouts, side by side on one clock.

    runs: title -> Run. chosen: the title for the sentences. at: the probe.
    """
    found = {name: traced.requests(run.trace, space="global") for name, run in runs.items()}
    rows = {name: _of_warp(requests, at)[:SHOWN_REQUESTS] for name, requests in found.items()}
    shown = range(min(map(len, rows.values())))
    sides: list[SectorSide] = [
        {"name": name, "requests": [_request(found[name], rows[name][n], n, 1) for n in shown]} for name in runs
    ]
    own = next(side["requests"] for side in sides if side["name"] == chosen)
    first = sides[0]["name"]
    others = sides[0]["requests"] if first != chosen else [None] * len(shown)
    pairs = zip(own, others)
    steps = [_step(runs[chosen], at, r, layout=chosen, first=first, other=other) for r, other in pairs]
    return Story(WORDS.frames(steps, {}), sides)


def explain_ways(runs: Mapping[str, Run]) -> Story:
    """The Story of the first read of each run, a step for each way. runs: title -> Run."""
    steps = []
    for tile, (way, run) in enumerate(runs.items()):
        at = first_read(run)
        found = traced.requests(run.trace, space="global")
        request = _request(found, _of_warp(found, at)[0], 0, 1)
        steps.append(_step(run, at, request, tile=tile, way=way, says=WORDS.table("ways")[way]))
    return _story(steps)


def first_read(run: Run) -> Place:
    reads = next(site for site in source_line.logged(run, "global") if site.event == "load")
    return Place(reads.file, reads.line)


def _story(steps: Sequence[Names]) -> Story:
    return Story(WORDS.frames(steps, {}), [{"name": "", "requests": [step["request"] for step in steps]}])


def _step(run: Run, at: Place, request: SectorRequest, **more: Any) -> Row:
    """The row of a step. more: tile; the way; the layout, and the first layout with its request, if it is another."""
    least = fewest(request["used"])
    return {
        **{"tile": 0, "way": "", "layout": "", "other": None},
        "request": request,
        "name": numbered("request", request),
        "verb": _VERBS[kind_of(request["kind"], "global").direction],
        "least": least,
        "share": share_said(request["used"], request["sectors"] * model.SECTOR),
        "lines": {run.sites.find(*at[:2]).place: 1},
        "marks": [marks.UNCOALESCED] if least < request["sectors"] else [],
        **more,
    }


def _of_warp(found: traced.Requests, at: Place) -> list[int]:
    """The requests of the first warp with some there, as rows of the table."""
    table = found.table[Place(*at).within(found.table)]
    first = table.head(1)
    own = table[table.launch.isin(first.launch) & table.block.isin(first.block)]
    return list(own[own.warp == own.warp.min()].index)


def _pattern(found: traced.Requests, index: int) -> tuple[Hashable, ...]:
    """The sharing of sectors, lines and words among lanes, each numbered in the order of the lanes."""
    row, on = found.table.loc[index], found.active[index]
    offsets = found.offsets[index][on]
    shared = [renumbered(offsets // unit) for unit in (model.LINE, model.SECTOR, model.WORD)]
    return int(row.bytes), row.kind, on.tobytes(), *shared


def _request(found: traced.Requests, index: int, number: int, alike: int) -> SectorRequest:
    row = found.costs.loc[index]
    return {
        "offsets": [int(o) if on else -1 for o, on in zip(found.offsets[index], found.active[index])],
        "bytes": int(row.bytes),
        "tensor": row.tensor,
        "kind": row.kind,
        "sectors": int(row.sectors),
        "lines": int(row.lines),
        "used": int(row.bytes_used),
        "active": int(row.active),
        "number": number,
        "alike": alike,
    }


def fewest(used: int) -> int:
    """The least number of sectors for so many bytes."""
    return -(-used // model.SECTOR)


def share_said(used: int, moved: int) -> str:
    """The used part of the moved bytes in words: half of the bytes are used."""
    share = Fraction(used, moved)
    return WORDS.say("share", {"n": share.numerator, "d": share.denominator})


def asked(requests: Sequence[SectorRequest], ways: Sequence[str] = ()) -> Row:
    """What the questions ask: of the request with the worst use of its sectors, or of several ways of a request.

    ways: the title of each request. second: the first byte of its second line. unused: the first and last byte of the
    only run of unwanted bytes in a sector, and those of this sector.
    """
    step = min(range(len(requests)), key=lambda n: requests[n]["used"] / requests[n]["sectors"])
    known: Row = {}
    for n, (way, one) in enumerate(zip(ways, requests)):
        moved = one["sectors"] * model.SECTOR
        more = {"step": n, "last": max(one["offsets"]), "moved": moved, "share": share_said(one["used"], moved)}
        known[way] = {**one, **more}
    own = requests[step]
    second = (min(offset for offset in own["offsets"] if offset >= 0) // model.LINE + 1) * model.LINE
    return {"ways": known, "worst": own, "worst_step": step, "second": second, "unused": _unused(own)}


def _unused(request: SectorRequest) -> list[int]:
    wanted = {byte for o in request["offsets"] if o >= 0 for byte in range(o, o + request["bytes"])}
    for first in sorted({byte // model.SECTOR * model.SECTOR for byte in wanted}):
        free = [byte for byte in range(first, first + model.SECTOR) if byte not in wanted]
        if free and free[-1] - free[0] + 1 == len(free):
            return [free[0], free[-1], first, first + model.SECTOR - 1]
    return []


# ---- tables ----


def by_line(run: Run) -> pd.DataFrame:
    """A row for each source line, the worst use of sectors first. Lines at the least number of sectors come last.

    Between equal lines, the one with more sectors comes first. `file` and `line` name the probe.
    """
    requests = traced.requests(run.trace, space="global")
    found = requests.by_line
    least = requests.costs.assign(least=-(-requests.costs.bytes_used // model.SECTOR))
    keys = ["launch", "file", "line", "kind", "space", "tensor", "bytes"]
    table = pd.DataFrame(
        {
            **source_lines(run, found),
            "tensor": found.tensor,
            "kind": found.kind,
            "bytes": found.bytes,
            "requests": found.requests,
            "sectors a request": found.sectors / found.requests,
            "lines a request": found["lines"] / found.requests,
            "used of 32 bytes": found.bytes_used / found.sectors,
            "sectors": found.sectors,
            "sectors at best": least.groupby(keys, sort=True, as_index=False).least.sum().least,
            "file": found.file,
            "line": found.line,
        }
    )
    order = table.assign(kept=table["sectors"] <= table["sectors at best"], less=-table["sectors"])
    return table.loc[order.sort_values(["kept", "used of 32 bytes", "less"], kind="stable").index]


def layouts(runs: Mapping[str, Run]) -> pd.DataFrame:
    """A row for each run, under its title: sectors and lines per read request, and useful bytes a sector."""
    rows = []
    for layout, run in runs.items():
        costs = traced.requests(run.trace, space="global").costs
        reads = costs[[kind_of(kind, "global").direction == "read" for kind in costs.kind]]
        rows.append(
            {
                "layout": layout,
                "bytes": int(reads.bytes.iloc[0]),
                "sectors": reads.sectors.mean(),
                "lines": reads["lines"].mean(),
                "used of 32 bytes": reads.bytes_used.sum() / reads.sectors.sum(),
                "at best": fewest(reads.bytes_used.iloc[0]),
            }
        )
    return pd.DataFrame(rows)

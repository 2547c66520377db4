"""The requests of one warp to global memory, and the sectors that each request touches.

The probes log lanes, offsets and widths. Sectors and lines are the distinct 32-byte and 128-byte units of the requested
bytes.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from explainers.stories.coalescing.frames import SectorSide
from explainers.story import marks
from explainers.story.frames import Frame, SectorRequest
from explainers.story.glossary import count
from explainers.story.warp_requests import numbered, renumbered
from kernels.run.results import Run
from kernels.trace.kinds import kind_of
from kernels.trace.memory import model, traced
from kernels.trace.memory.traced import Place

SHOWN_REQUESTS = 24  # different requests
_VERBS = {"read": "read", "write": "write", "both": "update"}  # by direction


@dataclass(frozen=True)
class Story:
    """The requests of one warp.

    frames: one for each different request.
    sides: the content of the view, one side for each layout.
    left_out: the number of different requests without a frame.
    total: the number of all requests of the warp there.
    """

    frames: list[Frame]
    sides: list[SectorSide]
    left_out: int
    total: int


def explain(run: Run, places: Sequence[Place] | None = None, warp: int = 0) -> Story:
    """Returns the Story of one warp of the traced block, at these probes in order, or at all probes of the source.

    The block is of the first launch with one. Requests with equal sectors and lines, up to their numbers, share a
    frame.
    """
    found = traced.requests(run.trace, space="global")
    if places is None:
        places = list(dict.fromkeys(map(Place, found.table.file, found.table.line, found.table.tensor)))
    shown: list[SectorRequest] = []
    at: list[Place] = []
    left_out = total = 0
    for probe in places:
        groups: dict[Hashable, list[int]] = {}
        own = _of_warp(found, probe, warp)
        for number, index in enumerate(own):
            groups.setdefault(_pattern(found, index), []).append(number)
        here = list(groups.values())[:SHOWN_REQUESTS]
        shown += [_request(found, own[alike[0]], alike[0], len(alike)) for alike in here]
        at += [probe] * len(here)
        left_out, total = left_out + len(groups) - len(here), total + len(own)
    return Story(_frames(run, at, shown, [""] * len(shown)), [{"name": "", "requests": shown}], left_out, total)


def explain_layouts(runs: Mapping[str, Run], chosen: str, at: Place, warp: int = 0) -> Story:
    """Returns the Story of the same requests under several layouts, side by side on one clock.

    runs: title -> Run.
    chosen: the title for the sentences.
    at: the probe.
    """
    found = {name: traced.requests(run.trace, space="global") for name, run in runs.items()}
    rows = {name: _of_warp(requests, at, warp)[:SHOWN_REQUESTS] for name, requests in found.items()}
    fewest = min(map(len, rows.values()))
    sides: list[SectorSide] = [
        {"name": name, "requests": [_request(found[name], i, n, 1) for n, i in enumerate(rows[name][:fewest])]}
        for name in runs
    ]
    own = next(side for side in sides if side["name"] == chosen)
    first = sides[0]
    first_layout = [
        f" {first['name']}: {count(r['sectors'], 'sector')} for {r['used']:,} bytes." if first is not own else ""
        for r in first["requests"]
    ]
    frames = _frames(runs[chosen], [at] * fewest, own["requests"], first_layout, f"{chosen}. ")
    return Story(frames, sides, 0, fewest)


def first_request(run: Run, at: Place) -> SectorRequest:
    """Returns the first request of the first warp at a probe."""
    found = traced.requests(run.trace, space="global")
    return _request(found, _of_warp(found, at, 0)[0], 0, 1)


def _of_warp(found: traced.Requests, at: Place, warp: int) -> list[int]:
    """Returns the warp's requests there, as rows of the table, or the requests of the first warp with some."""
    table = found.table[Place(*at).within(found.table)]
    if table.empty:
        return []
    first = table.iloc[0]
    own = table[(table.launch == first.launch) & (table.block == first.block)]
    warps = set(own.warp)
    return list(own[own.warp == (warp if warp in warps else min(warps))].index)


def _pattern(found: traced.Requests, index: int) -> tuple[Hashable, ...]:
    """Returns the sharing of sectors, lines and words among lanes, each numbered in the order of the lanes."""
    row, on = found.table.loc[index], found.active[index]
    offsets = found.offsets[index][on]
    shared = [renumbered(offsets // unit) for unit in (model.LINE, model.SECTOR, model.WORD)]
    return int(row.bytes), row.kind, on.tobytes(), *shared


def _request(found: traced.Requests, index: int, number: int, alike: int) -> SectorRequest:
    """Returns the content of the view for one request."""
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


def _frames(
    run: Run, at: Sequence[Place], requests: Sequence[SectorRequest], after: Sequence[str], before: str = ""
) -> list[Frame]:
    """Returns a frame for each request. at: the probe of each request."""
    sites, numbers = run.sites, {probe: number for number, probe in enumerate(dict.fromkeys(at))}
    return [
        {
            "tile": numbers[probe],
            "title": f"{request['tensor']} · {numbered('request', request)}",
            "sentence": before + request_sentence(request) + comparison,
            "lines": {sites.find(*probe[:2]).place: 1},
            "marks": [marks.UNCOALESCED] if fewest(request["used"]) < request["sectors"] else [],
        }
        for probe, request, comparison in zip(at, requests, after)
    ]


def request_sentence(request: SectorRequest) -> str:
    """Returns the bytes of a request, and the sectors that move for them."""
    active, used, sectors = request["active"], request["used"], request["sectors"]
    verb = _VERBS[kind_of(request["kind"], "global").direction]
    who, verb = ("1 lane", f"{verb}s") if active == 1 else (f"The {active} lanes", verb)
    shared = used < active * request["bytes"]
    how = " by an atomic" if verb.startswith("update") else ""
    first = f"{who} {verb} {f'only {used:,} different' if shared else f'{used:,}'} bytes of {request['tensor']}{how}."
    moved = f"The bytes are in {count(sectors, 'sector')}, so {sectors * model.SECTOR:,} bytes move."
    least = fewest(used)
    enough = f"{count(least, 'sector')} would be enough." if least < sectors else "No fewer sectors could hold them."
    alike = f" {count(request['alike'] - 1, 'other request')} look{'s' if request['alike'] == 2 else ''} the same."
    return f"{first} {moved} {enough}{alike if request['alike'] > 1 else ''}"


def fewest(used: int) -> int:
    """Returns the least number of sectors for so many bytes."""
    return -(-used // model.SECTOR)

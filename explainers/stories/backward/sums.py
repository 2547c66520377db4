"""dQ of a head from two runs: on the CPU in both orders of blocks, on a GPU twice. Blocks that add by atomics leave
other last bits."""

from dataclasses import replace

import numpy as np
import pandas as pd

from explainers.models import gradients
from explainers.stories.backward import tabs
from explainers.stories.backward.frames import SumsMeta
from explainers.stories.backward.questions import Seen
from explainers.story import axes, picture, probed, stage
from explainers.story.base import Runner
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import WarpglassError
from kernels.run.results import Run

MOST_RECORDS = 3_000_000  # of a trace of all blocks


def views(seen: Seen, head: int, runner: Runner) -> list[stage.View]:
    """The picture of the sums of dQ. An empty list for a recorded run, which cannot run again.

    head: counted over the batch.
    """
    run, again = seen.run, seen.again
    request = run.request
    if not again:
        return []
    name = gradients.tensors(request)["dQ"].name
    runs = (replace(run, arrays={**run.arrays, name: array}) for array in (run.arrays[name], again[name]))
    once, twice = (gradients.values(one, "dQ", head) for one in runs)
    tiles, terms = _terms(run, head, runner)
    bits = np.bitwise_count(np.ascontiguousarray(once).view(np.uint32) ^ np.ascontiguousarray(twice).view(np.uint32))
    first = np.unravel_index(int(bits.argmax()), once.shape)
    n, d = once.shape
    adds = gradients.adds(request)
    meta: SumsMeta = {
        "n": n,
        "d": d,
        "head": head,
        "adds": adds,
        "tiles": tiles,
        "second": tabs.SECOND[request.backend],
        "first": [int(at) for at in first],
        "changed": int((bits > 0).sum()),
    }
    columns = {"once": once, "again": twice, "bits": bits, "terms": terms}
    return [
        stage.View("sums", "sums", "Sums of dQ", meta, columns | (in_both_orders(terms, once, twice) if adds else {}))
    ]


def in_both_orders(terms: np.ndarray, once: np.ndarray, again: np.ndarray) -> dict[str, np.ndarray]:
    """The float32 sums after each term in its order and in the opposite one, `forward` and `back` [tiles, n, d].

    NaN where they do not end at the bits of the two runs. terms: NaN where a tile has none.
    """
    known = np.where(np.isnan(terms), np.float32(0), terms)
    with np.errstate(over="ignore", invalid="ignore"):
        forward = np.add.accumulate(known, axis=0, dtype=np.float32)
        back = np.add.accumulate(known[::-1], axis=0, dtype=np.float32)[::-1]
    if len(terms):
        ends = (forward[-1], once), (back[0], again)
        same = np.all([np.float32(a).view(np.uint32) == np.float32(b).view(np.uint32) for a, b in ends], axis=0)
        forward, back = (np.where(same, part, np.float32(np.nan)) for part in (forward, back))
    return {"forward": forward, "back": back}


def _terms(run: Run, head: int, runner: Runner) -> tuple[list[int], np.ndarray]:
    """The numbers of the key tiles, and the logged dq of each [tiles, n, d]: from a run with a trace of all blocks.
    Empty if that trace would be too long, if query heads share K and V, or if the kernel logs no dq with row,
    tile and dim"""
    none = list[int](), np.zeros(0, np.float32)
    request = run.request
    logged = probed.values(request.kernel)
    event = next((name for name in ("dq_part", "dq") if name in logged), "")
    tile = next((name for name in ("key_tile", "tile") if name in logged.get(event, ())), "")
    if not tile or not {"row", "dim"} <= set(logged[event]) or gradients.group_of(request) > 1:
        return none
    whole = replace(request, scope=Scope.everything(request.plan))
    share = sum(count for _, _, count in _items(whole)) / sum(count for _, _, count in _items(request))
    if run.trace.table.num_rows * share > MOST_RECORDS:
        return none
    try:
        traced = runner.run(whole)
    except WarpglassError:
        return none
    table = traced.trace.frame("launch", "block", "event", "tensor", "space", "offset", "row", tile, "dim", "value")
    table = _of_head(request, head, table)
    table = table[table.event.astype(str) == event]
    n, _, d = gradients.sizes(request)
    place = {number: at for at, number in enumerate(sorted({int(number) for number in table[tile]}))}
    terms = np.full((len(place), n, d), np.nan, np.float32)
    at = table[tile].astype(int).map(place), table.row.astype(int), table.dim.astype(int)
    terms[at] = table.value
    return list(place), terms


def _items(request: Request) -> list[tuple[str, int, int]]:
    """Item, first and count of the scope, of each kind."""
    kinds = dict.fromkeys(launch.item for launch in request.plan.launches)
    return [(kind, *request.scope.range_of(kind, request.plan)) for kind in kinds]


def _of_head(request: Request, head: int, table: pd.DataFrame) -> pd.DataFrame:
    """The records of the blocks that first read Q of a head."""
    q = gradients.tensors(request)["Q"]
    symbol = next(name for name, part in picture.places(request).items() if part == "Q")
    reads = table[(table.tensor == symbol) & (table.space == "global")].drop_duplicates(["launch", "block"])
    along = dict(zip(q.axes, axes.coordinates(q, reads.offset.to_numpy(np.int64))))
    own = reads[along["batch"] * axes.length(q, "head") + along["head"] == head]
    return table.merge(own[["launch", "block"]], on=["launch", "block"])

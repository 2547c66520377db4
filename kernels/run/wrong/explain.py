"""The reason of a failed check: first the faults of its run, then missing writes, then the values."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from kernels.core.dtypes import element_type, poison
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.tensors import Initial
from kernels.core.tolerance import OutputError
from kernels.run import execute
from kernels.run.plain.faults import Fault
from kernels.run.wrong import answers, numbers, patterns, products, stores
from kernels.run.wrong.answers import TILES
from kernels.run.wrong.found import First, Found, Reason, exponentials, heads
from kernels.trace.trace import Trace

EVENTS = {"score": "S", "m": "m", "l": "l", "p": "P", "o": "O"}
"""An event of a probe -> its part in attention."""
_KEYS, _TILES = ("col", "token", "key"), ("tile",)
_CLOSE = 2e-3


def first(request: Request, trace: Trace, found: list[Found]) -> First | None:
    """The first wrong value of EVENTS, or None if the probes have none."""
    frame = trace.frame()
    frame = frame[frame.event.isin(EVENTS) & frame.value.notna()]
    if frame.empty or not found:
        return None
    frame = frame.assign(head=_heads(request, frame, len(found)))
    for event, name in EVENTS.items():
        wrong = [
            first
            for head, rows in frame[frame.event == event].groupby("head")
            for first in _of_head(found[int(head)], name, rows)
        ]
        if wrong:
            return min(wrong, key=lambda one: (one.head, one.row, one.tile or 0, one.key or 0))
    return None


def _heads(request: Request, frame: pd.DataFrame, count: int) -> np.ndarray:
    """The number of the head of each record: its key `head`, or by its block."""
    if "head" in frame and frame["head"].notna().all():
        return np.clip(frame["head"].to_numpy(int), 0, count - 1)
    head = np.zeros(len(frame), int)
    for number, launch in enumerate(request.plan.launches):
        own = (frame.launch == number).to_numpy()
        items = frame.block.to_numpy()[own] // launch.blocks_per_item
        head[own] = np.minimum(items * count // max(1, launch.items), count - 1)
    return head


def _of_head(one: Found, name: str, rows: pd.DataFrame) -> Iterator[First]:
    row = _key(rows, ("row",))
    if row is not None and len(one.truth) > 1:  # threads behind the last row may log too
        rows, row = rows[row < len(one.truth)], row[row < len(one.truth)]
    row = np.zeros(len(rows), int) if row is None else np.clip(row, 0, len(one.truth) - 1)
    key, tile = _key(rows, _KEYS), _key(rows, _TILES)
    values = rows.value.to_numpy(float)
    best: tuple[np.ndarray, np.ndarray] | None = None
    for truth in _truths(one, name, rows, row, key, tile):
        with np.errstate(invalid="ignore"):
            wrong = ~((values == truth) | (np.abs(values - truth) <= _CLOSE * (np.abs(truth) + 0.05)))
        if best is None or wrong.sum() < best[0].sum():
            best = wrong, truth
    if best is None or not best[0].any():
        return
    wrong, truth = best
    order = np.lexsort([a for a in (key, tile, row) if a is not None])
    at = order[wrong[order]][0]
    record = rows.iloc[at]
    yield First(
        name, str(record.event), str(record.file), int(record.line), one.head.at, int(row[at]),
        None if tile is None else int(tile[at]), None if key is None else int(key[at]),
        int(record.warp), int(record.lane), float(values[at]), float(truth[at]),
    )  # fmt: skip


def _key(rows: pd.DataFrame, names: tuple[str, ...]) -> np.ndarray | None:
    """The first of these keys that the records have."""
    for name in names:
        if name in rows and rows[name].notna().all():
            return rows[name].to_numpy(int)
    return None


def _truths(
    one: Found, name: str, rows: pd.DataFrame, row: np.ndarray, key: np.ndarray | None, tile: np.ndarray | None
) -> Iterator[np.ndarray]:
    """The possible meanings of the records: for each size of a tile, and P and O with and without a division by l."""
    head = one.head
    hidden = head.hidden
    if name != "S" and "walk" in rows and rows.walk.notna().any():
        return
    if "partition" in rows and rows.partition.notna().any() or key is not None and key.max() >= hidden.shape[1]:
        return
    if tile is None and key is None and name in "ml":
        tile = np.zeros(len(rows), int)
    if name == "S" and key is not None:
        yield hidden[row, key]
        yield head.scores[row, key]  # before the mask
    if name == "P" and key is not None:
        whole = exponentials(head.scores, head.seen)
        yield (whole / whole.sum(axis=1, keepdims=True))[row, key]
    dim = _key(rows, ("dim",))
    if name == "O" and dim is not None and tile is None:
        yield one.truth[row, dim]
        yield (exponentials(head.scores, head.seen) @ head.values)[row, dim]
    keys = hidden.shape[1]
    sizes = [size for size in TILES if size < 2 * keys]
    if tile is not None:  # as many tiles as the records have
        sizes = [size for size in (*TILES, keys) if -(-keys // size) == tile.max(initial=0) + 1]
    for size in sizes:
        yield from _tiled(one, name, hidden, size, row, key, tile, dim)


def _tiled(
    one: Found,
    name: str,
    hidden: np.ndarray,
    size: int,
    row: np.ndarray,
    key: np.ndarray | None,
    tile: np.ndarray | None,
    dim: np.ndarray | None,
) -> Iterator[np.ndarray]:
    """The running values after a tile of this size."""
    at = tile if tile is not None else None if key is None else key // size
    if at is None:
        return
    ends = np.minimum((np.arange(-(-hidden.shape[1] // size)) + 1) * size, hidden.shape[1])
    tops = np.maximum.accumulate(hidden, axis=1)[:, ends - 1]
    if name == "m":
        yield tops[row, at]
    if name == "P" and key is not None:
        with np.errstate(invalid="ignore"):
            yield np.exp(hidden[row, key] - tops[row, at])
    if name in ("l", "O") and (name == "l" or dim is not None):
        first = [(end, exponentials(hidden[:, :end], np.isfinite(hidden[:, :end]))) for end in ends]
        if name == "l":
            yield np.stack([weights.sum(axis=1) for _, weights in first])[at, row]
        else:  # the undivided O
            yield np.stack([weights @ one.head.values[:end] for end, weights in first])[at, row, dim]


ROUNDINGS, SMALL = 8.0, 1e-4  # an error of at most so many limits, each so small, may be rounding
FEW = 8  # so few small errors fit a pattern by chance
MOST_STEPS = 4_000_000  # of a problem whose whole run is traced


def explain(
    request: Request,
    arrays: Mapping[str, np.ndarray],
    errors: Iterable[OutputError],
    faults: Iterable[Fault] = (),
    orders: str = "",
) -> Reason | None:
    """The reason of a wrong result. None without a wrong value and without a fault, and for an unknown mistake without
    a line.

    orders: the difference between the thread orders in a sentence, or ""."""
    errors, faults = list(errors), list(faults)
    reason = _explained(request, arrays, errors, faults, orders)
    wrong = [error for error in errors if not error.ok]
    if reason and (reason.line or reason.first or reason.kind == "unwritten"):
        return reason
    line = stores.line_of(request, arrays, wrong) if wrong and not faults else 0
    return replace(reason or Reason("unknown", ""), line=line) if reason or line else None


def _explained(
    request: Request, arrays: Mapping[str, np.ndarray], errors: list[OutputError], faults: list[Fault], orders: str
) -> Reason | None:
    """The reason without the line of a store."""
    if reason := _of_faults(faults, orders):
        return reason
    wrong = [error for error in errors if not error.ok]
    if not wrong:
        return None
    if reason := _unwritten(request, arrays) or _zeros(request, arrays, wrong):
        return reason
    rounding = _rounding(wrong)
    found = heads(request.problem, arrays, {error.output: error.allowed for error in wrong}, tight=bool(rounding))
    found = found if sum(one.wrong.sum() for one in found) > (FEW if rounding else 0) else []
    reason = (patterns.overflow(found) or answers.reason(found)) if found else None
    if not reason and request.backend == "cpu" and any(np.isnan(error.largest) for error in wrong):
        reason = numbers.reason(request)
    reason = reason or products.reason(request, wrong) or (patterns.reason(found) if found else None)
    reason = reason or _infinite(arrays, wrong)
    if not reason:
        first = None if rounding else _of_probes(request, found)
        return rounding or (Reason("unknown", "", first=first) if first else None)
    index: tuple[int, ...] = ()  # of the first wrong element, in logical order
    if one := next((one for one in found if one.wrong.any()), None):
        row, dim = np.unravel_index(int(np.argmax(one.wrong)), one.wrong.shape)
        index = (*one.head.at, *((int(row),) if len(one.wrong) > 1 else ()), int(dim))
    return replace(reason, index=index, first=_of_probes(request, found))


def _of_probes(request: Request, found: list[Found]) -> First | None:
    """The first wrong intermediate, from another run that traces all items of a small problem."""
    small = request.backend == "cpu" and request.problem.cpu_steps <= MOST_STEPS
    probed = not request.kernel.plain or request.kernel.watch
    if not small or not probed or len(found) != sum(1 for _ in request.problem.heads()):
        return None
    run = execute.run(replace(request, scope=Scope.everything(request.plan)))
    return None if run.trace.lost else first(request, run.trace, found)


ORDER = ("divergent barrier", "missing wait", "block race", "race", "warp race", "unwritten read")
"""Kinds of faults with a reason, the most telling first."""


def _of_faults(faults: Iterable[Fault], orders: str) -> Reason | None:
    found = [fault for fault in faults if fault.level == "error" and fault.kind in ORDER]
    if found:
        fault = min(found, key=lambda one: ORDER.index(one.kind))
        return Reason(*_SAID[fault.kind](fault.text), fault.index, line=fault.lines[0] if fault.lines else 0)
    if orders:
        return Reason("barrier", "The result depends on the order of the threads. A barrier or a wait is missing.")
    return None


def _missing(text: str) -> tuple[str, str]:
    return "barrier", f"A barrier is missing: {text}"


_SAID: dict[str, Callable[[str], tuple[str, str]]] = {
    "divergent barrier": lambda text: (
        "divergent",
        f"A barrier is in a branch: {text} Move it out of the branch.",
    ),
    "missing wait": lambda text: ("wait", f"A wait is missing: {text}"),
    "block race": lambda text: ("atomic", f"Several blocks change one value without an atomic: {text}"),
    "race": _missing,
    "warp race": _missing,
    "unwritten read": lambda text: ("unset", f"A value is read before a write: {text}"),
}
"""The kind of a fault -> the kind and the text of its reason, from its sentence."""


def _rounding(wrong: list[OutputError]) -> Reason | None:
    """The reason of small errors that fit no pattern."""
    worst = max((error.share for error in wrong), default=0.0)
    if not 1 < worst <= ROUNDINGS or any(error.allowed > SMALL for error in wrong):
        return None
    text = f"The error is only {worst:.2g} times the limit and fits no known mistake. It may be rounding."
    return Reason("rounding", f"{text} Sum long rows in short parts, such as 32 terms.")


def _unwritten(request: Request, arrays: Mapping[str, np.ndarray]) -> Reason | None:
    taken = {name for step in request.plan.launches for name in step.tensors}
    for tensor in request.problem.outputs:
        if tensor.name not in taken or tensor.initial is not Initial.POISON or not element_type(tensor.dtype).is_float:
            continue
        array = arrays[tensor.name]
        before = np.full(1, poison(tensor.dtype), array.dtype).tobytes()
        bits = np.ascontiguousarray(array).view(np.uint8).reshape(array.size, -1)
        same = (bits == np.frombuffer(before, np.uint8)).all(axis=1)
        if same.any():
            index = tuple(int(i) for i in np.unravel_index(int(np.argmax(same)), array.shape))
            place = f"{tensor.name}[{', '.join(map(str, index))}]"
            count = f"{int(same.sum()):,} of {array.size:,}"
            given = [
                t for t in request.problem.tensors() if t.initial is Initial.GIVEN and element_type(t.dtype).is_float
            ]
            if any(bool(np.isnan(arrays[t.name].astype(np.float32)).any()) for t in given if t.name in arrays):
                text = f"{count} values of {tensor.name} have no number. Look for a read of an input's empty place."
                return Reason("nan", text, index)
            return Reason("unwritten", f"{count} values of {tensor.name} are never written, first {place}.", index)
    return None


def _infinite(arrays: Mapping[str, np.ndarray], wrong: list[OutputError]) -> Reason | None:
    for error in wrong:
        if np.isinf(error.largest) and (count := int(np.isinf(arrays[error.output].astype(np.float64)).sum())):
            text = f"{count:,} values of {error.output} are infinite. Look for a division by 0, such as a sum l of 0"
            return Reason("nan", f"{text}, or for an overflow.")
    return None


def _zeros(request: Request, arrays: Mapping[str, np.ndarray], wrong: list[OutputError]) -> Reason | None:
    for error in wrong:
        if not arrays[error.output].astype(np.float64).any():
            said = f"All values of {error.output} are 0. Look at the store of {error.output}, and at what it stores."
            return Reason("zeros", said, (0,) * arrays[error.output].ndim)
    return None

"""Attention with one typical mistake. A mistake that gives the kernel's own values is its reason."""

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from kernels.core.dtypes import element_type
from kernels.core.problem import Head
from kernels.run.wrong.found import Found, Reason, all_match, exponentials, softmax

TILES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
FITTED_ROWS = 8
FINITE = (-10_000, -1_000, -100, -50, -20, -10, -50_000, -65_504, -100_000, -1_000_000)  # usual scores of masked keys
MOST_SUMMED = 2**16  # scores of a head for which sums in 16 bits are tried
Answer = Callable[[Head], np.ndarray]


def reason(found: list[Found]) -> Reason | None:
    """The mistake that gives the kernel's values, or None."""
    for kind, text, answer in (*_bounds(found), *_masks(found), *_sums(found), *_rescales(found), *_functions(found)):
        if all_match(found, answer):
            return Reason(kind, text)
    for kind, text, answer in _narrow_scores(found):
        if all_match(found, answer):
            return Reason(kind, text)
    return _factor(found) or _known_scale(found) or _scale(found)


def _with_keys(seen: Callable[[Head], np.ndarray]) -> Answer:
    return lambda head: softmax(head.scores, seen(head)) @ head.values


def _from_key(first: Callable[[int], int]) -> Answer:
    """Attention to the keys from `first` on, a function of the number of keys."""
    return _with_keys(lambda head: head.seen & (_numbers(head) >= first(_keys(head))))


def _to_key(end: Callable[[int], int]) -> Answer:
    """Attention to the keys before `end`, a function of the number of keys."""
    return _with_keys(lambda head: head.seen & (_numbers(head) < end(_keys(head))))


def _bounds(found: list[Found]) -> Iterator[tuple[str, str, Answer]]:
    """Missing keys at an end, and zeros behind the end."""
    whole = "The keys after the last whole tile are missing. Look at the bound of the loop over the tiles."
    pad = "Zeros behind the last key count as keys, up to a whole tile. Give them the score -inf."
    for tile in TILES[3:]:
        if any(_keys(one.head) % tile for one in found):
            yield "bound", whole, _to_key(partial(lambda size, keys: keys // size * size, tile))
            yield "bound", pad, partial(_padded, tile)
    yield "bound", "The last key is missing. Look at the bound of a loop over keys.", _to_key(lambda keys: keys - 1)
    yield "bound", "The first key is missing. Look at the start of a loop over keys.", _from_key(lambda keys: 1)
    for tile in TILES[3:]:
        first = f"The first {tile} keys are missing. Look at the start of the loop over the tiles."
        yield "bound", first, _from_key(partial(min, tile))
        last = f"Only the last tile of {tile} keys counts. Add to the sums, and do not overwrite them."
        yield "sum", last, _from_key(partial(lambda size, keys: (keys - 1) // size * size, tile))


def _masks(found: list[Found]) -> Iterator[tuple[str, str, Answer]]:
    if any(not one.head.seen.all() for one in found):
        late = "Each query also sees the key after its own. The causal mask is off by one."
        yield "mask", late, _with_keys(partial(_shifted, 1))
        early = "No query sees its own key. The causal mask is off by one."
        yield "mask", early, _with_keys(partial(_shifted, -1))
        yield "mask", early, _with_keys(lambda head: _shifted(-1, head) | (_numbers(head) == 0) & head.seen)
        everything = "All queries see all keys. The mask is missing."
        yield "mask", everything, _with_keys(lambda head: np.ones_like(head.seen))
        for score in FINITE:
            finite = f"Masked keys have the score {score:,}. A row whose scores are lower sees them. Use -inf."
            yield "mask", finite, partial(_finite_mask, score)
    else:
        causal = "Queries do not see the keys after their own, and this problem has no mask."
        yield "mask", causal, _with_keys(_causal)


def _finite_mask(score: float, head: Head) -> np.ndarray:
    return softmax(np.where(head.seen, head.scores, score), np.ones_like(head.seen)) @ head.values


def _causal(head: Head) -> np.ndarray:
    queries, keys = head.seen.shape
    return np.tri(queries, keys, keys - queries, dtype=bool)


def _shifted(by: int, head: Head) -> np.ndarray:
    last = _keys(head) - 1 - np.argmax(head.seen[:, ::-1], axis=1)
    return _numbers(head) <= (last + by)[:, None]


def _sums(found: list[Found]) -> Iterator[tuple[str, str, Answer]]:
    yield "sum", "O is not divided by l.", lambda head: exponentials(head.scores, head.seen) @ head.values
    yield "sum", "l has 1 too much. It must start at 0.", _over(lambda e: e.sum(axis=1) + 1.0)
    last = "Only the last key counts: each one starts anew. Keep m, l and O of the keys before."
    yield "sum", last, _with_keys(lambda head: _shifted(0, head) & ~_shifted(-1, head))
    yield "sum", "O adds each V without its weight exp(S - m).", _unweighed
    for step, name in ((2, "second"), (4, "fourth"), (8, "eighth")):
        every = f"l has only every {name} key. Look at the sum over the threads."
        yield "sum", every, _over(partial(lambda by, e: e[:, ::by].sum(axis=1), step))
        of_o = f"O has only every {name} key, and l has all. Look at the sum of O over the threads."
        yield "sum", of_o, partial(_part_of_o, step)
    for lanes in (8, 16, 32, 64, 128):
        part = f"l has only the first {lanes} keys. Look at the sum over the threads."
        yield "sum", part, _over(partial(lambda first, e: e[:, :first].sum(axis=1), lanes))
    for times in (2, 4, 8, 16, 32):
        often = f"l is {times} times too large. Threads add a sum more than once."
        yield "sum", often, _over(partial(lambda factor, e: factor * e.sum(axis=1), times))


def _part_of_o(step: int, head: Head) -> np.ndarray:
    return softmax(head.scores, head.seen)[:, ::step] @ head.values[::step]


def _unweighed(head: Head) -> np.ndarray:
    """An online O that adds V itself, and rescales it."""
    running = np.maximum.accumulate(head.hidden, axis=1)
    with np.errstate(invalid="ignore"):
        weights = np.where(head.seen, np.exp(running - running[:, -1:]), 0.0)
    return weights @ head.values / exponentials(head.scores, head.seen).sum(axis=1, keepdims=True)


def _over(l_of: Callable[[np.ndarray], np.ndarray]) -> Answer:
    """O with another l, a function of exp(S - m)."""

    def answer(head: Head) -> np.ndarray:
        e = exponentials(head.scores, head.seen)
        with np.errstate(all="ignore"):
            return e @ head.values / l_of(e)[:, None]

    return answer


def _padded(tile: int, head: Head) -> np.ndarray:
    """Attention with keys of score 0 and value 0 behind the last one, up to a whole tile."""
    zeros = -_keys(head) % tile
    scores = np.pad(head.scores, ((0, 0), (0, zeros)))
    seen = np.pad(head.seen, ((0, 0), (0, zeros)), constant_values=True)
    return softmax(scores, seen) @ np.pad(head.values, ((0, zeros), (0, 0)))


def _rescales(found: list[Found]) -> Iterator[tuple[str, str, Answer]]:
    """A later rise of the max without a rescale: earlier terms keep an older max."""
    said = "{} is not rescaled if the max rises, here in {}. Multiply by exp(m - m_new)."
    for tile in TILES:
        if all(_keys(one.head) <= tile for one in found):
            continue
        where = f"a later tile of {tile} keys" if tile > 1 else "a later key"
        yield "rescale", said.format("Neither l nor O", where).replace("is not", "is"), _old(tile, True, True)
        yield "rescale", said.format("O", where), _old(tile, True, False)
        yield "rescale", said.format("l", where), _old(tile, False, True)


def _old(tile: int, of_o: bool, of_l: bool) -> Answer:
    def answer(head: Head) -> np.ndarray:
        hidden = head.hidden
        running = np.maximum.accumulate(hidden, axis=1)
        ends = np.minimum((_numbers(head)[0] // tile + 1) * tile, hidden.shape[1]) - 1
        with np.errstate(invalid="ignore", over="ignore"):
            then = np.where(head.seen, np.exp(hidden - running[:, ends]), 0.0)
        last = exponentials(head.scores, head.seen)
        return (then if of_o else last) @ head.values / (then if of_l else last).sum(axis=1, keepdims=True)

    return answer


def _functions(found: list[Found]) -> Iterator[tuple[str, str, Answer]]:
    """Other functions in place of exp, with and without a sum below."""
    functions: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "tanh(S)": np.tanh,
        "S itself": np.asarray,
        "max(S, 0)": lambda s: np.maximum(s, 0.0),
        "a sigmoid of S": lambda s: 0.5 + 0.5 * np.tanh(s / 2),
        "the same for all keys": np.ones_like,
    }
    for name, function in functions.items():
        text = f"The weights are {name}, not exp(S - m)."
        yield "weights", text, partial(_weighed, function, True)
        yield "weights", f"{text} Their sum is not 1.", partial(_weighed, function, False)


def _weighed(function: Callable[[np.ndarray], np.ndarray], divided: bool, head: Head) -> np.ndarray:
    weights = np.where(head.seen, function(head.scores), 0.0)
    with np.errstate(all="ignore"):
        return weights @ head.values / (weights.sum(axis=1, keepdims=True) if divided else 1.0)


def _narrow_scores(found: list[Found]) -> Iterator[tuple[str, str, Answer]]:
    """Scores that are summed in 16 bits: in one chain of fused multiply-adds, of rounded products, or in two chains."""
    if any(one.head.rows is None or one.head.scores.size > MOST_SUMMED for one in found):
        return
    for dtype in ("float16", "bfloat16"):
        text = f"Scores are summed in {dtype}, so a large score loses its last digits. Sum them in fp32."
        for chains, fused in ((1, True), (1, False), (2, True)):
            yield "half", text, partial(_summed, dtype, chains, fused)


def _summed(dtype: str, chains: int, fused: bool, head: Head) -> np.ndarray:
    """Attention with scores whose sums over dim are rounded to dtype at each step."""
    kind = element_type(dtype).numpy
    assert head.rows is not None and head.columns is not None
    sums = np.zeros((chains, len(head.rows), len(head.columns)), kind)
    with np.errstate(over="ignore", invalid="ignore"):
        for dim in range(head.rows.shape[1]):
            product = head.rows[:, dim, None] * head.columns[None, :, dim]
            product = product if fused else product.astype(kind).astype(np.float64)
            sums[dim % chains] = (product + sums[dim % chains]).astype(np.float32).astype(kind)
        dots = head.rows @ head.columns.T
        scale = float((head.scores * dots).sum() / max((dots * dots).sum(), 1e-300))
        return softmax(scale * sums.astype(np.float64).sum(axis=0), head.seen) @ head.values


def _factor(found: list[Found]) -> Reason | None:
    """One factor between all values and the truth."""
    values = np.concatenate([one.values.ravel() for one in found])
    truth = np.concatenate([one.truth.ravel() for one in found])
    if not np.isfinite(values).all():
        return None
    factor = float(values @ truth / (truth @ truth))
    if factor and all(one.matches(factor * one.truth) for one in found):
        return Reason("scale", f"All values are {_times(factor)}. Look for one factor on the whole output.")
    return None


def _known_scale(found: list[Found]) -> Reason | None:
    """A usual factor on all scores. The fit of _scale is blind if one weight of each row is 1."""
    for factor in _factors(found[0].head):
        if all_match(found, partial(_scaled, factor)):
            return _of_scale(factor, found[0].head)
    return None


def _scaled(factor: float, head: Head) -> np.ndarray:
    return softmax(factor * head.scores, head.seen) @ head.values


def _of_scale(factor: float, head: Head) -> Reason:
    return Reason("scale", f"All scores are {_times(factor)}{_known(factor, head)}. Look at the scale.")


def _scale(found: list[Found]) -> Reason | None:
    """One factor on all scores, fitted to a few rows."""
    one = max(found, key=lambda each: each.wrong.sum())
    rows = np.flatnonzero(one.wrong.any(axis=1) & one.finite)[:FITTED_ROWS]
    if not len(rows):
        return None
    scores, seen, values = one.head.scores[rows], one.head.seen[rows], one.values[rows]

    def gap(factor: float) -> float:
        return float(np.abs(softmax(factor * scores, seen) @ one.head.values - values).max())

    low, high, best = -6.0, 6.0, 0.0
    for _ in range(6):
        tried = np.linspace(low, high, 121)
        best = float(tried[np.argmin([gap(2.0**power) for power in tried])])
        step = (high - low) / 60
        low, high = best - step, best + step
    factor = 2.0**best
    if not all_match(found, partial(_scaled, factor)):
        return None
    return _of_scale(factor, one.head)


def _known(factor: float, head: Head) -> str:
    return next(
        (f", the factor {name}" for value, name in _factors(head).items() if abs(factor / value - 1) < 0.01), ""
    )


def _factors(head: Head) -> dict[float, str]:
    dim = head.values.shape[1]
    names = {
        dim**0.5: "sqrt(head_dim)",
        dim**-0.5: "1 / sqrt(head_dim)",
        math.log2(math.e): "log2(e)",
        math.log(2.0): "ln(2)",
    }
    return names | {float(dim): "head_dim", 1.0 / dim: "1 / head_dim"}


def _times(factor: float) -> str:
    return f"{factor:.{6 if abs(factor - 1) < 0.01 else 3}g} times as large as they should be"


def _keys(head: Head) -> int:
    return head.scores.shape[1]


def _numbers(head: Head) -> np.ndarray:
    return np.arange(_keys(head))[None]

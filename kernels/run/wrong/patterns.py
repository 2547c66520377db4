"""The places of the wrong values: rows, tiles, lanes, heads, and the rows of neighbours."""

from collections.abc import Iterable

import numpy as np

from kernels.run.wrong.answers import TILES
from kernels.run.wrong.found import Found, Reason, softmax

LARGEST_EXPONENT = 88.7  # exp of a larger number is infinite in fp32
PERIODS = (2, 4, 8, 16, 32)
EXCHANGED = (1, 2, 4, 8, 16, 32, 64)
NEIGHBOURS = (1, -1, 2, -2, 4, -4, 8, -8, 16, -16, 32, -32)


def reason(found: list[Found]) -> Reason | None:
    """The mistake that the places of the wrong values point to, or None."""
    tests = (_other_heads, _other_rows, _other_columns, _row_factors, _risen_rows, _columns, _rows, _heads)
    return next(filter(None, (test(found) for test in tests)), None)


def overflow(found: list[Found]) -> Reason | None:
    """Rows without numbers: exp(S - m) overflows, because m is not the largest score."""
    if all(one.finite.all() for one in found):
        return None
    for tile, name in ((0, "0"), *((t, "the max of the first tile" if t > 1 else "the first score") for t in TILES)):
        if all(
            np.array_equal(~one.finite, _overflows(one, tile)) and np.isnan(one.values[~one.finite]).all()
            for one in found  # infinity over infinity is NaN. A finite sum over l of 0 is infinite
        ):
            text = f"Rows with a score more than 88 above {name} have no number: exp overflows. Move m with the max."
            return Reason("max", text)
    return None


def _overflows(one: Found, tile: int) -> np.ndarray:
    """[queries], whether exp(S - m) overflows with m 0, or with the max of the first tile."""
    hidden = one.head.hidden
    reference = hidden[:, :tile].max(axis=1) if tile else 0.0
    return hidden.max(axis=1) - reference > LARGEST_EXPONENT


def _other_heads(found: list[Found]) -> Reason | None:
    """The values of another head, or attention with the V of another head."""
    for one in _wrong(found):
        for other in found:
            if other is one or other.head.scores.shape != one.head.scores.shape:
                continue
            if one.matches(other.truth):
                return Reason("stride", f"Head {_at(one)} has the values of head {_at(other)}. Look at the strides.")
            if one.matches(softmax(one.head.scores, one.head.seen) @ other.head.values):
                text = f"Head {_at(one)} takes its V from head {_at(other)}. Look at the strides."
                return Reason("stride", text)
    return None


def _other_rows(found: list[Found]) -> Reason | None:
    """Wrong rows with the values of a neighbour's row, or a key's weight with a neighbour's value."""

    def shows_rows(one: Found, by: int) -> bool:
        rows = np.flatnonzero(one.wrong.any(axis=1))
        rows = rows[(rows + by >= 0) & (rows + by < len(one.truth))]
        return bool(len(rows)) and _near(one.values[rows], one.truth[rows + by], one)

    for by in NEIGHBOURS:
        if all(shows_rows(one, by) for one in _wrong(found)):
            text = f"Wrong rows have the values of the row {_further(by)}. Look at the stride of rows."
            return Reason("stride", text)
        if all(_shows_values(one, by) for one in _wrong(found)):
            text = f"The weight of a key meets the V of the key {_further(by)}. Look at the stride of V."
            return Reason("stride", text)
    return None


def _shows_values(one: Found, by: int) -> bool:
    """Whether V is moved by so many keys, within tiles or within the whole."""
    keys = len(one.head.values)
    weights = softmax(one.head.scores, one.head.seen)
    for tile in (*(size for size in TILES if abs(by) < size < 2 * keys), keys):
        padded = np.pad(one.head.values, ((0, -keys % tile), (0, 0)))
        moved = np.roll(padded.reshape(-1, tile, padded.shape[1]), -by, axis=1).reshape(padded.shape)[:keys]
        if one.matches(weights @ moved):
            return True
    return False


def _other_columns(found: list[Found]) -> Reason | None:
    def shows(one: Found, by: int) -> bool:
        columns = np.flatnonzero(one.wrong.any(axis=0))
        columns = columns[(columns + by >= 0) & (columns + by < one.truth.shape[1])]
        return bool(len(columns)) and _near(one.values[:, columns], one.truth[:, columns + by], one)

    for by in (*NEIGHBOURS, *(-2 * n for n in NEIGHBOURS[-2:])):
        if all(shows(one, by) for one in _wrong(found)):
            return Reason("lanes", f"Wrong columns have the values of the column {_further(by)}. Look at the lane map.")
    for bit in EXCHANGED:
        if all(_exchanged(one, bit) for one in _wrong(found)):
            said = f"Each column has the values of the column with another bit {bit}: dim ^ {bit}."
            return Reason("lanes", f"{said} Look at the lane map.")
    return None


def _exchanged(one: Found, bit: int) -> bool:
    other = np.arange(one.truth.shape[1]) ^ bit
    return bool(other.max() < len(other)) and _near(one.values, one.truth[:, other], one)


def _near(values: np.ndarray, other: np.ndarray, one: Found) -> bool:
    with np.errstate(invalid="ignore"):
        return bool((np.abs(values - other) <= one.loose * np.abs(one.truth).max()).all())


def _row_factors(found: list[Found]) -> Reason | None:
    """A factor of its own for each row: l is wrong, and the products are right."""
    for one in _wrong(found):
        with np.errstate(invalid="ignore", divide="ignore"):
            factors = (one.values * one.truth).sum(axis=1) / (one.truth**2).sum(axis=1)
        whole = np.isfinite(factors).all() and factors.all()
        if not whole or not _near(one.values, factors[:, None] * one.truth, one):
            return None
    if risen := _risen_rows(found):
        return risen
    text = "Each wrong row has one factor of its own, so its sum l is wrong. Look at the sum over threads."
    return Reason("sum", text)


def _risen_rows(found: list[Found]) -> Reason | None:
    """Wrong are exactly the rows whose max rises after their first tile."""
    wrong = [one.wrong.any(axis=1) for one in found]
    if all(rows.all() for rows in wrong):
        return None
    for tile in TILES:
        rises = (one.head.hidden.max(axis=1) > one.head.hidden[:, :tile].max(axis=1) for one in found)
        if all(map(np.array_equal, wrong, rises)):
            text = f"Only rows with a later rise of the max are wrong, here in a later tile of {tile} keys."
            return Reason("rescale", f"{text} Look at the rescale of l and O.")
    return None


def _columns(found: list[Found]) -> Reason | None:
    count = found[0].wrong.shape[1]
    columns = np.logical_or.reduce([one.wrong.any(axis=0) for one in found])
    return _pattern(columns, count, "columns", "lanes", "Look at the map from lanes to columns.")


def _rows(found: list[Found]) -> Reason | None:
    """A pattern of wrong rows, or a wrong last tile of rows."""
    rows = np.logical_or.reduce([one.wrong.any(axis=1) for one in found])
    count = len(rows)
    first = int(np.argmax(rows))
    for tile in TILES[3:]:
        if rows.any() and count > tile and first >= (count - 1) // tile * tile:
            text = f"Only rows of the last tile are wrong, from row {first} of {count}."
            return Reason("bound", f"{text} Look at the bounds of rows and keys.")
    return _pattern(rows, count, "rows", "lanes", "Look at the map from threads to rows.")


def _pattern(wrong: np.ndarray, count: int, name: str, kind: str, remedy: str) -> Reason | None:
    if wrong.all() or not wrong.any():
        return None
    numbers = np.flatnonzero(wrong)
    for period in PERIODS:
        rest = np.unique(numbers % period)
        whole = len(numbers) == np.isin(np.arange(count) % period, rest).sum()
        if period < count and len(rest) <= period // 2 and whole:
            first = f"Only {name} {_listed(numbers[:3])} ... are wrong"
            return Reason(kind, f"{first}: number {_listed(rest)} of each {period}. {remedy}")
    if len(numbers) == numbers[-1] - numbers[0] + 1 <= count * 3 // 4:
        return Reason(kind, f"Only {name} {numbers[0]} to {numbers[-1]} of {count} are wrong. {remedy}")
    return None


def _heads(found: list[Found]) -> Reason | None:
    right = {one.head.scores.shape for one in found if not one.wrong.any()}
    wrong = [one for one in _wrong(found) if one.head.scores.shape in right]  # shorter contexts may be right
    if not wrong:
        return None
    text = f"Only some heads are wrong, such as head {_at(wrong[0])}. Look at the strides and numbers of heads."
    return Reason("stride", text)


def _wrong(found: list[Found]) -> list[Found]:
    return [one for one in found if one.wrong.any()]


def _at(one: Found) -> str:
    return ", ".join(map(str, one.head.at))


def _further(by: int) -> str:
    return f"{abs(by)} {'after' if by > 0 else 'before'} their own"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))

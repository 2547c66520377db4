"""What a stop wins, computed from the recordings: the sentences of a stop with their numbers.

A sentence has placeholders such as {time.times}: the name of a gain, and a field of `Compared`. No number of a
sentence is typed by hand.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from app.course.stop import Gain, Stop, StopError
from explainers.story.glossary import listed
from kernels.catalog import Catalog
from kernels.recordings import tables
from kernels.recordings.tables import Provenance
from kernels.trace.memory.model import global_sectors

UNITS = {
    "us": ((1e6, "s"), (1e3, "ms"), (1, "us")),
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes")),
}
WARP = 32  # lanes


@dataclass(frozen=True)
class Compared:
    """Two amounts of one kind, in words.

    value, value_before: the amounts. unit: of both.
    place: the GPU and the date, or the rule of a derived amount.
    sizes, sizes_before: of the problem, such as seq_len, batch and window.
    copy_rate: bytes per microsecond of a copy on that GPU, for bytes.
    """

    value: float
    value_before: float
    unit: str
    place: str
    sizes: Mapping[str, float] = field(default_factory=dict)
    sizes_before: Mapping[str, float] = field(default_factory=dict)
    copy_rate: float = 0.0

    @property
    def now(self) -> str:
        return amount(self.value, self.unit)

    @property
    def before(self) -> str:
        return amount(self.value_before, self.unit)

    @property
    def times(self) -> str:
        """How many times smaller the amount is now."""
        return _ratio(self.value_before, self.value)

    @property
    def loss(self) -> str:
        """How many times larger the amount is now."""
        return _ratio(self.value, self.value_before)

    @property
    def less(self) -> str:
        """By how many per cent the amount is smaller now."""
        return f"{100 * (1 - self.value / self.value_before):.2g}%"

    @property
    def more(self) -> str:
        """By how many per cent the amount is larger now."""
        return f"{100 * (self.value / self.value_before - 1):.2g}%"

    @property
    def copy_before(self) -> str:
        """The time in which the GPU copies the bytes of before."""
        return amount(self.value_before / self.copy_rate, "us")

    @property
    def tokens(self) -> str:
        return f"{self.sizes['seq_len']:,.0f}"

    @property
    def heads(self) -> str:
        return f"{self.sizes['num_heads']:,.0f}"

    @property
    def batch(self) -> str:
        return f"{self.sizes['batch']:,.0f}"

    @property
    def window(self) -> str:
        return f"{self.sizes['window']:,.0f}"

    @property
    def window_before(self) -> str:
        return f"{self.sizes_before['window']:,.0f}"


@dataclass(frozen=True)
class Told:
    """The sentences of a stop.

    wins, small: with their numbers.
    source: the origin of the numbers, in a sentence. Empty without numbers.
    """

    wins: str
    small: str
    source: str


def amount(value: float, unit: str) -> str:
    """A value in at most three digits, in the unit that fits."""
    scale, name = next(((s, n) for s, n in UNITS.get(unit, ()) if value >= s), (1, unit))
    short = f"{float(f'{value / scale:.3g}'):,.10g}"
    return f"{short} {name}".strip()


def _ratio(larger: float, smaller: float) -> str:
    if larger < smaller:
        raise StopError(f"{larger:g} is less than {smaller:g}, so this is no gain. Take .loss, .less or .more.")
    return f"{float(f'{larger / smaller:.3g}'):,.10g}"


# ---- the kinds ----


@dataclass(frozen=True)
class Column:
    """A column of a kind of recorded tables.

    kind: of the tables. key: the column with the name of a kernel or a level. name: of the column with the amounts.
    unit: of the amounts. rows: column -> value of the rows that count.
    """

    kind: str
    key: str
    name: str
    unit: str
    rows: Mapping[str, object] = field(default_factory=dict)


COLUMNS = {
    "time": Column("bench", "name", "median_us", "us", {"status": "ok", "causal": False}),
    "bytes": Column("bench", "name", "bytes", "B", {"status": "ok", "causal": False}),
    "latency": Column("hierarchy", "space", "ns", "ns", {"kind": "latency"}),
    "cycles": Column("cycles", "", "cycles", "cycles"),
    "error": Column("precision", "name", "relative error", "", {"field": "score_scale", "value": 1.0}),
}
SIZES = ("seq_len", "batch", "window", "num_heads")
Row = dict[str, object]


def _number(value: object) -> float:
    return float(str(value))


def _recorded(gain: Gain, catalog: Catalog) -> Compared:
    """From the newest table with both rows, of the kernels' present code."""
    column = COLUMNS[gain.kind]
    before_settings = gain.before_settings or (gain.settings if gain.kernel == gain.before else {})
    now = {**column.rows, **gain.problem}
    for rows, where in recorded_rows(column.kind):
        row = row_of(rows, column.key, gain.kernel, now, gain.settings, catalog)
        before = row_of(rows, column.key, gain.before, now | dict(gain.before_problem), before_settings, catalog)
        if row and before:
            at_work = gain.kind == "time" and "sustained_us" in row and "sustained_us" in before
            name = "sustained_us" if at_work else column.name
            place = place_of(where, {True: "at work", False: "rested"}[at_work] if gain.kind == "time" else "")
            rate = where.roofs.get("copy_gb_per_s", 0.0) * 1e3
            amounts = _number(row[name]), _number(before[name])
            return Compared(*amounts, column.unit, place, _sizes(row), _sizes(before), rate)
    raise StopError(
        f"No recorded table ({column.kind}) has {gain.kernel} and {gain.before} with {now}, of their present code. "
        "Choose a recorded problem, or record it again."
    )


def place_of(where: Provenance, how: str) -> str:
    return ", ".join(filter(None, (where.device.removeprefix("NVIDIA "), where.date, how)))


def recorded_rows(kind: str) -> tuple[tuple[list[Row], Provenance], ...]:
    """The rows of each recorded table of a kind, the newest table first."""
    return _rows_of(kind, tuple((name, where.date, len(t)) for name, (t, where) in tables.recorded(kind).items()))


@lru_cache(maxsize=8)
def _rows_of(kind: str, _: tuple[tuple[str, str, int], ...]) -> tuple[tuple[list[Row], Provenance], ...]:
    found = tables.recorded(kind).values()
    return tuple(([_values(row) for row in table.to_dict("records")], where) for table, where in found)


def row_of(
    rows: list[Row],
    key: str,
    name: str,
    wanted: Mapping[str, object],
    settings: Mapping[str, object],
    catalog: Catalog,
) -> Row | None:
    """The first row of a kernel or level with these values. Without settings, a kernel has its own constants."""
    due = {**wanted, **settings} | ({key: name} if key else {})
    if name in catalog.kernels and key:
        due["code_hash"] = catalog.kernels[name].code_hash
    found = (row for row in rows if all(row.get(field) == value for field, value in due.items()))
    return next((row for row in found if settings or row.get("own_settings", True)), None)


def _values(row: Row) -> Row:
    """The columns of a row that have a value, with the fields of its problem and its constants."""
    fields, settings = row.get("problem"), row.get("settings")
    found: Row = json.loads(fields) if isinstance(fields, str) else {}
    found |= {str(name): value for name, value in row.items() if value == value}  # a missing number is NaN
    pairs = [pair.split("=") for pair in settings.split()] if isinstance(settings, str) else []
    return found | {name: int(value) for name, value in pairs}


def _sizes(row: Row) -> dict[str, float]:
    return {name: float(value) for name, value in row.items() if name in SIZES and isinstance(value, (int, float))}


def _duel(gain: Gain, catalog: Catalog) -> Compared:
    """A kernel's sustained time against a rival's, round by round on one GPU."""
    wanted = {"peer": gain.before, **gain.problem}
    for rows, where in recorded_rows("duels"):
        measured = [row for row in rows if "sustained_us" in row]
        if row := row_of(measured, "name", gain.kernel, wanted, gain.settings, catalog):
            amounts = _number(row["sustained_us"]), _number(row["sustained_peer_us"])
            return Compared(*amounts, "us", place_of(where, "at work"), _sizes(row))
    raise StopError(f"No recorded duel of {gain.kernel} and {gain.before} has {dict(gain.problem)}. Choose another.")


def _cache(gain: Gain, catalog: Catalog) -> Compared:
    """The bytes of K and V that a run reads at least once."""

    def read(name: str, problem: Mapping[str, object]) -> float:
        work = catalog.kernels[name].problem_type(**_as_tuples(problem)).work
        return sum(size for tensor, size in work.touched.items() if tensor in ("k_cache", "v_cache"))

    before = {**gain.problem, **gain.before_problem}
    place = "counted from the sizes of the problem"
    return Compared(read(gain.kernel, gain.problem), read(gain.before, before), "B", place)


def _as_tuples(problem: Mapping[str, object]) -> dict[str, object]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in problem.items()}


def _sectors(gain: Gain, catalog: Catalog) -> Compared:
    """The sectors of a warp's access of global memory. problem: bytes of a lane, and stride in bytes between lanes."""

    def count(access: Mapping[str, object]) -> int:
        stride, width = int(str(access["stride"])), int(str(access["bytes"]))
        return global_sectors([lane * stride for lane in range(WARP)], width).sectors

    place = "counted by the rule of sectors"
    before = {**gain.problem, **gain.before_problem}
    return Compared(count(gain.problem), count(before), "sectors", place)


def _stored(gain: Gain, catalog: Catalog) -> Compared:
    """The bytes of LSE, one number per query, against those of P, one number for each query and key."""
    problem = catalog.kernels[gain.kernel].problem_type(**_as_tuples(gain.problem))
    part = {problem.picture.get(tensor.name, tensor.name): tensor for tensor in problem.tensors()}
    lse = next(tensor for tensor in part.values() if tensor.axes == ("batch", "head", "query"))
    keys = part["K"].shape[part["K"].axes.index("key")]
    place, sizes = "counted from the sizes of the problem", _sizes(problem.values())
    return Compared(lse.nbytes, lse.size * keys * part["O"].itemsize, "B", place, sizes, sizes)


RULES: dict[str, Callable[[Gain, Catalog], Compared]] = {
    "duel": _duel,
    "cache": _cache,
    "sectors": _sectors,
    "stored": _stored,
}


def compared(gain: Gain, catalog: Catalog) -> Compared:
    """Both amounts of a gain. Raises StopError."""
    return RULES.get(gain.kind, _recorded)(gain, catalog)


def told(stop: Stop, catalog: Catalog) -> Told:
    """The sentences of a stop with their numbers. Raises StopError for an unknown placeholder or recording."""
    found = {gain.name: compared(gain, catalog) for gain in stop.gain}
    try:
        wins, small = stop.wins.format(**found), stop.small.format(**found)
    except (KeyError, AttributeError, IndexError, ValueError) as error:
        fields = [name for name, value in vars(Compared).items() if isinstance(value, property)]
        raise StopError(
            f"The sentences of {stop.name} have an unknown placeholder: {error}. Write {{NAME.FIELD}} with a gain's "
            f"name ({', '.join(found)}) and one of {', '.join(fields)}."
        ) from error
    return Told(wins, small, _source([*found.values()]))


def _source(found: Sequence[Compared]) -> str:
    """The origin of amounts: each place once, with the tokens of its timed problems."""
    tokens: dict[str, list[str]] = {one.place: [] for one in found}
    for one in found:
        if one.unit == "us" and "seq_len" in one.sizes and one.tokens not in tokens[one.place]:
            tokens[one.place].append(one.tokens)
    whole = {place: n for place, n in tokens.items() if not any(o != place and o.startswith(place) for o in tokens)}
    said = [f"{place}, {listed(sizes)} tokens" if sizes else place for place, sizes in whole.items()]
    return ". ".join(one[0].upper() + one[1:] for one in said)

"""What a stop wins, computed from the recordings: the sentences of a stop with their numbers.

A sentence has placeholders such as {time.times}: the name of a gain, and a field of `Compared`. No number of a
sentence is typed by hand.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from app.course.compared import Compared, sizes_of
from app.course.counted import COUNTED
from app.course.launched import launches
from app.course.patterned import pattern
from app.course.stop import Gain, Stop, StopError
from explainers.story.glossary import listed
from kernels.catalog import Catalog
from kernels.measure import chains, rings
from kernels.recordings import tables
from kernels.recordings.tables import Provenance


@dataclass(frozen=True)
class Told:
    """The sentences of a stop.

    wins, small: with their numbers.
    source: the origin of the numbers, in a sentence. Empty without numbers.
    """

    wins: str
    small: str
    source: str


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
    "latency": Column("hierarchy", "space", "cycles", "cycles", {"kind": "latency"}),
    "cycles": Column("cycles", "", "cycles", "cycles"),
    "error": Column("precision", "name", "relative error", "", {"field": "score_scale", "value": 1.0}),
}
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
            place = place_of(where, "rested" if gain.kind == "time" else "")
            rate = where.roofs.get("copy_gb_per_s", 0.0) * 1e3
            amounts = _number(row[column.name]), _number(before[column.name])
            return Compared(*amounts, column.unit, place, sizes_of(row), sizes_of(before), rate)
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


DUELS = {"duel": ("sustained_us", "sustained_peer_us", "at work"), "rested": ("us", "peer_us", "rested")}


def _duel(gain: Gain, catalog: Catalog) -> Compared:
    """A kernel's time against a rival's, round by round on one GPU: at work, or rested."""
    now, before, how = DUELS[gain.kind]
    wanted = {"peer": gain.before, **gain.problem}
    for rows, where in recorded_rows("duels"):
        measured = [row for row in rows if now in row]
        if row := row_of(measured, "name", gain.kernel, wanted, gain.settings, catalog):
            amounts = _number(row[now]), _number(row[before])
            return Compared(*amounts, "us", place_of(where, how), sizes_of(row))
    raise StopError(f"No recorded duel of {gain.kernel} and {gain.before} has {dict(gain.problem)}. Choose another.")


def _chain(gain: Gain, catalog: Catalog) -> Compared:
    """A fused kernel's time in a graph against its separate launches or torch.compile, or with `mode` both ways of one
    kernel: in a graph and one after another. With a hot L2. A graph is sustained, launches one after another rested."""
    spec, before_mode = catalog.kernels[gain.kernel], str(gain.before_problem.get("mode", "graph"))
    fused = (other for other in catalog.kernels.values() if catalog.separate_of(other) is spec)
    found = chains.recorded(spec if catalog.separate_of(spec) else next(fused, spec))
    if found is not None:
        rows, where = found
        listed = [_values(row) for row in rows[rows.l2 == "hot"].to_dict("records")]
        now = row_of(listed, "name", gain.kernel, {"mode": "graph", **gain.problem}, {}, catalog)
        before = row_of(listed, "name", gain.before, {**gain.problem, "mode": before_mode}, {}, catalog)
        if now and before:
            earlier = before["sustained_us" if before_mode == "graph" else "us"]
            how = "sustained" if before_mode == "graph" else "a graph sustained, one after another rested"
            place = place_of(where, how)
            return Compared(_number(now["sustained_us"]), _number(earlier), "us", place, sizes_of(now))
    raise StopError(f"No recorded chain of {gain.kernel} and {gain.before} has {dict(gain.problem)}. Choose another.")


def _ring(gain: Gain, catalog: Catalog) -> Compared:
    """A way to use several GPUs against another one, both at work (measure/rings.py)."""
    recorded = rings.recorded()
    for turns in rings.in_turns(recorded[0]) if recorded else []:
        rows = [_values(row) for row in turns.to_dict("records")]
        now, before = (row_of(rows, "way", name, gain.problem, {}, catalog) for name in (gain.kernel, gain.before))
        if now and gain.before == rings.FASTEST_ALONE:
            before = rings.fastest_alone(rows, "sustained_us")
        if recorded and now and before:
            amounts = _number(now["sustained_us"]), _number(before["sustained_us"])
            return Compared(*amounts, "us", place_of(recorded[1], "at work"), sizes_of(now))
    raise StopError(f"No recorded ring has {gain.kernel} and {gain.before} with {dict(gain.problem)}. Record it again.")


RULES: dict[str, Callable[[Gain, Catalog], Compared]] = {
    **{"duel": _duel, "rested": _duel, "chain": _chain, "ring": _ring, "launches": launches, "pattern": pattern},
    **COUNTED,
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

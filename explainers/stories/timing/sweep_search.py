"""The sweeps in a table of times. A sweep varies one size of the problem (SWEPT) or one compile-time constant."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pandas as pd

from explainers.stories.timing.timed_row import Fixed, Value
from explainers.stories.timing.wording import number, plain
from kernels import catalog
from kernels.build.occupancy import block_constants
from kernels.measure.bench_rows import SIZES as OF_ALL
from kernels.recordings.tables import Provenance

SWEPT = ("seq_len", "batch", "num_heads", "block_size")  # sizes with a sweep
SIZES = (*OF_ALL, "block_size")  # block_size only for a paged cache
GROWING = SWEPT[:3]  # sizes that make a problem larger
_FOLLOWS = {"num_heads": ["num_kv_heads"]}  # swept size -> other fields with a new value
# The swept field, and the fixed values: name -> value of sizes, "title", "l2" and the constants of a block's size
Sweep = tuple[str, Fixed]
Point = dict[str, Value]  # a row of a table of times


def prepared(table: pd.DataFrame, where: Provenance, source: str) -> pd.DataFrame:
    """Returns a bench table with device, date, source and the block_size of the pages."""
    pages = table.problem.astype("object").fillna("").astype(str).str.extract(r'"block_size": (\d+)')[0].astype(float)
    return table.assign(device=where.device, date=where.date, source=source, block_size=pages)


def sweeps(table: pd.DataFrame) -> dict[str, Sweep]:
    """Returns the sweeps in a table: key -> (field, fixed values). Longer sweeps over sizes come first.

    A key is a stable text.
    """
    timed = _points(table)
    found: dict[str, tuple[int, Sweep]] = {}
    for field in SWEPT:
        follows = (field, *_FOLLOWS.get(field, ()))
        kept = ["title", *(name for name in SIZES if name not in follows), "l2"]
        for fixed, own in _grouped(timed, kept):
            length = len(_swept(own, field, fixed))
            if length > 1:
                found[_key(field, fixed)] = length, (field, fixed)
    longest_first = sorted(found.items(), key=lambda item: -item[1][0])
    by_size = {key: sweep for key, (_, sweep) in longest_first}
    return by_size | _over_constants(timed)


def _over_constants(timed: list[Point]) -> dict[str, Sweep]:
    """Returns the sweeps over a constant. The problem and the other constants of a block's size stay fixed."""
    chosen = dict.fromkeys(str(point["name"]) for point in timed if not point["own_settings"])
    specs = [catalog.current().kernels[name] for name in chosen if name in catalog.current().kernels]
    every = list(dict.fromkeys(c.name for spec in specs for c in block_constants(spec)))
    found: dict[str, Sweep] = {}
    for constant in dict.fromkeys(c.name for spec in specs for c in spec.constants if not c.what_if):
        blocks = [name for name in every if name != constant]
        having = [point for point in timed if constant in point]
        for fixed, own in _grouped(having, ["title", *SIZES, "l2", *blocks]):
            values: dict[tuple[Value, ...], set[Value]] = {}
            for point in own:
                values.setdefault((point["name"], point["device"], point["source"]), set()).add(point[constant])
            if max(map(len, values.values())) > 1:
                kept = {name: value for name, value in fixed.items() if name not in blocks or value is not None}
                found[_key(constant, kept)] = (constant, kept)
    return found


def _points(table: pd.DataFrame) -> list[Point]:
    """Returns the timed rows with sizes as dictionaries, with each constant."""
    names = ["title", *SIZES, "l2", "name", "settings", "own_settings", "device", "source"]
    points = []
    timed = table.loc[table.seq_len.notna() & (table.status == "ok"), names]
    for values in timed.itertuples(index=False, name=None):
        point = {name: None if pd.isna(value) else value for name, value in zip(names, values)}
        pairs = (pair.split("=") for pair in str(point["settings"] or "").split())
        points.append(point | {name: float(value) for name, value in pairs})
    return points


def _grouped(points: list[Point], names: list[str]) -> list[tuple[Fixed, list[Point]]]:
    """Returns the points by their values of these names, sorted by the values, None last."""
    groups: dict[tuple, list[Point]] = {}
    for point in points:
        groups.setdefault(tuple(point.get(name) for name in names), []).append(point)
    order = sorted(groups, key=lambda values: tuple((value is None, value or 0) for value in values))
    return [(dict(zip(names, values)), groups[values]) for values in order]


def _swept(points: list[Point], field: str, fixed: Mapping[str, Value]) -> set[Value]:
    """Returns the timed values of the field on a sweep's lines: `slice_of` without rows and labels."""
    own = [p for p in points if all(value is None or p.get(name) == value for name, value in fixed.items())]
    return _swept_sizes(own, field) if field in SWEPT else _swept_constants(own, field, fixed)


def _swept_sizes(points: list[Point], field: str) -> set[Value]:
    """Returns the values of a size. Constants that somebody chose need a second value."""
    lines: dict[tuple[Value, Value], set[Value]] = {}
    for point in points:
        lines.setdefault((point["name"], point["settings"]), set()).add(point[field])
    return {p[field] for p in points if p["own_settings"] or len(lines[p["name"], p["settings"]]) > 1}


def _swept_constants(points: list[Point], field: str, fixed: Mapping[str, Value]) -> set[Value]:
    """Returns the values of a constant on lines with several. Other constants divide a kernel's points into lines."""
    points = [point for point in points if field in point]
    others = [without_constants(str(point["settings"] or ""), {field, *fixed}) for point in points]
    divided = {point["name"] for point in points if not point["own_settings"]}
    lines: dict[tuple[Value, str], set[Value]] = {}
    for point, constants in zip(points, others):
        line = point["name"], constants if point["name"] in divided else ""
        lines.setdefault(line, set()).add(point[field])
    return set().union(*(values for values in lines.values() if len(values) > 1))


def without_constants(settings: str, names: Iterable[str]) -> str:
    """Returns constants as text, without some."""
    return " ".join(pair for pair in settings.split() if pair.split("=")[0] not in names)


def constant_of(table: pd.DataFrame, name: str) -> pd.Series:
    """Returns a constant's value in each row, NaN in rows without the constant."""
    return (
        table.settings.astype("object").fillna("").astype(str).str.extract(rf"(?:^| ){name}=(-?\d+)")[0].astype(float)
    )


def _key(field: str, fixed: Mapping[str, Value]) -> str:
    said = [
        f"{name}={plain(value)}" for name, value in fixed.items() if name not in ("title", "l2") and value is not None
    ]
    cache = "" if fixed["l2"] == "cold" else f" {fixed['l2']} L2"
    return f"{field} {' '.join(said)} {fixed['title']}{cache}"


def find_sweep(found: Mapping[str, Sweep], key_of_link: str) -> str | None:
    """Returns the key in `sweeps` for a key in a link.

    Former links use heads and kv_heads, and have no title or block_size.
    """
    now = re.sub(r"(^| )(kv_)?heads", r"\1num_\2heads", key_of_link)
    former = ((key, f"{re.sub(r' block_size=[0-9]+', '', key)} ") for key in found)
    if key_of_link in found:
        return key_of_link
    return next((key for key, said in former if said.startswith(f"{now} ")), None)


def fastest(table: pd.DataFrame, found: Mapping[str, Sweep]) -> str:
    """Returns the key of the first sweep with the row of the highest rate in any sweep. "" without a sweep."""
    timed = table[table.seq_len.notna() & (table.status == "ok")].sort_values("tflops", ascending=False, kind="stable")
    for row in timed.to_dict("records"):
        for key, (_, fixed) in found.items():
            if all(value is None or row.get(name) == value for name, value in fixed.items()):
                return key
    return next(iter(found), "")


class SweepName(NamedTuple):
    """A sweep in three short parts, for a choice part by part.

    kind: of the problem. problem: its shape. along: the swept field with its range, and the sizes that stay.
    constant: whether the swept field is a constant of a kernel.
    """

    kind: str
    problem: str
    along: str
    constant: bool


def names(table: pd.DataFrame, found: Mapping[str, Sweep]) -> dict[str, SweepName]:
    """Returns the short names of the sweeps of a table, by their keys. No two sweeps have the same name."""
    timed, short, long = _points(table), {}, {}
    dtypes: dict[Value, set[Value]] = {}
    for _, fixed in found.values():
        dtypes.setdefault(fixed["title"], set()).add(fixed["dtype"])
    for key, (field, fixed) in found.items():
        values = sorted(map(number, _swept(timed, field, fixed)))
        problem = [f"head_dim {plain(fixed['head_dim'])}", *(["causal"] if fixed["causal"] else [])]
        problem += [str(fixed["dtype"])] if len(dtypes[fixed["title"]]) > 1 else []
        problem += [] if fixed["l2"] == "cold" else [f"{fixed['l2']} L2"]
        stays = {name: value for name, value in fixed.items() if value is not None and name not in _OF_PROBLEM}
        usual = [_short(name, value) for name, value in stays.items() if name not in _LONG]
        swept = f"{_SHORT.get(field, field)} {values[0]:,.0f} to {values[-1]:,.0f}"
        name = SweepName(str(fixed["title"]), ", ".join(problem), ", ".join([swept, *usual]), field not in SWEPT)
        short[key] = name
        long[key] = name._replace(along=", ".join([swept, *(_short(name, value) for name, value in stays.items())]))
    said = list(short.values())
    return {key: name if said.count(name) == 1 else long[key] for key, name in short.items()}


_OF_PROBLEM = ("title", "l2", "head_dim", "causal", "dtype")
_LONG = ("num_heads", "num_kv_heads", "block_size")  # of a name only if two sweeps differ by nothing else
_SHORT = {"seq_len": "tokens", "num_heads": "heads", "num_kv_heads": "KV heads"}


def _short(name: str, value: Value) -> str:
    said = f"{number(value):,.0f}"
    return f"{said} {_SHORT[name]}" if name in _SHORT else f"{name} {said}"


def titles(table: pd.DataFrame, found: Mapping[str, Sweep]) -> dict[str, str]:
    """Returns the sweeps of a table in words, by their keys: the swept field, its range, and the fixed values."""
    timed = _points(table)
    return {key: _title(sorted(map(number, _swept(timed, *sweep))), *sweep) for key, sweep in found.items()}


def _title(values: list[float], field: str, fixed: Mapping[str, Value]) -> str:
    low, high = values[0], values[-1]
    same = fixed.get("num_kv_heads") == fixed.get("num_heads")
    left_out = ("title", "l2", "causal", "dtype", *(["num_kv_heads"] if same else []))
    stays = [name for name, value in fixed.items() if name not in left_out and value is not None]
    said = ", ".join(f"{name} {plain(fixed[name])}" for name in stays)
    mask = ", causal" if fixed["causal"] else ""
    if field == "num_heads":
        head_dim = number(fixed["head_dim"])
        mask = f" (width {plain(low * head_dim)} to {plain(high * head_dim)}){mask}"
    return (
        f"{fixed['title']}: {field} {plain(low)} to {plain(high)} at {said}{mask}, {fixed['dtype']}, {fixed['l2']} L2"
    )

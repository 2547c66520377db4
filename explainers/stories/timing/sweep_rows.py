"""The sweeps in a table of times, the rows of one, and its comparison with a baseline.

A sweep varies one size of the problem (SWEPT) or one compile-time constant.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from explainers.charts import palette
from explainers.models.recorded_times import shown_name, sizes
from explainers.stories.timing.wording import Fixed, Value, number, plain, title_of
from kernels import catalog
from kernels.build.occupancy import block_constants
from kernels.measure import flashinfer_calls
from kernels.measure.bench_rows import SIZES as OF_ALL
from kernels.measure.peers import NAMES, PAGED, PEERS, SDPA
from kernels.measure.reports import RATIO, exponents, labelled, speedups
from kernels.recordings.tables import Provenance

SWEPT = ("seq_len", "batch", "num_heads", "block_size")  # sizes with a sweep
SIZES = (*OF_ALL, "block_size")  # block_size only for a paged cache
GROWING = SWEPT[:3]  # sizes that make a problem larger
_FOLLOWS = {"num_heads": ["num_kv_heads"]}  # swept size -> other fields with a new value
# The swept field, and the fixed values: name -> value of sizes, "title", "l2" and the constants of a block's size
Sweep = tuple[str, Fixed]
Point = dict[str, Value]  # a row of a table of times


def prepared(table: pd.DataFrame, where: Provenance, source: str) -> pd.DataFrame:
    """A bench table with device, date, source and the block_size of the pages."""
    pages = table.problem.astype("object").fillna("").astype(str).str.extract(r'"block_size": (\d+)')[0].astype(float)
    return table.assign(device=where.device, date=where.date, source=source, block_size=pages)


def sweeps(table: pd.DataFrame) -> dict[str, Sweep]:
    """The sweeps in a table: key -> (field, fixed values). Longer sweeps over sizes come first.

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
    names = ["title", *SIZES, "l2", "name", "settings", "own_settings", "device", "source"]
    points = []
    timed = table.loc[table.seq_len.notna() & (table.status == "ok"), names]
    for values in timed.itertuples(index=False, name=None):
        point = {name: None if pd.isna(value) else value for name, value in zip(names, values)}
        pairs = (pair.split("=") for pair in str(point["settings"] or "").split())
        points.append(point | {name: float(value) for name, value in pairs})
    return points


def _grouped(points: list[Point], names: list[str]) -> list[tuple[Fixed, list[Point]]]:
    groups: dict[tuple, list[Point]] = {}
    for point in points:
        groups.setdefault(tuple(point.get(name) for name in names), []).append(point)
    order = sorted(groups, key=lambda values: tuple((value is None, value or 0) for value in values))
    return [(dict(zip(names, values)), groups[values]) for values in order]


def _swept(points: list[Point], field: str, fixed: Mapping[str, Value]) -> set[Value]:
    """The timed values of the field on a sweep's lines: `slice_of` without rows and labels.

    Constants that somebody chose need a second value of a size. Other constants than the swept one divide a kernel's
    points into lines, and a line needs two values.
    """
    own = [p for p in points if all(value is None or p.get(name) == value for name, value in fixed.items())]
    lines: dict[tuple[Value, Value], set[Value]] = {}
    if field in SWEPT:
        for p in own:
            lines.setdefault((p["name"], p["settings"]), set()).add(p[field])
        return {p[field] for p in own if p["own_settings"] or len(lines[p["name"], p["settings"]]) > 1}
    own = [p for p in own if field in p]
    divided = {p["name"] for p in own if not p["own_settings"]}
    for p in own:
        others = without_constants(str(p["settings"] or ""), {field, *fixed}) if p["name"] in divided else ""
        lines.setdefault((p["name"], others), set()).add(p[field])
    return set().union(*(values for values in lines.values() if len(values) > 1))


def without_constants(settings: str, names: Iterable[str]) -> str:
    """Constants as text, without some."""
    return " ".join(pair for pair in settings.split() if pair.split("=")[0] not in names)


def constant_of(table: pd.DataFrame, name: str) -> pd.Series:
    """A constant's value in each row, NaN in rows without the constant."""
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
    """The key in `sweeps` for a key in a link.

    Former links use heads and kv_heads, and have no title or block_size.
    """
    now = re.sub(r"(^| )(kv_)?heads", r"\1num_\2heads", key_of_link)
    former = ((key, f"{re.sub(r' block_size=[0-9]+', '', key)} ") for key in found)
    if key_of_link in found:
        return key_of_link
    return next((key for key, said in former if said.startswith(f"{now} ")), None)


def fastest(table: pd.DataFrame, found: Mapping[str, Sweep]) -> str:
    """The key of the first sweep with the row of the highest rate in any sweep. "" without a sweep."""
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
    """The short names of the sweeps of a table, by their keys. No two sweeps have the same name."""
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
    """The sweeps of a table in words, by their keys: the swept field, its range, and the fixed values."""
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


ITSELF = "itself"  # a baseline of sweeps over a constant: the same kernel at the constant's first value


def _fixed(table: pd.DataFrame, fixed: Mapping[str, Value]) -> pd.Series:
    keep = pd.Series(True, index=table.index)
    for name, value in fixed.items():
        column = table[name] if name in table else constant_of(table, name)
        keep &= column.isna() if pd.isna(value) else column == value
    return keep


def slice_of(table: pd.DataFrame, field: str, fixed: Mapping[str, Value]) -> pd.DataFrame:
    """The rows of one sweep with their labels, sorted by the field. Rows without a time remain."""
    part = table[_fixed(table, fixed) & table.seq_len.notna()]
    if field in SWEPT:
        part = _of_one_layout(part, field)
        several = part.groupby(["name", part.settings.fillna("")])[field].transform("nunique") > 1
        part = labelled(part[part.own_settings.astype(bool) | several])  # one chosen size belongs to another sweep
    else:
        part = part.assign(**{field: constant_of(part, field)})
        part = part[part[field].notna()]
        said = part.settings.map(lambda text: without_constants(text, {field, *fixed}))
        part = labelled(part.assign(settings=said)).assign(settings=part.settings)
        part = part[part.groupby("label")[field].transform("nunique") > 1]  # one value is no line
    return at_work(part.sort_values([field, "name"], kind="stable").reset_index(drop=True))


def at_work(part: pd.DataFrame) -> pd.DataFrame:
    """The rows of a sweep with the column `state`: sustained or rested.

    If every timed row has a sustained time, that time replaces the rested one.
    """
    timed = part.status == "ok"
    if "sustained_us" not in part or not timed.any() or part.sustained_us[timed].isna().any():
        return part.assign(state="rested")
    slower = part.sustained_us / part.median_us
    times = {f"{name}_us": part[f"sustained{end}_us"] for name, end in _SUSTAINED}
    rates = {name: part[name] / slower for name in ("tflops", "tokens_per_s", "gb_per_s", "roof_percent")}
    return part.assign(**times, **rates, state="sustained")


LAST = 10**6  # the position of the first peer, after all kernels
_SUSTAINED = (("median", ""), ("p10", "_p10"), ("p90", "_p90"))


def _of_one_layout(part: pd.DataFrame, field: str) -> pd.DataFrame:
    """The rows without the slower one of FlashInfer's two layouts of a cache, on each GPU.

    The largest size with a time in both layouts decides. Else the layout with fewer times goes.
    """
    slower = []
    for _, own in part[part["name"].isin(PAGED)].groupby(["device", "source"], sort=False):
        times = own.assign(median_us=own.median_us.where(own.status == "ok")).pivot_table(
            index=field, columns="name", values="median_us", dropna=False
        )
        for one in times:
            other = flashinfer_calls.other_layout(one)
            if other not in times or one < other:
                continue
            pair = times[[one, other]]
            both = pair.dropna()
            dropped = both.iloc[-1].idxmax() if len(both) else pair.count().idxmin()
            slower += own.index[own["name"] == dropped].tolist()
    return part.drop(index=slower)


def drawn_layout(name: str, present: Iterable[str]) -> str:
    """A label. For FlashInfer it is the label of the present layout."""
    if name not in PAGED or name in present:
        return name
    other = flashinfer_calls.other_layout(name)
    return other if other in present else name


def labels(part: pd.DataFrame) -> list[str]:
    """The labels with a time: kernels in the catalogue's order, other kernels, peers in their order."""
    kernels = {name: number for number, name in enumerate(catalog.current().kernels)}
    peers = {name: LAST + number for number, name in enumerate(NAMES)}
    position = kernels | peers
    timed = part[part.status == "ok"].drop_duplicates("label")
    order = {label: position.get(name, LAST - 1) for label, name in zip(timed.label, timed["name"])}
    return sorted(order, key=lambda label: (order[label], label))


def baselines(part: pd.DataFrame, field: str) -> list[str]:
    """The possible baselines. The first is the default: the fastest peer, else the first kernel."""
    names = labels(part)
    first = fastest_peer(part, field) or (names[0] if names else "")
    return [first, *(n for n in names if n != first)] if field in SWEPT else [ITSELF, *names]


def fastest_peer(part: pd.DataFrame, field: str) -> str:
    """The label of the fastest peer at the largest size with a peer, or "". Only a right result has a time."""
    timed = part[(part.status == "ok") & (part.kind == "peer")]
    last = timed[timed[field] == timed[field].max()]
    return "" if last.empty else str(last.label[last.median_us.idxmin()])


def baseline_name(baseline: str, part: pd.DataFrame, field: str) -> str:
    """A baseline in words."""
    return (
        f"itself at {field} {plain(sizes(part, field)[0])}"
        if baseline == ITSELF
        else shown_name(baseline, title_of(part))
    )


def compared(part: pd.DataFrame, field: str, baseline: str) -> pd.DataFrame:
    """The timed rows with speedup, speedup_low and speedup_high against the baseline.

    A row and its baseline have one problem. In a sweep over a constant they also have one value of the constant, or the
    baseline is the kernel's own first value.
    """
    if field in SWEPT:
        return speedups(part, baseline)
    timed = part[part.status == "ok"].copy()
    same = ["l2", "device", "date", "source"]
    if baseline == ITSELF:
        on, candidates = [*same, "label"], timed.sort_values(field, kind="stable")
    else:
        on, candidates = [*same, field], timed[timed.label == baseline]
    base = candidates.drop_duplicates(on)
    found = timed[on].merge(base[[*on, "median_us", "p10_us", "p90_us"]], on=on, how="left")
    for end, (above, below) in RATIO.items():
        timed[f"speedup{end}"] = found[above].to_numpy(float) / timed[below].to_numpy(float)
    return timed


def colours(names: Iterable[str]) -> dict[str, str]:
    """label -> colour. A kernel's colour follows its place in its family, a peer's its place among the peers.

    Other settings of a kernel take the remaining colours.
    """
    return palette.told_apart({name: _own_colour(name.split()[0]) for name in names})


def _own_colour(name: str) -> str:
    if name in PAGED:  # no chart has both these and the peers after torch's SDPA
        ways = list(dict.fromkeys(flashinfer_calls.ways(one)[1] for one in PAGED))
        after = palette.PEERS[len(SDPA) :]
        return after[ways.index(flashinfer_calls.ways(name)[1]) % len(after)]
    if name in PEERS:
        return palette.PEERS[PEERS.index(name)]
    return palette.kernel_colour(name)


FAR_BEHIND = 0.5  # speed next to the baseline: ratios leave out a line that is slower at most sizes
FAR_ABOVE = 1.5  # times our fastest time: where no problem grows, times leave out a library that is slower at each size


def left_out(kind: str, rows: pd.DataFrame, field: str) -> list[str]:
    """The labels that would flatten a chart of this kind: far from our fastest kernel and the baseline. The
    fastest kernel itself stays."""
    ours = rows[rows.kind == "kernel"]
    ours = ours if len(ours) else rows
    if kind == "speedup" and rows.speedup.notna().any():
        usual, least = rows.groupby("label").speedup.median(), ours.groupby(field).speedup.max().min()
        return [label for label, speed in usual.items() if speed < min(FAR_BEHIND, least)]
    if kind == "latency" and field not in GROWING:
        most = FAR_ABOVE * ours.groupby(field).median_us.min().max()
        peers = rows[rows.kind == "peer"].groupby("label").median_us.min()
        return [label for label, us in peers.items() if us > most]
    return []


def growth(rows: pd.DataFrame, field: str, column: str) -> dict[str, float]:
    """label -> growth factor of the column per doubling of the field, over the largest half of at least four
    sizes."""
    if field not in GROWING:
        return {}
    timed = rows[rows[column].notna()].assign(median_us=lambda r: r[column])
    return {label: 2.0**slope for label, (slope, _) in exponents(timed, field).items()}


def crossings(rows: pd.DataFrame, field: str) -> pd.DataFrame:
    """The crossings of two lines of times: x, median_us, faster (after the crossing) and slower.

    Lines are straight on the chart's logarithmic axes. Pairs of peers and sizes with overlapping spreads do not count.
    """
    found = []
    if field in SWEPT:
        for _, part in rows.groupby(["source", "device"], sort=False):
            us, low, high = (
                part.pivot_table(index=field, columns="label", values=f"{name}_us") for name in ("median", "p10", "p90")
            )
            peers = set(part[part.kind == "peer"].label)
            for a, b in combinations(us.columns, 2):
                if not {a, b} <= peers:
                    apart = (low[a] > high[b]) | (low[b] > high[a])
                    found += _crossings(us[[a, b]].dropna(), apart, field)
    return pd.DataFrame(found, columns=[field, "median_us", "faster", "slower"]).sort_values(field)


def _crossings(us: pd.DataFrame, apart: pd.Series, field: str) -> list[dict[str, float | str]]:
    logs, found = np.log(us), []
    a, b = us.columns
    gaps = logs[a] - logs[b]
    for start, end in pairwise(us.index[apart[us.index]]):
        if gaps[start] * gaps[end] >= 0:
            continue
        sizes = pairwise(us.loc[start:end].index)  # with those between whose spreads overlap
        x0, x1 = next(pair for pair in sizes if gaps[pair[0]] * gaps[pair[1]] <= 0)
        share = gaps[x0] / (gaps[x0] - gaps[x1])
        x = np.log(x0) + share * np.log(x1 / x0)
        y = logs[a][x0] + share * (logs[a][x1] - logs[a][x0])
        fast, slow = (a, b) if gaps[end] < 0 else (b, a)
        found.append({field: float(np.exp(x)), "median_us": float(np.exp(y)), "faster": fast, "slower": slow})
    return found

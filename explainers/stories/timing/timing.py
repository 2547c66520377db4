"""Times in words: the sweeps of a table of timing.bench, labels and colours, what a size's times say, where lines cross
and how they grow.

Rows carry `source` ("recorded" or "measured"), `device` and `date`, so that a point says where it comes from. A sweep
goes over a size of the problem (SWEPT) or over a compile-time constant of the kernels. The charts are in
timing_charts.py, the tables in timing_tables.py, the stage in timing_stage.py.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd

from explainers.charts import palette
from explainers.story.glossary import count
from kernels.build.occupancy import block_constants
from kernels.catalog import KERNELS
from kernels.measure import flashinfer_calls
from kernels.measure.judging import ROUNDING_TIMES
from kernels.measure.peers import NAMES, PAGED, PEERS, SDPA
from kernels.measure.reports import RATIO, exponents, labelled, speedups
from kernels.measure.rows import SIZES as OF_ALL
from kernels.measure.rows import problem_type_of
from kernels.recordings.tables import Provenance

SWEPT = ("seq_len", "batch", "num_heads", "block_size")  # what is found as a sweep over a size
SIZES = (*OF_ALL, "block_size")  # of a paged cache alone
GROWING = SWEPT[:3]  # of these a larger one is a larger problem
READ = {
    "flash_attn_3": "FlashAttention 3",
    "flash_attn_4": "FlashAttention 4",
    "flashinfer": "FlashInfer",
    **PAGED,
}  # of peers, as they are read
_UNAVAILABLE = {  # of a peer's reason, and what it then is in a few words
    "MissingJITCacheError": "not compiled there",
    "is not installed": "not installed there",
    " asked ": "not asked",
}
FLOOR = "sdpa_cudnn"  # the fastest of torch's over contiguous K and V
FLOOR_SAID = "torch cudnn is a floor: it reads contiguous K and V, no block table."
ITSELF = "itself"  # a baseline of sweeps over a constant: the same kernel at the constant's first value
_FOLLOWS = {"num_heads": ["num_kv_heads"]}  # what changes along with a swept size
# What is swept, and what stays: name -> value, of the sizes, of "title", "l2", and of the constants that size a block
Sweep = tuple[str, dict[str, Any]]
Point = dict[str, Any]  # a row of a table of times


def prepared(table: pd.DataFrame, where: Provenance, source: str) -> pd.DataFrame:
    """A bench table with its device, date and source, and the pages' block_size, as the charts take it."""
    pages = table.problem.astype("object").fillna("").astype(str).str.extract(r'"block_size": (\d+)')[0].astype(float)
    return table.assign(device=where.device, date=where.date, source=source, block_size=pages)


def shown_name(label: str, title: str = "") -> str:
    """A label as it is read: torch's implementations by what they are, not by torch's function; libraries by name.

    title: the problem's. Over a paged cache it marks FLOOR as a floor.
    """
    name = READ.get(label) or re.sub(r"^sdpa_", "torch ", label)
    return f"{name} (floor)" if label == FLOOR and is_paged(title) else name


@cache
def is_paged(title: str) -> bool:
    """Whether problems with this title read a paged cache."""
    return hasattr(problem_type_of(title), "cache_call")


def title_of(part: pd.DataFrame) -> str:
    """The title of the problems of a sweep, which is one for all rows; "" without rows."""
    return str(part.title.iloc[0]) if len(part) else ""


# ---- sweeps ----


def sweeps(table: pd.DataFrame) -> dict[str, Sweep]:
    """The sweeps that a table holds: {key: (field, {what stays: value})}, over sizes first, of those the longest first.
    A key is a text that stays the same."""
    timed = _points(table)
    found: dict[str, tuple[int, Sweep]] = {}
    for field in SWEPT:
        others = ["title", *(n for n in SIZES if n not in (field, *_FOLLOWS.get(field, ()))), "l2"]
        for fixed, mine in _grouped(timed, others):
            if (length := len(_swept(mine, field, fixed))) > 1:
                found[_key(field, fixed)] = length, (field, fixed)
    by_size = {key: sweep for key, (_, sweep) in sorted(found.items(), key=lambda item: -item[1][0])}
    return by_size | _over_constants(timed)


def _over_constants(timed: list[Point]) -> dict[str, Sweep]:
    """The sweeps over a constant: the problem stays, and so do the other constants that size a block."""
    chosen = dict.fromkeys(point["name"] for point in timed if not point["own_settings"])
    specs = [KERNELS[name] for name in chosen if name in KERNELS]
    every = list(dict.fromkeys(c.name for spec in specs for c in block_constants(spec)))
    found: dict[str, Sweep] = {}
    for constant in dict.fromkeys(c.name for spec in specs for c in spec.constants if not c.what_if):
        blocks = [name for name in every if name != constant]
        having = [point for point in timed if constant in point]
        for fixed, mine in _grouped(having, ["title", *SIZES, "l2", *blocks]):
            values: dict[Any, set[float]] = {}
            for point in mine:
                values.setdefault((point["name"], point["device"], point["source"]), set()).add(point[constant])
            if max(map(len, values.values())) > 1:
                kept = {name: value for name, value in fixed.items() if name not in blocks or value is not None}
                found[_key(constant, kept)] = (constant, kept)
    return found


def _points(table: pd.DataFrame) -> list[Point]:
    """The rows with sizes and a time, as dictionaries: of them what a sweep is found by, and each constant."""
    names = ["title", *SIZES, "l2", "name", "settings", "own_settings", "device", "source"]
    made = []
    for values in table.loc[table.seq_len.notna() & (table.status == "ok"), names].itertuples(index=False, name=None):
        point = {name: None if value != value else value for name, value in zip(names, values)}  # NaN: not known
        pairs = (pair.split("=") for pair in str(point["settings"] or "").split())
        made.append(point | {name: float(value) for name, value in pairs})
    return made


def _grouped(points: list[Point], names: list[str]) -> list[tuple[dict[str, Any], list[Point]]]:
    """The points by these values of theirs, None last, in order of the values."""
    groups: dict[tuple, list[Point]] = {}
    for point in points:
        groups.setdefault(tuple(point.get(name) for name in names), []).append(point)
    order = sorted(groups, key=lambda values: tuple((value is None, value or 0) for value in values))
    return [(dict(zip(names, values)), groups[values]) for values in order]


def _swept(points: list[Point], field: str, fixed: Mapping[str, Any]) -> set[float]:
    """The values of the field that a sweep's lines have a time at: `slice_of`, without its rows and labels."""
    mine = [p for p in points if all(value is None or p.get(name) == value for name, value in fixed.items())]
    lines: dict[Any, set[float]] = {}
    several: dict[str, set[str]] = {}
    if field in SWEPT:
        for p in mine:
            lines.setdefault((p["name"], p["settings"]), set()).add(p[field])
        return {p[field] for p in mine if p["own_settings"] or len(lines[p["name"], p["settings"]]) > 1}
    mine = [p for p in mine if field in p]
    said = [_without(str(p["settings"] or ""), {field, *fixed}) for p in mine]
    for p, text in zip(mine, said):
        several.setdefault(p["name"], set()).update([] if p["own_settings"] else [text])
    for p, text in zip(mine, said):
        lines.setdefault((p["name"], text if several[p["name"]] else ""), set()).add(p[field])
    return set().union(*(values for values in lines.values() if len(values) > 1))


def _without(settings: str, names: Iterable[str]) -> str:
    """Constants as text, without some of them."""
    return " ".join(pair for pair in settings.split() if pair.split("=")[0] not in names)


def constant_of(table: pd.DataFrame, name: str) -> pd.Series:
    """A constant's value in each row, NaN where the row has no such constant."""
    return (
        table.settings.astype("object").fillna("").astype(str).str.extract(rf"(?:^| ){name}=(-?\d+)")[0].astype(float)
    )


def _key(field: str, fixed: Mapping[str, Any]) -> str:
    said = [
        f"{name}={plain(value)}" for name, value in fixed.items() if name not in ("title", "l2") and value is not None
    ]
    cache = "" if fixed["l2"] == "cold" else f" {fixed['l2']} L2"
    return f"{field} {' '.join(said)} {fixed['title']}{cache}"


def find_sweep(found: Mapping[str, Sweep], asked: str) -> str | None:
    """The key of `sweeps` that a link asks for; a link of a former version says heads and kv_heads, and no title
    or block_size."""
    now = re.sub(r"(^| )(kv_)?heads", r"\1num_\2heads", asked)
    former = ((key, f"{re.sub(r' block_size=[0-9]+', '', key)} ") for key in found)
    return asked if asked in found else next((key for key, said in former if said.startswith(f"{now} ")), None)


def _fixed(table: pd.DataFrame, fixed: Mapping[str, Any]) -> pd.Series:
    keep = pd.Series(True, index=table.index)
    for name, value in fixed.items():
        column = table[name] if name in table else constant_of(table, name)
        keep &= column.isna() if pd.isna(value) else column == value
    return keep


def _of_lines(part: pd.DataFrame, field: str) -> pd.DataFrame:
    """Without the rows of constants that someone chose at one size alone: they are points of another sweep."""
    sizes = part.groupby(["name", part.settings.fillna("")])[field].transform("nunique")
    return part[part.own_settings.astype(bool) | (sizes > 1)]


def titles(table: pd.DataFrame, found: Mapping[str, Sweep]) -> dict[str, str]:
    """The sweeps of a table in words, by their keys: what runs, from where to where, and what stays."""
    timed = _points(table)
    return {key: _title(sorted(_swept(timed, *sweep)), *sweep) for key, sweep in found.items()}


def _title(values: list[float], field: str, fixed: Mapping[str, Any]) -> str:
    low, high = values[0], values[-1]
    same = fixed.get("num_kv_heads") == fixed.get("num_heads")
    told = ("title", "l2", "causal", "dtype", *(["num_kv_heads"] if same else []))
    stays = [name for name, value in fixed.items() if name not in told and value is not None]
    said = ", ".join(f"{name} {plain(fixed[name])}" for name in stays)
    mask = ", causal" if fixed["causal"] else ""
    if field == "num_heads":
        mask = f" (width {plain(low * fixed['head_dim'])} to {plain(high * fixed['head_dim'])}){mask}"
    return (
        f"{fixed['title']}: {field} {plain(low)} to {plain(high)} at {said}{mask}, {fixed['dtype']}, {fixed['l2']} L2"
    )


def slice_of(table: pd.DataFrame, field: str, fixed: Mapping[str, Any]) -> pd.DataFrame:
    """The rows of one sweep with their labels, sorted by the field, which is a column; those without a time too."""
    part = table[_fixed(table, fixed) & table.seq_len.notna()]
    if field in SWEPT:
        part = labelled(_of_lines(_of_one_layout(part, field), field))
    else:
        part = part.assign(**{field: constant_of(part, field)})
        part = part[part[field].notna()]
        said = part.settings.map(lambda text: _without(text, {field, *fixed}))
        part = labelled(part.assign(settings=said)).assign(settings=part.settings)
        part = part[part.groupby("label")[field].transform("nunique") > 1]  # one value alone is no line
    return at_work(part.sort_values([field, "name"], kind="stable").reset_index(drop=True))


def at_work(part: pd.DataFrame) -> pd.DataFrame:
    """The rows of a sweep with `state`: sustained, if every row with a time has a sustained one, which then takes the
    place of the rested time; else rested."""
    timed = part.status == "ok"
    if "sustained_us" not in part or not timed.any() or part.sustained_us[timed].isna().any():
        return part.assign(state="rested")
    slower = part.sustained_us / part.median_us
    times = {f"{name}_us": part[f"sustained{end}_us"] for name, end in _SUSTAINED}
    rates = {name: part[name] / slower for name in ("tflops", "tokens_per_s", "gb_per_s", "roof_percent")}
    return part.assign(**times, **rates, state="sustained")


_SUSTAINED = (("median", ""), ("p10", "_p10"), ("p90", "_p90"))


def _of_one_layout(part: pd.DataFrame, field: str) -> pd.DataFrame:
    """Without the slower of FlashInfer's two layouts of a cache, on each GPU by what each of its ways takes at the
    largest size at which both have a time, or without the one that has fewer. Each is judged beside the other alone."""
    slower = []
    for _, own in part[part["name"].isin(PAGED)].groupby(["device", "source"], sort=False):
        times = own.assign(median_us=own.median_us.where(own.status == "ok")).pivot_table(
            index=field, columns="name", values="median_us", dropna=False
        )
        for one, other in ((name, flashinfer_calls.other_layout(name)) for name in times):
            if other not in times or one < other:
                continue
            pair = times[[one, other]]
            both = pair.dropna()
            dropped = both.iloc[-1].idxmax() if len(both) else pair.count().idxmin()
            slower += own.index[own["name"] == dropped].tolist()
    return part.drop(index=slower)


def drawn_layout(name: str, there: Iterable[str]) -> str:
    """A label; of a way of FlashInfer in its other layout, if that is the one that is there."""
    if name not in PAGED or name in there:
        return name
    other = flashinfer_calls.other_layout(name)
    return other if other in there else name


def sizes(part: pd.DataFrame, field: str) -> list[float]:
    """What the field was set to, in order; at some of them there may be no time."""
    return sorted(float(v) for v in part[field].dropna().unique())


def labels(part: pd.DataFrame) -> list[str]:
    """The labels that have a time: the catalogue's kernels in their order, other kernels, then the peers in theirs."""
    place = {name: number for number, name in enumerate(KERNELS)} | {name: 10**6 + n for n, name in enumerate(NAMES)}
    timed = part[part.status == "ok"].drop_duplicates("label")
    order = {label: place.get(name, 10**5) for label, name in zip(timed.label, timed["name"])}
    return sorted(order, key=lambda label: (order[label], label))


def baselines(part: pd.DataFrame, field: str) -> list[str]:
    """What times can be compared with, the default first: the fastest peer, or without a peer the first kernel."""
    names = labels(part)
    first = fastest_peer(part, field) or (names[0] if names else "")
    return [first, *(n for n in names if n != first)] if field in SWEPT else [ITSELF, *names]


def fastest_peer(part: pd.DataFrame, field: str) -> str:
    """The label of the peer with the least time at the largest size at which a peer has one; "" without a peer. Only a
    peer with a right result has a time."""
    timed = part[(part.status == "ok") & (part.kind == "peer")]
    last = timed[timed[field] == timed[field].max()]
    return "" if last.empty else str(last.label[last.median_us.idxmin()])


def baseline_name(baseline: str, part: pd.DataFrame, field: str) -> str:
    """A baseline as it is read."""
    return (
        f"itself at {field} {plain(sizes(part, field)[0])}"
        if baseline == ITSELF
        else shown_name(baseline, title_of(part))
    )


def compared(part: pd.DataFrame, field: str, baseline: str) -> pd.DataFrame:
    """The rows with a time, with speedup, speedup_low and speedup_high against the baseline: at the same problem, and
    where a constant is swept at the same value of it, or against the kernel's own first value."""
    if field in SWEPT:
        return speedups(part, baseline)
    timed = part[part.status == "ok"].copy()
    same = ["l2", "device", "date", "source"]
    if baseline == ITSELF:
        base = timed.sort_values(field, kind="stable").drop_duplicates([*same, "label"])
        on = [*same, "label"]
    else:
        base, on = timed[timed.label == baseline].drop_duplicates([*same, field]), [*same, field]
    found = timed[on].merge(base[[*on, "median_us", "p10_us", "p90_us"]], on=on, how="left")
    for end, (above, below) in RATIO.items():
        timed[f"speedup{end}"] = found[above].to_numpy(float) / timed[below].to_numpy(float)
    return timed


def colours(names: Iterable[str]) -> dict[str, str]:
    """label -> colour: a kernel's by its place in its family, a peer's by its place among the peers; further settings
    of a kernel take what is left."""
    return palette.told_apart({name: _own_colour(name.split()[0]) for name in names})


def _own_colour(name: str) -> str:
    if name in PAGED:  # where they stand, the peers after torch's SDPA do not
        ways = list(dict.fromkeys(flashinfer_calls.ways(one)[1] for one in PAGED))
        after = palette.PEERS[len(SDPA) :]
        return after[ways.index(flashinfer_calls.ways(name)[1]) % len(after)]
    if name in PEERS:
        return palette.PEERS[PEERS.index(name)]
    return palette.kernel_colour(name)


# ---- sentences ----


def as_fast(ratio: float, low: float | None = None, high: float | None = None) -> str:
    """A speed-up in words: 2.0 times as fast, 3.1 times slower; as fast where the spread does not tell them apart."""
    if (low is not None and high is not None and low <= 1 <= high) or ratio == 1:
        return "as fast"
    times = max(ratio, 1 / ratio)
    said = f"{times:.2f}" if times < 1.1 else f"{times:.1f}" if times < 99.95 else f"{times:,.0f}"
    return f"{said} times as fast" if ratio > 1 else f"{said} times slower"


def beside(row: Any, name: str) -> str:
    """`as_fast` with what it is against: 3.1 times slower than torch efficient, as fast as itself at PAD_K 0."""
    said = as_fast(row.speedup, row.speedup_low, row.speedup_high)
    return f"{said} than {name}" if said.endswith("slower") else f"{said} as {name}"


def size_sentence(rows: pd.DataFrame, field: str, value: float, baseline: str, part: pd.DataFrame) -> str:
    """The times of one size, in a sentence: our kernels, the fastest first, beside the baseline; and which kernels and
    lines have none there, and why. rows: `compared` of what is drawn; part: the same with what has no time."""
    where = f"{field} {value:,.0f}"
    here = rows[rows[field] == value].sort_values("median_us", kind="stable")
    missing = part[(part[field] == value) & (part.status != "ok")]
    if here.empty:
        return f"{where}: {_no_time(missing) or 'what was timed here is hidden.'}"
    none = _no_time(missing[(missing.kind == "kernel") | missing.label.isin(rows.label)])
    several = here.device.nunique() > 1 or here.source.nunique() > 1
    device = here.iloc[0].device, here.iloc[0].source
    if several:  # of several GPUs the first, by name
        here = here[(here.device == device[0]) & (here.source == device[1])]
        where += f" on {device[0]}{' now' if device[1] == 'measured' else ''}"
    base, name = here[here.label == baseline], baseline_name(baseline, part, field)
    ours = here[(here.kind == "kernel") & (here.label != baseline)]
    ours = ours if len(ours) else here[here.label != baseline]
    told = [_told(row, base, name, first=n == 0) for n, row in enumerate(ours.itertuples())]
    if not told:
        told = [f"{shown_name(here.iloc[0].label, here.iloc[0].title)} takes {microseconds(here.iloc[0].median_us)}"]
    return f"{where}: {'; '.join(told)}. {none}".strip()


def state_of(part: pd.DataFrame) -> str:
    """rested or sustained: the times of a sweep's rows."""
    return "sustained" if "state" in part and len(part) and (part.state == "sustained").all() else "rested"


def state_sentence(rows: pd.DataFrame, baseline: str) -> str:
    """Clock and power of the fastest kernel and of the baseline where times are sustained; "" where they are rested.
    rows: `compared` of one size."""
    if rows.empty or state_of(rows) == "rested":
        return ""
    ours = rows[(rows.kind == "kernel") & (rows.label != baseline)].sort_values("median_us", kind="stable").head(1)
    shown = pd.concat([ours, rows[rows.label == baseline].head(1)])
    each = [
        f"{shown_name(r.label, r.title)} at {r.sustained_clock:,.0f} MHz and {r.sustained_power:,.0f} W"
        for r in shown.itertuples()
        if pd.notna(r.sustained_clock) and pd.notna(r.sustained_power)
    ]
    return f"Times are sustained{': ' if each else ''}{', '.join(each)}."


def _told(row: Any, base: pd.DataFrame, name: str, first: bool) -> str:
    said = f"{shown_name(row.label, row.title)} {'takes ' if first else ''}{microseconds(row.median_us)}"
    if pd.isna(row.speedup) or (base.empty and row.speedup == 1):
        return said
    if not first:
        return f"{said}, {as_fast(row.speedup, row.speedup_low, row.speedup_high)}"
    time = f" ({microseconds(base.iloc[0].median_us)})" if len(base) else ""
    return f"{said}, {beside(row, name)}{time}"


def _no_time(missing: pd.DataFrame) -> str:
    """Which of these rows' lines have no time, and why, in a sentence; "" if there are none."""
    names: dict[str, list[str]] = {}
    for row in missing.itertuples():
        names.setdefault(why(row), []).append(shown_name(row.label, row.title))
    said = [f"{', '.join(dict.fromkeys(labels))} ({reason})" for reason, labels in names.items()]
    return f"No time: {'; '.join(said)}." if said else ""


def why(row: Any) -> str:
    """Why a row has no time, in a few words; its `reason` says all of it."""
    if row.status == "wrong":
        if "broken on purpose" in str(row.reason):
            return "built broken on purpose"
        near = pd.notna(row.allowed_error) and row.max_abs_error <= ROUNDING_TIMES * row.allowed_error
        return "rounding above our limit" if near else "a wrong result"
    if row.status == "unavailable":
        return next((said for part, said in _UNAVAILABLE.items() if part in str(row.reason)), "cannot compute this")
    return {"skipped": "not run", "failed": "the run failed"}.get(row.status, str(row.status))


def sentence(rows: pd.DataFrame, field: str, baseline: str) -> str:
    """The largest place of the sweep at which the fastest kernel of ours and the baseline were timed, with their
    numbers."""
    ours = rows[(rows.kind == "kernel") & rows.speedup.notna()]
    ours = ours[ours.label != baseline] if (ours.label != baseline).any() else ours
    if ours.empty:
        return f"{shown_name(baseline, title_of(rows))} has a time here, and no other kernel has one at the same place."
    best = (
        ours[ours[field] == ours[field].max()].sort_values(["source", "median_us"]).iloc[0]
    )  # measured before recorded
    ratio = f"{max(best.speedup, 1 / best.speedup):.3g} times"
    ends = sorted((best.speedup_low, best.speedup_high))
    spread = f"({ends[0]:.3g} to {ends[1]:.3g})" if best.speedup >= 1 else f"({1 / ends[1]:.3g} to {1 / ends[0]:.3g})"
    name = f"itself at the first {field}" if baseline == ITSELF else shown_name(baseline, best.title)
    beyond = f"as fast as {name}" if best.speedup >= 1 else f"slower than {name}"
    return (
        f"At {field} {plain(best[field])}, {best.label} takes {microseconds(best.median_us)} "
        f"({microseconds(best.p10_us)} to {microseconds(best.p90_us)}): {ratio} {spread} {beyond} "
        f"({best.source}, {best.device})."
    )


def floor_sentence(rows: pd.DataFrame, field: str) -> str:
    """At how many sizes of a sweep the floor is faster than the fastest kernel of ours; "" where no floor is drawn."""
    if not is_paged(title_of(rows)) or field not in SWEPT or FLOOR not in set(rows.label):
        return ""
    on = [field, "device", "source"]
    ours = rows[rows.kind == "kernel"].groupby(on).median_us.min()
    floor = rows[rows.label == FLOOR].groupby(on).median_us.min()
    both = pd.concat([ours, floor], axis=1, keys=["ours", "floor"]).dropna()
    faster = int((both.floor < both.ours).sum())
    return f"{FLOOR_SAID} Here it is faster than our fastest kernel at {faster} of {count(len(both), 'size')}."


def exponent_sentence(part: pd.DataFrame, field: str) -> str:
    """How each label's time grows with the field, where there are enough sizes."""
    found = exponents(part, field) if field in GROWING else {}
    if not found:
        return ""
    said = ", ".join(
        f"{shown_name(label)} {field}^{slope:.2f}"
        for label, (slope, _) in sorted(found.items(), key=lambda item: -item[1][0])
    )
    used = next(iter(found.values()))[1]
    return f"Time grows as {said}: the slope over the {used} largest sizes on logarithmic axes."


def growth(rows: pd.DataFrame, field: str, column: str) -> dict[str, float]:
    """label -> by how much the column grows when the field doubles, over the largest half of at least four sizes."""
    if field not in GROWING:
        return {}
    timed = rows[rows[column].notna()].assign(median_us=lambda r: r[column])
    return {label: 2.0**slope for label, (slope, _) in exponents(timed, field).items()}


def crossings(rows: pd.DataFrame, field: str) -> pd.DataFrame:
    """Where two lines of times cross: x and median_us on straight lines of the chart's logarithmic axes, faster (after
    the crossing) and slower. Pairs of peers are left out, and sizes at which the spreads of the two overlap."""
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
                    found += _crossings(us.loc[apart, [a, b]].dropna(), field)
    return pd.DataFrame(found, columns=[field, "median_us", "faster", "slower"]).sort_values(field)


def _crossings(us: pd.DataFrame, field: str) -> list[dict[str, Any]]:
    logs, found = np.log(us), []
    a, b = us.columns
    for (x0, before), (x1, after) in pairwise(logs.iterrows()):
        d0, d1 = before[a] - before[b], after[a] - after[b]
        if d0 * d1 >= 0:
            continue
        share = d0 / (d0 - d1)
        x, y = np.log(x0) + share * np.log(x1 / x0), before[a] + share * (after[a] - before[a])
        fast, slow = (a, b) if d1 < 0 else (b, a)
        found.append({field: float(np.exp(x)), "median_us": float(np.exp(y)), "faster": fast, "slower": slow})
    return found


def crossing_sentences(found: pd.DataFrame, field: str) -> list[str]:
    """Each crossing in a sentence."""
    return [
        f"{shown_name(r.faster)} overtakes {shown_name(r.slower)} at about {field} {x:,.0f}."
        for r, x in zip(found.itertuples(), found[field])
    ]


def microseconds(value: float) -> str:
    """A time of microseconds with its unit: 84.7 us, 13.9 ms."""
    return f"{value / 1000:.4g} ms" if value >= 1000 else f"{value:.4g} us"


def megabytes(value: float) -> str:
    """Bytes with their unit: 33.6 MiB, 1.5 GiB."""
    return f"{value / 2**30:.3g} GiB" if value >= 2**30 else f"{value / 2**20:.3g} MiB"


def plain(value: Any) -> str:
    return str(value) if isinstance(value, (str, bool, np.bool_)) else f"{float(value):g}"


NOT_TIMED = {  # a library -> why it may have no row
    "flash_attn_4": "it was not installed on the GPU's machine, since its libraries have 88 MB",
    "flash_attn_3": "PyPI has no wheel of it",
}


def not_timed(there: Iterable[str]) -> list[str]:
    """A sentence with the reason for each version of FlashAttention that is not among these peers."""
    there = set(there)
    return [f"{shown_name(name)} has no row here: {why}." for name, why in NOT_TIMED.items() if name not in there]

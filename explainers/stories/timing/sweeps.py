"""The sweeps in recorded and measured times: their rows, lines and names, and the comparison with a baseline.

A sweep varies one size of the problem (SWEPT) or one compile-time constant.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from explainers.charts import palette
from explainers.models.recorded_times import UNITS, is_paged, shown_name, sizes
from explainers.story.words import Words
from kernels import catalog
from kernels.build.occupancy import block_constants
from kernels.measure import bench, bench_rows, flashinfer_calls
from kernels.measure.bench_rows import Now
from kernels.measure.judging import ROUNDING_TIMES
from kernels.measure.peers import NAMES, PAGED, PEERS, SDPA
from kernels.measure.reports import RATIO, exponents, labelled, speedups
from kernels.recordings import tables
from kernels.recordings.tables import Provenance

WORDS = Words.of(str(__package__))
NOW = "this GPU, now"
SWEPT = ("seq_len", "batch", "num_heads", "block_size")  # sizes with a sweep. Only a paged cache has a block_size
SIZES = (*bench_rows.SIZES, "block_size")
GROWING = SWEPT[:3]  # sizes that make a problem larger
ITSELF = "itself"  # a baseline of sweeps over a constant: the same kernel at the constant's first value
FAR_BEHIND = 0.5  # speed next to the baseline: ratios leave out a line that is slower at most sizes
FAR_ABOVE = 1.5  # times our fastest time: where no problem grows, times leave out a library that is slower at each size
Value = str | float | bool | None  # a size, a constant, a title or a state of the L2
Stamp = tuple[tuple[str, int], ...]  # the files of recorded times, and when each was written


class SweepName(NamedTuple):
    """A sweep in three short parts, for a choice part by part.

    kind: of the problem. problem: its shape. along: the swept field with its range, and the sizes that stay.
    """

    kind: str
    problem: str
    along: str


@dataclass(frozen=True, eq=False)
class Sweep:
    """The rows and lines of one sweep.

    field: the swept size or constant.
    fixed: name -> value of all that stays: "title", sizes, "l2" and the constants of a block's size.
    part: the rows with `label` and `state` (at_work), sorted by the field. Rows without a time remain.
    """

    field: str
    fixed: Mapping[str, Value]
    part: pd.DataFrame

    @property
    def of_constant(self) -> bool:
        return self.field not in SWEPT

    @cached_property
    def timed(self) -> pd.DataFrame:
        return self.part[self.part.status == "ok"]

    @cached_property
    def sizes(self) -> list[float]:
        """The values of the field. A value may have no time."""
        return sizes(self.part, self.field)

    @property
    def paged(self) -> bool:
        return is_paged(str(self.fixed["title"]))

    def named(self, label: str) -> str:
        """A label in words."""
        return shown_name(label, str(self.fixed["title"]))

    def at(self, value: float) -> str:
        """A value of the field in words: 8,192 tokens, head_dim 64."""
        return f"{value:,.0f} {UNITS[self.field]}" if self.field in UNITS else f"{self.field} {value:,.0f}"

    @cached_property
    def labels(self) -> list[str]:
        """The labels with a time: kernels in the catalogue's order, other kernels, peers in their order."""
        known = [*catalog.current().kernels, "", *NAMES]
        order = dict(zip(self.timed.label, self.timed["name"]))
        return sorted(order, key=lambda label: (known.index(order[label] if order[label] in known else ""), label))

    @cached_property
    def baselines(self) -> list[str]:
        """The possible baselines. The first is the default: the fastest peer at the largest size with a peer, else the
        first kernel. Only a right result has a time."""
        if self.of_constant:
            return [ITSELF, *self.labels]
        peers = self.timed[self.timed.kind == "peer"]
        last = peers[peers[self.field] == peers[self.field].max()]
        first = [str(last.label[last.median_us.idxmin()])] if len(last) else self.labels[:1]
        return [*first, *(name for name in self.labels if name not in first)]

    def baseline_name(self, baseline: str) -> str:
        """A baseline in words."""
        return f"itself at {self.field} {self.sizes[0]:g}" if baseline == ITSELF else self.named(baseline)

    @cached_property
    def colours(self) -> dict[str, str]:
        return colours(self.labels)

    @cached_property
    def title(self) -> str:
        """The swept field, its range, and the fixed values in words."""
        fixed, ends = self.fixed, sizes(self.timed, self.field)
        same = fixed.get("num_kv_heads") == fixed.get("num_heads")
        apart = {"title", "l2", "causal", "dtype", *(["num_kv_heads"] if same else [])}
        stays = [f"{name} {plain(value)}" for name, value in fixed.items() if value is not None and name not in apart]
        widths = [end * number(fixed["head_dim"]) for end in ends] if self.field == "num_heads" else []
        names = {"field": self.field, "ends": [f"{end:g}" for end in ends], "stays": stays}
        return WORDS.say("title", {**fixed, **names, "widths": [f"{width:g}" for width in widths]})

    def name(self, several_types: bool, whole: bool) -> SweepName:
        """several_types: whether problems of this kind have several types. whole: names also sizes that rarely
        differ."""
        fixed, ends = self.fixed, sizes(self.timed, self.field)
        problem = [f"head_dim {plain(fixed['head_dim'])}", *(["causal"] if fixed["causal"] else [])]
        problem += [str(fixed["dtype"])] if several_types else []
        problem += [] if fixed["l2"] == "cold" else [f"{fixed['l2']} L2"]
        nouns = {"seq_len": "tokens", "num_heads": "heads", "num_kv_heads": "KV heads"}
        apart = ("title", "l2", "head_dim", "causal", "dtype", *(() if whole else SWEPT[2:] + ("num_kv_heads",)))
        stays = {name: f"{number(v):,.0f}" for name, v in fixed.items() if v is not None and name not in apart}
        along = [f"{nouns.get(self.field, self.field)} {ends[0]:,.0f} to {ends[-1]:,.0f}"]
        along += [f"{value} {nouns[name]}" if name in nouns else f"{name} {value}" for name, value in stays.items()]
        return SweepName(str(fixed["title"]), ", ".join(problem), ", ".join(along))

    def compared(self, baseline: str) -> pd.DataFrame:
        """The timed rows with speedup, speedup_low and speedup_high against the baseline.

        A row and its baseline have one problem. In a sweep over a constant they also have one value of the constant, or
        the baseline is the kernel's own first value.
        """
        if not self.of_constant:
            return speedups(self.part, baseline)
        timed, same = self.timed.copy(), ["l2", "device", "date", "source"]
        on = [*same, "label" if baseline == ITSELF else self.field]
        base = timed.sort_values(self.field, kind="stable") if baseline == ITSELF else timed[timed.label == baseline]
        base = base.drop_duplicates(on)[[*on, "median_us", "p10_us", "p90_us"]]
        found = timed[on].merge(base, on=on, how="left")
        for end, (above, below) in RATIO.items():
            timed[f"speedup{end}"] = found[above].to_numpy(float) / timed[below].to_numpy(float)
        return timed


def prepared(table: pd.DataFrame, where: Provenance, source: str) -> pd.DataFrame:
    """A bench table with device, date, source and the block_size of the pages."""
    pages = table.problem.astype("object").fillna("").astype(str).str.extract(r'"block_size": (\d+)')[0].astype(float)
    return table.assign(device=where.device, date=where.dates, source=source, block_size=pages)


def of(table: pd.DataFrame) -> dict[str, Sweep]:
    """The sweeps in a table by stable keys. Longer sweeps over sizes come first, then sweeps over constants."""
    timed, over_sizes = table[table.seq_len.notna() & (table.status == "ok")], list[Sweep]()
    for field in SWEPT:
        follows = {field, "num_kv_heads"} if field == "num_heads" else {field}
        kept = ["title", *(name for name in SIZES if name not in follows), "l2"]
        sweeps = [_slice(table, field, fixed) for fixed in _varied(timed, kept, field)]
        over_sizes += [sweep for sweep in sweeps if sweep.timed[field].nunique() > 1]
    over_sizes.sort(key=lambda sweep: -sweep.timed[sweep.field].nunique())
    return {_key(sweep): sweep for sweep in [*over_sizes, *_over_constants(table, timed)]}


def _varied(rows: pd.DataFrame, names: list[str], field: str, line: Sequence[str] = ()) -> list[dict[str, Value]]:
    """The values of these columns with several values of a field, on one of the lines."""
    counts = rows.groupby([*names, *line], dropna=False)[field].nunique()
    found = dict.fromkeys(
        tuple(None if pd.isna(v) else v for v in values[: len(names)]) for values in counts[counts > 1].index
    )
    return [dict(zip(names, values)) for values in found]


def _over_constants(table: pd.DataFrame, timed: pd.DataFrame) -> Iterator[Sweep]:
    kernels = catalog.current().kernels
    specs = [kernels[name] for name in timed["name"][~timed.own_settings.astype(bool)].unique() if name in kernels]
    of_blocks = list(dict.fromkeys(c.name for spec in specs for c in block_constants(spec)))
    every = dict.fromkeys(c.name for spec in specs for c in spec.constants if not c.what_if)
    wide = table.assign(**{name: constant_of(table, name) for name in {*every, *of_blocks}})
    for constant in every:
        blocks = [name for name in of_blocks if name != constant]
        names = ["title", *SIZES, "l2", *blocks]
        for fixed in _varied(wide.loc[timed.index], names, constant, ("name", "device", "source")):
            known = {name: value for name, value in fixed.items() if name not in blocks or value is not None}
            sweep = _slice(wide, constant, known)
            others = [name for name in wide if name not in table and name != constant]
            yield Sweep(constant, known, sweep.part.drop(columns=others))


def constant_of(table: pd.DataFrame, name: str) -> pd.Series:
    """A constant's value in each row, NaN in rows without the constant."""
    texts = table.settings.astype("object").fillna("").astype(str)
    return texts.str.extract(rf"(?:^| ){name}=(-?\d+)")[0].astype(float)


def _key(sweep: Sweep) -> str:
    fixed = {name: value for name, value in sweep.fixed.items() if name not in ("title", "l2") and value is not None}
    cache = "" if sweep.fixed["l2"] == "cold" else f" {sweep.fixed['l2']} L2"
    pairs = " ".join(f"{name}={plain(value)}" for name, value in fixed.items())
    return f"{sweep.field} {pairs} {sweep.fixed['title']}{cache}"


def _slice(table: pd.DataFrame, field: str, fixed: Mapping[str, Value]) -> Sweep:
    keep = table.seq_len.notna()
    for name, value in fixed.items():
        keep &= table[name].isna() if value is None else table[name] == value
    part = table[keep]
    if field in SWEPT:
        part = _of_one_layout(part, field)
        several = part.groupby(["name", part.settings.fillna("")])[field].transform("nunique") > 1
        part = labelled(part[part.own_settings.astype(bool) | several])  # one chosen size belongs to another sweep
    else:
        part = part[part[field].notna()]
        apart = {field, *fixed}
        others = part.settings.map(lambda text: " ".join(p for p in text.split() if p.split("=")[0] not in apart))
        part = labelled(part.assign(settings=others)).assign(settings=part.settings)
        part = part[part.groupby("label")[field].transform("nunique") > 1]  # one value is no line
    return Sweep(field, fixed, at_work(part.sort_values([field, "name"], kind="stable").reset_index(drop=True)))


def at_work(part: pd.DataFrame) -> pd.DataFrame:
    """The rows of a sweep with the column `state`: sustained or rested.

    If every timed row has a sustained time, that time replaces the rested one.
    """
    timed = part.status == "ok"
    if "sustained_us" not in part or not timed.any() or part.sustained_us[timed].isna().any():
        return part.assign(state="rested")
    slower = part.sustained_us / part.median_us
    times = {"median_us": part.sustained_us, "p10_us": part.sustained_p10_us, "p90_us": part.sustained_p90_us}
    rates = {name: part[name] / slower for name in ("tflops", "tokens_per_s", "gb_per_s", "roof_percent")}
    return part.assign(**times, **rates, state="sustained")


def _of_one_layout(part: pd.DataFrame, field: str) -> pd.DataFrame:
    """The rows without the slower one of FlashInfer's two layouts of a cache, on each GPU.

    The largest size with a time in both layouts decides. Else the layout with fewer times goes.
    """
    slower = []
    for _, own in part[part["name"].isin(PAGED)].groupby(["device", "source"], sort=False):
        us = own.assign(median_us=own.median_us.where(own.status == "ok"))
        times = us.pivot_table(index=field, columns="name", values="median_us", dropna=False)
        for one in times:
            other = flashinfer_calls.other_layout(one)
            if other in times and one > other:
                both = times[[one, other]].dropna()
                dropped = both.iloc[-1].idxmax() if len(both) else times[[one, other]].count().idxmin()
                slower += own.index[own["name"] == dropped].tolist()
    return part.drop(index=slower)


def drawn_layout(name: str, present: Iterable[str]) -> str:
    """A label. For FlashInfer it is the label of the present layout."""
    if name not in PAGED or name in present:
        return name
    other = flashinfer_calls.other_layout(name)
    return other if other in present else name


def find(found: Iterable[str], key_of_link: str) -> str | None:
    """The key of a sweep for a key in a link. Former links use heads and kv_heads, and have no title or block_size."""
    if key_of_link in found:
        return key_of_link
    former = re.sub(r"(^| )(kv_)?heads", r"\1num_\2heads", key_of_link)
    return next((key for key in found if f"{re.sub(r' block_size=[0-9]+', '', key)} ".startswith(f"{former} ")), None)


def names(found: Mapping[str, Sweep]) -> dict[str, SweepName]:
    """The short names of sweeps, by their keys. No two sweeps have the same name."""
    types: dict[Value, set[Value]] = {}
    for sweep in found.values():
        types.setdefault(sweep.fixed["title"], set()).add(sweep.fixed["dtype"])
    several = {key: len(types[sweep.fixed["title"]]) > 1 for key, sweep in found.items()}
    short = {key: sweep.name(several[key], whole=False) for key, sweep in found.items()}
    given = list(short.values())
    return {
        key: name if given.count(name) == 1 else found[key].name(several[key], whole=True)
        for key, name in short.items()
    }


def colours(labels: Iterable[str]) -> dict[str, str]:
    """label -> colour. A kernel's colour follows its place in its family, a peer's its place among the peers.

    Other settings of a kernel take the remaining colours.
    """
    ways = list(dict.fromkeys(flashinfer_calls.ways(one)[1] for one in PAGED))
    after = palette.PEERS[len(SDPA) :]  # no chart has both FlashInfer's ways and the peers after torch's SDPA
    peers = dict(zip(PEERS, palette.PEERS))
    peers |= {name: after[ways.index(flashinfer_calls.ways(name)[1]) % len(after)] for name in PAGED}
    first = {label: label.split()[0] for label in labels}
    return palette.told_apart({label: peers.get(name) or palette.kernel_colour(name) for label, name in first.items()})


# ---- the sources of times ----


@dataclass(frozen=True)
class Known:
    """Times and their sweeps.

    where: source -> Provenance.
    sweeps, names: by the key of a sweep.
    """

    table: pd.DataFrame
    where: Mapping[str, Provenance]
    sweeps: Mapping[str, Sweep]
    names: Mapping[str, SweepName]

    @cached_property
    def fastest(self) -> str:
        """The key of the first sweep with the row of the highest rate in any sweep. "" without a sweep."""
        best = {key: sweep.timed.tflops.max() for key, sweep in self.sweeps.items()}
        return max(best, key=lambda key: (best[key] == best[key], best[key]), default="")


def stamp(kind: str = bench.KIND) -> Stamp:
    """The files of recorded times of a kind, with their times of change."""
    files = sorted((tables.FOLDER / kind).glob("*.csv"))
    return tuple((file.name, file.stat().st_mtime_ns) for file in files)


def sources(now: Now) -> list[str]:
    """The names of the sources of times."""
    return [*([NOW] if now.rows else []), *bench.recorded()]


def known(wanted: tuple[str, ...], now: Now) -> Known:
    """The times of these sources together, by default of all sources."""
    return _known(wanted, now, stamp())


@lru_cache(maxsize=16)
def _known(wanted: tuple[str, ...], now: Now, at: Stamp) -> Known:
    recorded, where, found = bench.recorded(), dict[str, Provenance](), []
    for name in wanted or sources(now):
        if name == NOW and now.rows:
            where[name] = Provenance(now.device, now.driver, now.date, roofs=dict(now.roofs))
            found.append(prepared(bench_rows.table(now.records()), where[name], "measured"))
        elif name in recorded:
            table, where[name] = recorded[name]
            found.append(prepared(table, where[name], "recorded"))
    nothing = prepared(bench_rows.table([]), Provenance("", "", ""), "recorded")
    table = pd.concat(found, ignore_index=True) if found else nothing
    sweeps = of(table)
    return Known(table, where, sweeps, names(sweeps))


# ---- facts about the rows of a sweep ----


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
    for _, part in rows.groupby(["source", "device"], sort=False) if field in SWEPT else ():
        us, low, high = (part.pivot_table(index=field, columns="label", values=f"{e}_us") for e in _SPREAD)
        peers = set(part[part.kind == "peer"].label)
        for a, b in combinations(us.columns, 2):
            if {a, b} <= peers:
                continue
            both, apart = us[[a, b]].dropna(), (low[a] > high[b]) | (low[b] > high[a])
            logs = np.log(both)
            gaps = logs[a] - logs[b]
            for start, end in pairwise(both.index[apart[both.index]]):
                if gaps[start] * gaps[end] >= 0:
                    continue
                between = pairwise(both.loc[start:end].index)  # with the sizes whose spreads overlap
                x0, x1 = next(pair for pair in between if gaps[pair[0]] * gaps[pair[1]] <= 0)
                share = gaps[x0] / (gaps[x0] - gaps[x1])
                x, y = np.log(x0) + share * np.log(x1 / x0), logs[a][x0] + share * (logs[a][x1] - logs[a][x0])
                fast, slow = (a, b) if gaps[end] < 0 else (b, a)
                found.append({field: np.exp(x), "median_us": np.exp(y), "faster": fast, "slower": slow})
    return pd.DataFrame(found, columns=[field, "median_us", "faster", "slower"]).sort_values(field)


_SPREAD = ("median", "p10", "p90")


# ---- in words ----


def why(row: pd.Series) -> str:
    """The reason for a missing time in a few words. The column `reason` has the whole text."""
    near = pd.notna(row.allowed_error) and row.max_abs_error <= ROUNDING_TIMES * row.allowed_error
    return WORDS.say("why", {"status": row.status, "reason": str(row.reason), "near": near})


def as_fast(ratio: float, low: float = np.nan, high: float = np.nan, name: str = "") -> str:
    """A speed-up in words: 2.0 times as fast, 3.1 times as long as NAME, or "within the spread" if it includes 1.

    low, high: the spread of the ratio. name: the baseline.
    """
    names = {"ratio": ratio, "times": max(ratio, 1 / ratio), "low": low, "high": high, "name": name}
    return WORDS.say("as_fast", names)


def plain(value: Value) -> str:
    return str(value) if isinstance(value, (str, bool, np.bool_)) else f"{number(value):g}"


def number(value: Value) -> float:
    """A size or a constant as a number. TypeError for a text or None."""
    if value is None or isinstance(value, str):
        raise TypeError(f"{value!r} is not a number.")
    return float(value)


def not_timed(present: Iterable[str]) -> list[str]:
    """A sentence with the reason for each version of FlashAttention without a row."""
    reasons = WORDS.table("not_timed").items()
    return [f"{shown_name(name)} has no row here: {reason}." for name, reason in reasons if name not in {*present}]

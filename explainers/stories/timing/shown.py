"""The shown part of a sweep: its points, and its figures in tables and sentences."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from explainers.models.recorded_times import FLOOR, shown_name
from explainers.stories.timing.sweeps import GROWING, ITSELF, WORDS, Sweep, as_fast, crossings, plain, why
from explainers.story.glossary import BINARY, amount, microseconds, short
from kernels.core.fields import fields_of, write_value
from kernels.measure.bench_rows import problem_type_of
from kernels.measure.reports import exponents
from kernels.recordings.tables import Provenance


@dataclass(frozen=True, eq=False)
class Shown:
    """The shown part of a sweep.

    baseline: a label, or sweeps.ITSELF.
    hidden: labels that the page does not draw.
    where: source -> Provenance.
    """

    sweep: Sweep
    baseline: str
    hidden: tuple[str, ...]
    where: Mapping[str, Provenance]

    @property
    def field(self) -> str:
        return self.sweep.field

    @cached_property
    def name(self) -> str:
        """The baseline in words."""
        return self.sweep.baseline_name(self.baseline)

    @cached_property
    def drawn(self) -> pd.DataFrame:
        """The rows of all drawn lines, with a time or without."""
        return self.sweep.part[~self.sweep.part.label.isin(self.hidden)]

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The drawn rows with a time, compared with the baseline."""
        rows = self.sweep.compared(self.baseline)
        return rows[~rows.label.isin(self.hidden)]

    @cached_property
    def several(self) -> bool:
        """Whether the times are of several GPUs or sources."""
        return len(self.rows[["device", "source"]].drop_duplicates()) > 1

    @cached_property
    def points(self) -> pd.DataFrame:
        """The rows with their line, their step from 1, the spread of their rates, and their texts."""
        rows = self.rows
        each, texts = list(rows.itertuples()), dict[str, list[str]]()
        texts["said_time"] = [
            f"{microseconds(r.median_us)} ({microseconds(r.p10_us)} to {microseconds(r.p90_us)})" for r in each
        ]
        texts["said_beside"] = [
            "" if pd.isna(r.speedup) else as_fast(r.speedup, r.speedup_low, r.speedup_high) for r in each
        ]
        texts["said_rate"] = [
            f"{short(r.tflops, 3)} TFLOP/s, {short(r.roof_percent, 3)} % of {r.roof}"
            if pd.notna(r.tflops)
            else f"{short(r.gb_per_s)} GB/s"
            if pd.notna(r.gb_per_s)
            else ""
            for r in each
        ]
        where = [f", {r.source}, {r.device}" if self.several else "" for r in each]
        return rows.assign(
            **{f"{rate}_low": rows[rate] * rows.median_us / rows.p90_us for rate in ("tflops", "gb_per_s")},
            **{f"{rate}_high": rows[rate] * rows.median_us / rows.p10_us for rate in ("tflops", "gb_per_s")},
            **texts,
            line=[self.sweep.named(r.label) + of for r, of in zip(each, where)],
            step=[self.sweep.sizes.index(float(value)) + 1 for value in rows[self.field]],
            said_size=[f"{value:,.0f}" for value in rows[self.field]],
            said_from=[f"{r.source}, {r.device}, {r.date}" for r in each],
        )

    @property
    def state(self) -> str:
        """The state of the times: rested or sustained."""
        return str(self.sweep.part.state.iloc[0]) if len(self.sweep.part) else "rested"


# ---- tables ----


def without_time(part: pd.DataFrame, field: str) -> pd.DataFrame:
    """The lines without a time: name, status (in words), places and reason, a row for each reason.

    Reasons that differ only in numbers share a row, with the first reason.
    """
    rows, columns = part[part.status != "ok"], ["name", "status", "places", "reason"]
    if rows.empty:
        return pd.DataFrame(columns=columns)
    texts = rows.assign(
        place=rows[field].map(plain),
        status=[why(r) for r in rows.itertuples()],
        kind=rows.reason.map(lambda text: re.sub(r"\d+", "#", str(text))),
        name=rows.label.map(shown_name),
    )
    found = texts.groupby(["name", "status", "kind"], sort=False).agg(
        places=("place", lambda places: f"{field} {', '.join(dict.fromkeys(places))}"), reason=("reason", "first")
    )
    return found.reset_index()[columns]


TEXTS = ("kernel", "median", "p10 to p90", "TFLOP/s", "tokens/s", "GB/s", "of the roof", "memory", "from")  # of a row


def figures_table(shown: Shown) -> pd.DataFrame:
    """Every figure of the shown points as a table of texts."""
    rows = shown.points.sort_values([shown.field, "median_us"])
    texts = _texts(rows).assign(**{shown.field: rows[shown.field].map(plain), "beside": rows.said_beside})
    first, rates = [shown.field, "kernel", "median", "p10 to p90", "beside"], ["TFLOP/s", "tokens/s", "GB/s"]
    texts = texts[[*first, *rates, "of the roof", "memory", "from"]]
    return texts.rename(columns={"beside": f"beside {shown.name}"})


def without_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """The times of problems without sizes as texts, problem by problem, the fastest first."""
    rows = table[table.seq_len.isna() & (table.status == "ok")]
    rows = rows.assign(said=[problem_said(title, text) for title, text in zip(rows.title, rows.problem)])
    rows = rows.sort_values(["said", "median_us"])
    texts = _texts(rows).assign(problem=rows.said.mask(rows.said.duplicated(), ""), L2=rows.l2)
    order = ["problem", "kernel", "median", "p10 to p90", "GB/s", "of the roof", "tokens/s", "L2", "from"]
    return texts[order].reset_index(drop=True)


def _texts(rows: pd.DataFrame) -> pd.DataFrame:
    """The figures of each row as texts, "" for an unknown one."""
    each = [
        {
            "kernel": shown_name(r.label if "label" in rows else r.name, r.title),
            "median": microseconds(r.median_us),
            "p10 to p90": f"{microseconds(r.p10_us)} to {microseconds(r.p90_us)}",
            "TFLOP/s": "" if pd.isna(r.tflops) else short(r.tflops),
            "tokens/s": "" if pd.isna(r.tokens_per_s) else f"{r.tokens_per_s:,.0f}",
            "GB/s": "" if pd.isna(r.gb_per_s) else short(r.gb_per_s),
            "of the roof": "" if pd.isna(r.roof_percent) else f"{short(r.roof_percent, 3)} % of {r.roof}",
            "memory": "" if pd.isna(r.peak_bytes) else amount(r.peak_bytes, BINARY[:2]),
            "from": f"{r.source}, {r.device}, {r.date}",
        }
        for r in rows.itertuples(index=False)
    ]
    return pd.DataFrame(each, rows.index, [*TEXTS])


def problem_said(title: str, text: str) -> str:
    """A problem of a table in words: its title, its mask and its fields other than defaults.

    Lists of pages are not part of the text.
    """
    fields = json.loads(text)
    kind = problem_type_of(title)
    defaults = {name: field.default for name, field in fields_of(kind).items()} if kind else {}
    mask_fields = kind.mask_fields if kind else {}
    looked_at = mask_fields.get(fields.get("mask"), ())
    idle = {name for names in mask_fields.values() for name in names} - {*looked_at}
    always = {"mask", "causal", "block_q", "block_kv", *looked_at} if "mask" in fields else set()

    def told(name: str, value: object) -> bool:
        nested = isinstance(value, list) and any(isinstance(one, list) for one in value)
        default = (tuple(value) if isinstance(value, list) else value) == defaults.get(name)
        return name in always or not (name in idle or default or nested)

    said = [f"{name} {_value_said(value)}" for name, value in fields.items() if told(name, value)]
    return f"{title}: {', '.join(said)}" if said else title


def _value_said(value: object) -> str:
    """A value as text. For a long list it is the length and the range."""
    if not isinstance(value, list) or len(value) < 4:
        return write_value(tuple(value) if isinstance(value, list) else value)
    low, high = min(value), max(value)
    return f"{len(value)} x {low:,}" if low == high else f"{len(value)} of {low:,} to {high:,}"


# ---- sentences ----


def state_sentence(shown: Shown, value: float) -> str:
    """Clock and power of the fastest kernel and of the baseline at a size if times are sustained, else ""."""
    rows = shown.rows[shown.rows[shown.field] == value]
    if rows.empty or shown.state == "rested":
        return ""
    ours = rows[(rows.kind == "kernel") & (rows.label != shown.baseline)].sort_values("median_us", kind="stable")
    both = pd.concat([ours.head(1), rows[rows.label == shown.baseline].head(1)])
    hot = [
        {"name": shown.sweep.named(r.label), "mhz": r.sustained_clock, "watts": r.sustained_power}
        for r in both.itertuples()
        if pd.notna(r.sustained_clock) and pd.notna(r.sustained_power)
    ]
    return WORDS.say("state", {"state": shown.state, "hot": hot})


def sentences(shown: Shown) -> list[str]:
    """The sentences about the lines: the largest size, the state of the chip, the floor, growth and crossings."""
    field, rows = shown.field, shown.rows
    said = [largest_sentence(shown), state_sentence(shown, rows[field].max()) or "Times are rested."]
    if shown.sweep.paged and not shown.sweep.of_constant and FLOOR in set(rows.label):
        on = [field, "device", "source"]
        ours, floor = (
            part.groupby(on).median_us.min() for part in (rows[rows.kind == "kernel"], rows[rows.label == FLOOR])
        )
        both = pd.concat([ours, floor], axis=1, keys=["ours", "floor"]).dropna()
        faster = int((both.floor < both.ours).sum())
        said.append(WORDS.say("floor_wins", {"floor": WORDS.say("floor", {}), "faster": faster, "sizes": len(both)}))
    grown = exponents(shown.sweep.part[shown.sweep.part.label.isin(rows.label)], field) if field in GROWING else {}
    if grown:
        steepest_first = sorted(grown.items(), key=lambda item: -item[1][0])
        slopes = [(shown_name(label), slope) for label, (slope, _) in steepest_first]
        said.append(WORDS.say("exponents", {"slopes": slopes, "field": field, "used": next(iter(grown.values()))[1]}))
    for row in crossings(rows, field).to_dict("records"):
        named = {end: shown_name(row[end]) for end in ("faster", "slower")}
        said.append(WORDS.say("crossing", {**named, "field": field, "at": row[field]}))
    return said


def largest_sentence(shown: Shown) -> str:
    """The largest size with a time of our fastest kernel and of the baseline."""
    field, rows = shown.field, shown.rows
    ours = rows[(rows.kind == "kernel") & rows.speedup.notna()]
    others = ours[ours.label != shown.baseline]
    ours = others if len(others) else ours
    baseline = f"itself at the first {field}" if shown.baseline == ITSELF else shown.name
    if ours.empty:
        return WORDS.say("last", {"name": "", "baseline": baseline})
    largest = ours[ours[field] == ours[field].max()]
    best = largest.sort_values(["source", "median_us"]).iloc[0]  # measured before recorded
    ratios = [best.speedup, *sorted((best.speedup_low, best.speedup_high))]
    if best.speedup < 1:
        ratios = [1 / ratios[0], 1 / ratios[2], 1 / ratios[1]]
    times = map(microseconds, (best.median_us, best.p10_us, best.p90_us))
    names = {"field": field, "value": plain(best[field]), "name": best.label, "baseline": baseline}
    names |= dict(zip(("median", "p10", "p90"), times)) | dict(zip(("ratio", "low", "high"), ratios))
    fast = "fast" if best.speedup >= 1 else "long"
    return WORDS.say("last", names | {"fast": fast, "source": best.source, "device": best.device})

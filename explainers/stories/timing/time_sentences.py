"""Sentences about the times of a sweep."""

import pandas as pd

from explainers.models.recorded_times import FLOOR, is_paged, shown_name, sizes
from explainers.stories.timing.sweep_rows import ITSELF, baseline_name
from explainers.stories.timing.sweep_search import GROWING, SWEPT
from explainers.stories.timing.timed_row import TimedRow
from explainers.stories.timing.wording import FLOOR_SAID, as_fast, plain, sized, title_of, why
from explainers.story.glossary import count, microseconds, short
from kernels.measure.reports import exponents

SAID = 2  # kernels in the sentence


def beside(row: TimedRow, name: str) -> str:
    """Returns `as_fast` with its baseline: 3.1 times as long as torch efficient, as fast as itself at PAD_K 0."""
    return as_fast(row.speedup, row.speedup_low, row.speedup_high, name)


def size_sentence(rows: pd.DataFrame, field: str, value: float, baseline: str, part: pd.DataFrame) -> str:
    """Returns the times at one size: our two fastest kernels against the baseline.

    It also names kernels and lines without a time, with the reason. The strip has the other times.
    rows: the shown rows, from `compared`.
    part: the shown rows, with rows without a time.
    """
    where = sized(field, value)
    here = rows[rows[field] == value].sort_values("median_us", kind="stable")
    missing = part[(part[field] == value) & (part.status != "ok")]
    if here.empty:
        return f"{where}: {_no_time(missing) or 'the times here are hidden.'}"
    none = _no_time(missing[(missing.kind == "kernel") | missing.label.isin(rows.label)])
    fastest = here.iloc[0]
    if here.device.nunique() > 1 or here.source.nunique() > 1:
        here = here[(here.device == fastest.device) & (here.source == fastest.source)]
        now = " now" if fastest.source == "measured" else ""
        where += f" on {fastest.device}{now}"
    base, others = here[here.label == baseline], here[here.label != baseline]
    kernels = others[others.kind == "kernel"]
    ours = kernels if len(kernels) else others
    name = baseline_name(baseline, part, field)
    parts = [_line_text(row, base, name, first=n == 0) for n, row in enumerate(ours.itertuples())]
    if not parts:
        parts = [f"{shown_name(fastest.label, fastest.title)} takes {microseconds(fastest.median_us)}"]
    return f"{where}: {'. '.join(parts[:SAID])}. {none}".strip()


def step_sentence(rows: pd.DataFrame, field: str, value: float) -> str:
    """Returns our fastest kernel's time next to its time at the size before. "" if the problem grows with the field, or
    the field is a constant."""
    before = [size for size in sizes(rows, field) if size < value]
    ours = rows[(rows[field] == value) & (rows.kind == "kernel")].sort_values("median_us", kind="stable")
    if field not in SWEPT or field in GROWING or not before or ours.empty:
        return ""
    row = ours.iloc[0]
    same = (rows.label == row.label) & (rows.device == row.device) & (rows.source == row.source)
    then = rows[same & (rows[field] == before[-1])]
    if then.empty:
        return ""
    said = as_fast(then.median_us.iloc[0] / row.median_us, name=f"at {sized(field, before[-1])}")
    return f"That is {said} ({microseconds(then.median_us.iloc[0])})."


def state_of(part: pd.DataFrame) -> str:
    """Returns the state of a sweep's times: rested or sustained."""
    return "sustained" if "state" in part and len(part) and (part.state == "sustained").all() else "rested"


def state_sentence(rows: pd.DataFrame, baseline: str) -> str:
    """Returns clock and power of the fastest kernel and of the baseline if times are sustained, else "".

    rows: rows of one size, from `compared`.
    """
    if rows.empty or state_of(rows) == "rested":
        return ""
    ours = rows[(rows.kind == "kernel") & (rows.label != baseline)].sort_values("median_us", kind="stable").head(1)
    shown = pd.concat([ours, rows[rows.label == baseline].head(1)])
    each = [
        f"{shown_name(r.label, r.title)} at {r.sustained_clock:,.0f} MHz and {r.sustained_power:,.0f} W"
        for r in shown.itertuples()
        if pd.notna(r.sustained_clock) and pd.notna(r.sustained_power)
    ]
    return f"Times are sustained: {', '.join(each)}." if each else "Times are sustained."


def _line_text(row: TimedRow, base: pd.DataFrame, name: str, first: bool) -> str:
    said = f"{shown_name(row.label, row.title)} takes {microseconds(row.median_us)}"
    if pd.isna(row.speedup) or (base.empty and row.speedup == 1):
        return said
    if not first:
        return f"{said}, {beside(row, name)}"
    time = f" ({microseconds(base.iloc[0].median_us)})" if len(base) else ""
    return f"{said}, {beside(row, f'{name}{time}')}"


def _no_time(missing: pd.DataFrame) -> str:
    """Returns a sentence with the lines without a time and the reasons, or ""."""
    names: dict[str, list[str]] = {}
    for row in missing.itertuples():
        names.setdefault(why(row), []).append(shown_name(row.label, row.title))
    said = [f"{', '.join(dict.fromkeys(labels))} ({reason})" for reason, labels in names.items()]
    return f"No time: {'; '.join(said)}." if said else ""


def sentence(rows: pd.DataFrame, field: str, baseline: str) -> str:
    """Returns a sentence about the largest size with a time of our fastest kernel and of the baseline."""
    ours = rows[(rows.kind == "kernel") & rows.speedup.notna()]
    others = ours[ours.label != baseline]
    ours = others if len(others) else ours
    if ours.empty:
        return f"{shown_name(baseline, title_of(rows))} has a time here, and no other kernel has one at the same place."
    largest = ours[ours[field] == ours[field].max()]
    best = largest.sort_values(["source", "median_us"]).iloc[0]  # measured before recorded
    name = f"itself at the first {field}" if baseline == ITSELF else shown_name(baseline, best.title)
    return (
        f"At {field} {plain(best[field])}, {best.label} takes {microseconds(best.median_us)} "
        f"({microseconds(best.p10_us)} to {microseconds(best.p90_us)}): {_ratio_text(best, name)} "
        f"({best.source}, {best.device})."
    )


def _ratio_text(row: TimedRow, name: str) -> str:
    """Returns the ratio to the baseline, with its spread."""
    low, high = sorted((row.speedup_low, row.speedup_high))
    if row.speedup >= 1:
        return f"{short(row.speedup, 3)} times ({short(low, 3)} to {short(high, 3)}) as fast as {name}"
    return f"{short(1 / row.speedup, 3)} times ({short(1 / high, 3)} to {short(1 / low, 3)}) as long as {name}"


def floor_sentence(rows: pd.DataFrame, field: str) -> str:
    """Returns the number of sizes at which the floor beats our fastest kernel. "" without a drawn floor."""
    if not is_paged(title_of(rows)) or field not in SWEPT or FLOOR not in set(rows.label):
        return ""
    on = [field, "device", "source"]
    ours = rows[rows.kind == "kernel"].groupby(on).median_us.min()
    floor = rows[rows.label == FLOOR].groupby(on).median_us.min()
    both = pd.concat([ours, floor], axis=1, keys=["ours", "floor"]).dropna()
    faster = int((both.floor < both.ours).sum())
    return f"{FLOOR_SAID} Here it is faster than our fastest kernel at {faster} of {count(len(both), 'size')}."


def exponent_sentence(part: pd.DataFrame, field: str) -> str:
    """Returns the growth of each label's time with the field. "" with too few sizes."""
    found = exponents(part, field) if field in GROWING else {}
    if not found:
        return ""
    steepest_first = sorted(found.items(), key=lambda item: -item[1][0])
    said = ", ".join(f"{shown_name(label)} {field}^{slope:.2f}" for label, (slope, _) in steepest_first)
    _, used = next(iter(found.values()))
    return f"Time grows as {said}: the slope over the {used} largest sizes on logarithmic axes."


def crossing_sentences(found: pd.DataFrame, field: str) -> list[str]:
    """Returns a sentence for each crossing."""
    return [
        f"{shown_name(r.faster)} overtakes {shown_name(r.slower)} at about {field} {x:,.0f}."
        for r, x in zip(found.itertuples(), found[field])
    ]

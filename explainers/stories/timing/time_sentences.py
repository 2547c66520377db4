"""Sentences about the times of a sweep."""

from typing import Any

import pandas as pd

from explainers.stories.timing.sweep_rows import ITSELF, baseline_name
from explainers.stories.timing.sweep_search import GROWING, SWEPT
from explainers.stories.timing.wording import (
    FLOOR,
    FLOOR_SAID,
    as_fast,
    is_paged,
    microseconds,
    plain,
    shown_name,
    title_of,
    why,
)
from explainers.story.glossary import count
from kernels.measure.reports import exponents


def beside(row: Any, name: str) -> str:
    """Returns `as_fast` with its baseline: 3.1 times slower than torch efficient, as fast as itself at PAD_K 0."""
    said = as_fast(row.speedup, row.speedup_low, row.speedup_high)
    return f"{said} than {name}" if said.endswith("slower") else f"{said} as {name}"


def size_sentence(rows: pd.DataFrame, field: str, value: float, baseline: str, part: pd.DataFrame) -> str:
    """Returns a sentence about the times at one size: our kernels, the fastest first, against the baseline.

    It also names kernels and lines without a time, with the reason.
    rows: the shown rows, from `compared`.
    part: the shown rows, with rows without a time.
    """
    where = f"{field} {value:,.0f}"
    here = rows[rows[field] == value].sort_values("median_us", kind="stable")
    missing = part[(part[field] == value) & (part.status != "ok")]
    if here.empty:
        return f"{where}: {_no_time(missing) or 'what was timed here is hidden.'}"
    none = _no_time(missing[(missing.kind == "kernel") | missing.label.isin(rows.label)])
    several = here.device.nunique() > 1 or here.source.nunique() > 1
    device = here.iloc[0].device, here.iloc[0].source
    if several:  # the first of several GPUs, by name
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
    """Returns a sentence with the lines without a time and the reasons, or ""."""
    names: dict[str, list[str]] = {}
    for row in missing.itertuples():
        names.setdefault(why(row), []).append(shown_name(row.label, row.title))
    said = [f"{', '.join(dict.fromkeys(labels))} ({reason})" for reason, labels in names.items()]
    return f"No time: {'; '.join(said)}." if said else ""


def sentence(rows: pd.DataFrame, field: str, baseline: str) -> str:
    """Returns a sentence about the largest size with a time of our fastest kernel and of the baseline."""
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
    said = ", ".join(
        f"{shown_name(label)} {field}^{slope:.2f}"
        for label, (slope, _) in sorted(found.items(), key=lambda item: -item[1][0])
    )
    used = next(iter(found.values()))[1]
    return f"Time grows as {said}: the slope over the {used} largest sizes on logarithmic axes."


def crossing_sentences(found: pd.DataFrame, field: str) -> list[str]:
    """Returns a sentence for each crossing."""
    return [
        f"{shown_name(r.faster)} overtakes {shown_name(r.slower)} at about {field} {x:,.0f}."
        for r, x in zip(found.itertuples(), found[field])
    ]

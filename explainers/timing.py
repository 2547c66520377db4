"""Times in words and tables: the sweeps of a table of timing.bench, labels and colours, sentences, figures and a
report.

Rows carry `source` ("recorded" or "measured"), `device` and `date`, so that a point says where it comes from. The
charts are in timing_charts.py.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from explainers import palette
from explainers.glossary import count
from kernels.catalog import KERNELS, of_family
from kernels.timing.compare import exponents, labelled, roofs_said
from kernels.timing.peers import PEERS
from kernels.timing.rows import SIZES
from kernels.timing.tables import Provenance

SWEPT = ("seq_len", "batch", "num_heads")  # what is found as a sweep
_FOLLOWS = {"num_heads": ["num_kv_heads"]}  # what changes along with a swept size
Sweep = tuple[str, dict[str, Any]]  # the swept size, and the other sizes with the value that stays; "title" among them


def prepared(table: pd.DataFrame, where: Provenance, source: str) -> pd.DataFrame:
    """A bench table with its device, date and source, as the charts take it."""
    return table.assign(device=where.device, date=where.date, source=source)


def sweeps(table: pd.DataFrame) -> dict[str, Sweep]:
    """The sweeps that a table holds: {key: (field, {other size: value})}, the longest first. A key is a text that stays
    the same."""
    sized = table[table.seq_len.notna() & (table.status == "ok")]
    found: dict[str, Sweep] = {}
    for field in SWEPT:
        others = [name for name in ("title", *SIZES) if name not in (field, *_FOLLOWS.get(field, ()))]
        for values, part in sized.groupby(others, dropna=False):
            if part[field].nunique() > 1:
                fixed = dict(zip(others, values))
                said = [f"{name}={_plain(value)}" for name, value in fixed.items() if name != "title"]
                found[f"{field} {' '.join(said)} {fixed['title']}"] = (field, fixed)
    length = {key: sized[_fixed(sized, fixed)][field].nunique() for key, (field, fixed) in found.items()}
    return dict(sorted(found.items(), key=lambda item: -length[item[0]]))


def find_sweep(found: Mapping[str, Sweep], asked: str) -> str | None:
    """The key of `sweeps` that a link asks for; a link of a former version says heads and kv_heads, and no title."""
    now = re.sub(r"(^| )(kv_)?heads", r"\1num_\2heads", asked)
    return next((key for key in found if key == asked or key.startswith(f"{now} ")), None)


def _fixed(table: pd.DataFrame, fixed: Mapping[str, Any]) -> pd.Series:
    keep = pd.Series(True, index=table.index)
    for name, value in fixed.items():
        keep &= table[name].isna() if pd.isna(value) else table[name] == value
    return keep


def sweep_title(table: pd.DataFrame, field: str, fixed: Mapping[str, Any]) -> str:
    """A sweep in words: what runs, from where to where, and what stays."""
    values = table[_fixed(table, fixed) & (table.status == "ok")][field]
    low, high = values.min(), values.max()
    same = fixed.get("num_kv_heads") == fixed.get("num_heads")
    names = [
        name
        for name in SIZES
        if name in fixed and name not in ("causal", "dtype") and not (name == "num_kv_heads" and same)
    ]
    stays = ", ".join(f"{name} {_plain(fixed[name])}" for name in names)
    mask = ", causal" if fixed["causal"] else ""
    if field == "num_heads":
        mask = f" (width {_plain(low * fixed['head_dim'])} to {_plain(high * fixed['head_dim'])}){mask}"
    return f"{fixed['title']}: {field} {_plain(low)} to {_plain(high)} at {stays}{mask}, {fixed['dtype']}"


def slice_of(table: pd.DataFrame, field: str, fixed: Mapping[str, Any]) -> pd.DataFrame:
    """The rows of one sweep with their labels, sorted by the field; those without a time too."""
    part = table[_fixed(table, fixed) & table.seq_len.notna()]
    return labelled(part).sort_values([field, "name"], kind="stable").reset_index(drop=True)


def labels(part: pd.DataFrame) -> list[str]:
    """The labels that have a time: the catalogue's kernels in their order, other kernels, then the peers in theirs."""
    place = {name: number for number, name in enumerate(KERNELS)} | {name: 10**6 + n for n, name in enumerate(PEERS)}
    timed = part[part.status == "ok"].drop_duplicates("label")
    order = {label: place.get(name, 10**5) for label, name in zip(timed.label, timed["name"])}
    return sorted(order, key=lambda label: (order[label], label))


def colours(names: Iterable[str]) -> dict[str, str]:
    """label -> colour: a kernel's by its place in its family, a peer's by its place among the peers; further settings
    of a kernel take what is left."""
    return palette.told_apart({name: _own_colour(name.split()[0]) for name in names})


def _own_colour(name: str) -> str:
    if name in PEERS:
        return palette.PEERS[list(PEERS).index(name) % len(palette.PEERS)]
    family = list(of_family(KERNELS[name].family)) if name in KERNELS else [name]
    return palette.KERNELS[family.index(name) % len(palette.KERNELS)]


# ---- sentences ----


def sentence(compared: pd.DataFrame, field: str, baseline: str) -> str:
    """The largest place of the sweep at which the fastest kernel of ours and the baseline were timed, with their
    numbers."""
    ours = compared[(compared.kind == "kernel") & compared.speedup.notna()]
    ours = ours[ours.label != baseline] if (ours.label != baseline).any() else ours
    if ours.empty:
        return f"{baseline} has a time here, and no other kernel has one at the same place."
    best = (
        ours[ours[field] == ours[field].max()].sort_values(["source", "median_us"]).iloc[0]
    )  # measured before recorded
    return (
        f"At {field} {_plain(best[field])}, {best.label} takes {microseconds(best.median_us)} "
        f"({microseconds(best.p10_us)} to "
        f"{microseconds(best.p90_us)}): {best.speedup:.3g} times ({best.speedup_low:.3g} to {best.speedup_high:.3g}) "
        f"as fast as {baseline} "
        f"({best.source}, {best.device})."
    )


def exponent_sentence(part: pd.DataFrame, field: str) -> str:
    """How each label's time grows with the field, where there are enough sizes."""
    found = exponents(part, field)
    if not found:
        return ""
    said = ", ".join(
        f"{label} {field}^{slope:.2f}" for label, (slope, _) in sorted(found.items(), key=lambda item: -item[1][0])
    )
    used = next(iter(found.values()))[1]
    return f"Time grows as {said}: the slope over the {used} largest sizes on logarithmic axes."


def microseconds(value: float) -> str:
    """A time of microseconds with its unit: 84.7 us, 13.9 ms."""
    return f"{value / 1000:.4g} ms" if value >= 1000 else f"{value:.4g} us"


def megabytes(value: float) -> str:
    """Bytes with their unit: 33.6 MiB, 1.5 GiB."""
    return f"{value / 2**30:.3g} GiB" if value >= 2**30 else f"{value / 2**20:.3g} MiB"


def _plain(value: Any) -> str:
    return str(value) if isinstance(value, (str, bool, np.bool_)) else f"{float(value):g}"


# ---- tables ----


def without_time(part: pd.DataFrame) -> pd.DataFrame:
    """What has no time, and why: name, status, places, reason, one row per reason."""
    rows = part[part.status != "ok"]
    columns = ["name", "status", "places", "reason"]
    if rows.empty:
        return pd.DataFrame(columns=columns)
    field = next((name for name in SWEPT if rows[name].nunique() > 1), "seq_len")
    grouped = rows.assign(place=rows[field].map(_plain)).groupby(["name", "status", "reason"], sort=False).place
    places = grouped.agg(lambda found: f"{field} {', '.join(dict.fromkeys(found))}")
    return places.rename("places").reset_index()[columns]


def figures_table(compared: pd.DataFrame, field: str) -> pd.DataFrame:
    """Every figure of the shown points as a table of texts."""
    rows = []
    for r in compared.sort_values([field, "median_us"]).itertuples():
        said = {
            "speed-up": (r.speedup, "{:.3g} ({:.3g} to {:.3g})", r.speedup_low, r.speedup_high),
            "TFLOP/s": (r.tflops, "{:.4g}"),
            "tokens/s": (r.tokens_per_s, "{:,.0f}"),
            "GB/s": (r.gb_per_s, "{:,.4g}"),
            "of the roof": (r.roof_percent, "{:.3g} % of {}", r.roof),
        }
        rows.append(
            {
                field: _plain(getattr(r, field)),
                "kernel": r.label,
                "median": microseconds(r.median_us),
                "p10 to p90": f"{microseconds(r.p10_us)} to {microseconds(r.p90_us)}",
                **{
                    name: "" if pd.isna(value) else form.format(value, *more)
                    for name, (value, form, *more) in said.items()
                },
                "memory": "" if pd.isna(r.peak_bytes) else megabytes(r.peak_bytes),
                "from": f"{r.source}, {r.device}, {r.date}",
            }
        )
    return pd.DataFrame(rows)


# ---- the report ----


def report(
    compared: pd.DataFrame, part: pd.DataFrame, field: str, title: str, baseline: str, provenance: Iterable[Provenance]
) -> str:
    """One page of Markdown: what was measured where, the comparison, what has no time, how it was measured."""
    lines = [f"# {title}", ""]
    for where in provenance:
        made_with = [
            f"driver {where.driver}",
            *([f"torch {where.torch}", where.compiler] if where.torch else []),
            where.date,
        ]
        lines += [f"{where.device}, {', '.join(made_with)}. Roofs measured there: {roofs_said(where.roofs)}.", ""]
    lines += [sentence(compared, field, baseline), exponent_sentence(part, field), ""]
    lines += [f"Speed-ups are against {baseline}, with their spread.", ""]
    table = figures_table(compared, field)
    lines += ["| " + " | ".join(table.columns) + " |", "| " + " | ".join("---" for _ in table.columns) + " |"]
    lines += ["| " + " | ".join(str(v).replace("|", "/") for v in row) + " |" for row in table.itertuples(index=False)]
    missing = without_time(part)
    if len(missing):
        said = [f"- {r.name} ({r.status}, {r.places}): {r.reason}" for r in missing.itertuples(index=False)]
        lines += ["", "## No time", "", *said]
    cache = (
        "an L2 that holds none of the inputs"
        if (compared.l2 == "cold").all()
        else "an L2 that holds what the run before left"
    )
    runs = f"{count(int(compared.runs.min()), 'run')} to {int(compared.runs.max())} per point"
    how = (
        f"{runs} between device events, after the timed build's output had passed against float64 (at most twice "
        f"torch's own error, and one "
        f"rounding of the largest term); warmed up; {cache}; random inputs."
    )
    return "\n".join([*lines, "", "## How", "", how, ""])

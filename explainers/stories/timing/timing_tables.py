"""Times as tables: the figures of a sweep, lines without a time, problems without sizes, and a report."""

import json
import re
from collections.abc import Iterable

import pandas as pd

from explainers.models.recorded_times import shown_name
from explainers.stories.timing.sweep_rows import baseline_name
from explainers.stories.timing.sweep_search import SWEPT
from explainers.stories.timing.time_sentences import crossing_sentences, exponent_sentence, sentence
from explainers.stories.timing.trends import crossings
from explainers.stories.timing.wording import as_fast, megabytes, plain, why
from explainers.story.glossary import count, microseconds, short
from kernels.core.fields import fields_of, write_value
from kernels.measure.bench_rows import problem_type_of
from kernels.measure.reports import roofs_said
from kernels.recordings.tables import Provenance


def without_time(part: pd.DataFrame, field: str = "") -> pd.DataFrame:
    """Returns the lines without a time: name, status (in words), places and reason, a row for each reason.

    Reasons that differ only in numbers share a row, with the first reason.
    """
    rows = part[part.status != "ok"]
    columns = ["name", "status", "places", "reason"]
    if rows.empty:
        return pd.DataFrame(columns=columns)
    field = field or next((name for name in SWEPT if rows[name].nunique() > 1), "seq_len")
    texts = rows.assign(
        place=rows[field].map(plain),
        status=[why(r) for r in rows.itertuples()],
        kind=rows.reason.map(lambda text: re.sub(r"\d+", "#", str(text))),
        name=rows.label.map(shown_name) if "label" in rows else rows["name"].map(shown_name),
    )
    grouped = texts.groupby(["name", "status", "kind"], sort=False)
    found = grouped.agg(
        places=("place", lambda p: f"{field} {', '.join(dict.fromkeys(p))}"), reason=("reason", "first")
    )
    return found.reset_index()[columns]


def figures_table(rows: pd.DataFrame, field: str, name: str = "the baseline") -> pd.DataFrame:
    """Returns every figure of the shown points as a table of texts. name: the baseline."""
    table = []
    for r in rows.sort_values([field, "median_us"]).itertuples():
        against = "" if pd.isna(r.speedup) else as_fast(r.speedup, r.speedup_low, r.speedup_high)
        said = {
            "TFLOP/s": (r.tflops, short(r.tflops)),
            "tokens/s": (r.tokens_per_s, f"{r.tokens_per_s:,.0f}"),
            "GB/s": (r.gb_per_s, short(r.gb_per_s)),
            "of the roof": (r.roof_percent, f"{short(r.roof_percent, 3)} % of {r.roof}"),
        }
        table.append(
            {
                field: plain(getattr(r, field)),
                "kernel": shown_name(r.label, r.title),
                "median": microseconds(r.median_us),
                "p10 to p90": f"{microseconds(r.p10_us)} to {microseconds(r.p90_us)}",
                f"beside {name}": against,
                **{n: "" if pd.isna(value) else text for n, (value, text) in said.items()},
                "memory": "" if pd.isna(r.peak_bytes) else megabytes(r.peak_bytes),
                "from": f"{r.source}, {r.device}, {r.date}",
            }
        )
    return pd.DataFrame(table)


def sizeless(table: pd.DataFrame) -> pd.DataFrame:
    """Returns the timed rows without sizes."""
    return table[table.seq_len.isna() & (table.status == "ok")]


def without_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """Returns the times of problems without sizes as texts, problem by problem, the fastest first."""
    rest = sizeless(table)
    rest = rest.assign(said=[problem_said(r.title, r.problem) for r in rest.itertuples(index=False)])
    rest = rest.sort_values(["said", "median_us"])
    return pd.DataFrame(
        [
            {
                "problem": "" if again else r.said,
                "kernel": shown_name(r.name, r.title),
                "median": microseconds(r.median_us),
                "p10 to p90": f"{microseconds(r.p10_us)} to {microseconds(r.p90_us)}",
                "GB/s": "" if pd.isna(r.gb_per_s) else short(r.gb_per_s),
                "of the roof": "" if pd.isna(r.roof_percent) else f"{short(r.roof_percent, 3)} % of {r.roof}",
                "tokens/s": "" if pd.isna(r.tokens_per_s) else f"{r.tokens_per_s:,.0f}",
                "L2": r.l2,
                "from": f"{r.source}, {r.device}, {r.date}",
            }
            for r, again in zip(rest.itertuples(index=False), rest.said.duplicated())
        ]
    )


def problem_said(title: str, text: str) -> str:
    """Returns a problem of a table in words: its title, its mask and its fields other than defaults.

    Lists of pages are not part of the text.
    """
    fields = json.loads(text)
    kind = problem_type_of(title)
    defaults = {name: field.default for name, field in fields_of(kind).items()} if kind else {}
    mask_fields = kind.mask_fields if kind else {}
    looked_at = mask_fields.get(fields.get("mask"), ())
    idle = {name for names in mask_fields.values() for name in names} - {*looked_at}
    always = {"mask", "causal", "block_q", "block_kv", *looked_at} if "mask" in fields else set()
    said = [
        f"{name} {_value_said(value)}"
        for name, value in fields.items()
        if name in always or not (name in idle or _same(value, defaults.get(name)) or _is_nested(value))
    ]
    return f"{title}: {', '.join(said)}" if said else title


def _same(value: object, default: object) -> bool:
    return (tuple(value) if isinstance(value, list) else value) == default


def _is_nested(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(one, list) for one in value)


def _value_said(value: object) -> str:
    """Returns a value as text. For a long list it is the length and the range."""
    if not isinstance(value, list) or len(value) < 4:
        return write_value(tuple(value) if isinstance(value, list) else value)
    low, high = min(value), max(value)
    return f"{len(value)} x {low:,}" if low == high else f"{len(value)} of {low:,} to {high:,}"


def report(
    rows: pd.DataFrame, part: pd.DataFrame, field: str, title: str, baseline: str, provenance: Iterable[Provenance]
) -> str:
    """Returns a page of Markdown: devices, comparison, lines without a time, and the method."""
    lines, name = [f"# {title}", ""], baseline_name(baseline, part, field)
    for where in provenance:
        made_with = [
            f"driver {where.driver}",
            *([f"torch {where.torch}", where.compiler] if where.torch else []),
            where.date,
        ]
        lines += [f"{where.device}, {', '.join(made_with)}. Roofs measured there: {roofs_said(where.roofs)}.", ""]
    lines += [sentence(rows, field, baseline), exponent_sentence(part, field)]
    lines += [*crossing_sentences(crossings(rows, field), field), "", f"Compared with {name}.", ""]
    table = figures_table(rows, field, name)
    lines += ["| " + " | ".join(table.columns) + " |", "| " + " | ".join("---" for _ in table.columns) + " |"]
    lines += ["| " + " | ".join(str(v).replace("|", "/") for v in row) + " |" for row in table.itertuples(index=False)]
    missing = without_time(part, field)
    if len(missing):
        said = [f"- {r.name} ({r.status}, {r.places}): {r.reason}" for r in missing.itertuples(index=False)]
        lines += ["", "## No time", "", *said]
    cache = (
        "an L2 that holds none of the inputs"
        if (rows.l2 == "cold").all()
        else "an L2 that still holds the data of the run before"
    )
    runs = f"{count(int(rows.runs.min()), 'run')} to {int(rows.runs.max())} per point"
    how = (
        f"{runs} between device events, after the timed build's output had passed against float64 (at most twice "
        f"torch's own error, and one "
        f"rounding of the largest term). They are warmed up, with {cache} and random inputs."
    )
    return "\n".join([*lines, "", "## How", "", how, ""])

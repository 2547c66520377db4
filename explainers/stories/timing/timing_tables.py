"""The figures of a sweep in tables and sentences, lines without a time, problems without sizes, and a report."""

import json
import re
from collections.abc import Iterable

import pandas as pd

from explainers.models.recorded_times import FLOOR, is_paged, shown_name
from explainers.stories.timing.sweep_rows import GROWING, ITSELF, SWEPT, baseline_name, crossings
from explainers.stories.timing.wording import WORDS, as_fast, plain, title_of, why
from explainers.story.glossary import BINARY, amount, microseconds, short
from kernels.core.fields import fields_of, write_value
from kernels.measure.bench_rows import problem_type_of
from kernels.measure.reports import exponents, roofs_said
from kernels.recordings.tables import Provenance


def without_time(part: pd.DataFrame, field: str = "") -> pd.DataFrame:
    """The lines without a time: name, status (in words), places and reason, a row for each reason.

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
    """Every figure of the shown points as a table of texts. name: the baseline."""
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
                "memory": "" if pd.isna(r.peak_bytes) else amount(r.peak_bytes, BINARY[:2]),
                "from": f"{r.source}, {r.device}, {r.date}",
            }
        )
    return pd.DataFrame(table)


def sizeless(table: pd.DataFrame) -> pd.DataFrame:
    """The timed rows without sizes."""
    return table[table.seq_len.isna() & (table.status == "ok")]


def without_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """The times of problems without sizes as texts, problem by problem, the fastest first."""
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
    said = [
        f"{name} {_value_said(value)}"
        for name, value in fields.items()
        if name in always
        or not (
            name in idle
            or (tuple(value) if isinstance(value, list) else value) == defaults.get(name)
            or (isinstance(value, list) and any(isinstance(one, list) for one in value))
        )
    ]
    return f"{title}: {', '.join(said)}" if said else title


def _value_said(value: object) -> str:
    """A value as text. For a long list it is the length and the range."""
    if not isinstance(value, list) or len(value) < 4:
        return write_value(tuple(value) if isinstance(value, list) else value)
    low, high = min(value), max(value)
    return f"{len(value)} x {low:,}" if low == high else f"{len(value)} of {low:,} to {high:,}"


def report(
    rows: pd.DataFrame, part: pd.DataFrame, field: str, title: str, baseline: str, provenance: Iterable[Provenance]
) -> str:
    """A page of Markdown: devices, comparison, lines without a time, and the method."""
    lines, name = [f"# {title}", ""], baseline_name(baseline, part, field)
    for where in provenance:
        made_with = [
            f"driver {where.driver}",
            *([f"torch {where.torch}", where.compiler] if where.torch else []),
            where.date,
        ]
        lines += [f"{where.device}, {', '.join(made_with)}. Roofs measured there: {roofs_said(where.roofs)}.", ""]
    lines += [sentence(rows, field, baseline), exponent_sentence(part, field)]
    lines += [*crossing_sentences(rows, field), "", f"Compared with {name}.", ""]
    table = figures_table(rows, field, name)
    lines += ["| " + " | ".join(table.columns) + " |", "| " + " | ".join("---" for _ in table.columns) + " |"]
    lines += ["| " + " | ".join(str(v).replace("|", "/") for v in row) + " |" for row in table.itertuples(index=False)]
    missing = without_time(part, field)
    if len(missing):
        said = [f"- {r.name} ({r.status}, {r.places}): {r.reason}" for r in missing.itertuples(index=False)]
        lines += ["", "## No time", "", *said]
    runs = {"least": int(rows.runs.min()), "most": int(rows.runs.max()), "cold": (rows.l2 == "cold").all()}
    return "\n".join([*lines, "", "## How", "", WORDS.say("method", runs), ""])


# ---- sentences ----


def state_of(part: pd.DataFrame) -> str:
    """The state of a sweep's times: rested or sustained."""
    return "sustained" if "state" in part and len(part) and (part.state == "sustained").all() else "rested"


def state_sentence(rows: pd.DataFrame, baseline: str) -> str:
    """Clock and power of the fastest kernel and of the baseline if times are sustained, else "". rows: of one size."""
    if rows.empty or state_of(rows) == "rested":
        return ""
    ours = rows[(rows.kind == "kernel") & (rows.label != baseline)].sort_values("median_us", kind="stable").head(1)
    shown = pd.concat([ours, rows[rows.label == baseline].head(1)])
    hot = [
        {"name": shown_name(r.label, r.title), "mhz": r.sustained_clock, "watts": r.sustained_power}
        for r in shown.itertuples()
        if pd.notna(r.sustained_clock) and pd.notna(r.sustained_power)
    ]
    return WORDS.say("state", {"state": "sustained", "hot": hot})


def sentence(rows: pd.DataFrame, field: str, baseline: str) -> str:
    """The largest size with a time of our fastest kernel and of the baseline."""
    ours = rows[(rows.kind == "kernel") & rows.speedup.notna()]
    others = ours[ours.label != baseline]
    ours = others if len(others) else ours
    if ours.empty:
        return WORDS.say("last", {"name": "", "baseline": shown_name(baseline, title_of(rows))})
    largest = ours[ours[field] == ours[field].max()]
    best = largest.sort_values(["source", "median_us"]).iloc[0]  # measured before recorded
    ratios = [best.speedup, *sorted((best.speedup_low, best.speedup_high))]
    if best.speedup < 1:
        ratios = [1 / ratios[0], 1 / ratios[2], 1 / ratios[1]]
    said = {
        **{"field": field, "value": plain(best[field]), "name": best.label, "source": best.source},
        **dict(zip(("median", "p10", "p90"), map(microseconds, (best.median_us, best.p10_us, best.p90_us)))),
        **dict(zip(("ratio", "low", "high"), ratios)),
        "fast": "fast" if best.speedup >= 1 else "long",
        "baseline": f"itself at the first {field}" if baseline == ITSELF else shown_name(baseline, best.title),
        "device": best.device,
    }
    return WORDS.say("last", said)


def floor_sentence(rows: pd.DataFrame, field: str) -> str:
    """The number of sizes at which the floor beats our fastest kernel. "" without a drawn floor."""
    if not is_paged(title_of(rows)) or field not in SWEPT or FLOOR not in set(rows.label):
        return ""
    on = [field, "device", "source"]
    ours = rows[rows.kind == "kernel"].groupby(on).median_us.min()
    floor = rows[rows.label == FLOOR].groupby(on).median_us.min()
    both = pd.concat([ours, floor], axis=1, keys=["ours", "floor"]).dropna()
    faster = int((both.floor < both.ours).sum())
    return WORDS.say("floor_wins", {"floor": WORDS.say("floor", {}), "faster": faster, "sizes": len(both)})


def exponent_sentence(part: pd.DataFrame, field: str) -> str:
    """The growth of each label's time with the field. "" with too few sizes."""
    found = exponents(part, field) if field in GROWING else {}
    if not found:
        return ""
    steepest_first = sorted(found.items(), key=lambda item: -item[1][0])
    slopes = [(shown_name(label), slope) for label, (slope, _) in steepest_first]
    _, used = next(iter(found.values()))
    return WORDS.say("exponents", {"slopes": slopes, "field": field, "used": used})


def crossing_sentences(rows: pd.DataFrame, field: str) -> list[str]:
    found = crossings(rows, field)
    return [
        WORDS.say(
            "crossing", {"faster": shown_name(r.faster), "slower": shown_name(r.slower), "field": field, "at": at}
        )
        for r, at in zip(found.itertuples(), found[field])
    ]

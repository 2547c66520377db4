"""Facts from a table of times: labels, speed-ups with their spread, scaling exponents, slower points than in a kept
set. And their texts and JSON for the command line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from kernels.errors import TraceError
from kernels.measure.bench_rows import COLUMNS, SIZES, pairs_of
from kernels.recordings import tables
from kernels.recordings.tables import Provenance

# The ratio of two times with its spread, and the two times.
RATIO = {"": ("median_us", "median_us"), "_low": ("p10_us", "p90_us"), "_high": ("p90_us", "p10_us")}


def problem_key(made: pd.DataFrame) -> pd.Series:
    """The columns that two comparable rows share: the problem, the state of the L2, and for several tables together
    the GPU, the date and the source."""
    key = made["problem"].astype(str)
    for name in ("l2", "device", "date", "source"):
        if name in made:
            key = key + " " + made[name].astype(str)
    return key


def speedups(made: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """The rows with a time, with speed-ups against the baseline (a label of `labelled`) on the same problem.

    speedup: the ratio of the medians. speedup_low: the baseline's p10 over the row's p90. speedup_high: its p90 over
    the row's p10. None without a time of the baseline."""
    timed = made[made.status == "ok"].copy()
    base = timed[timed.label == baseline].assign(key=problem_key).drop_duplicates("key").set_index("key")
    key = problem_key(timed)
    for end, (above, below) in RATIO.items():
        timed[f"speedup{end}"] = key.map(base[above]).astype(float) / timed[below]
    return timed


def labelled(made: pd.DataFrame) -> pd.DataFrame:
    """The table with `label`: the name. If a name has times with several settings of a person's choice, the label adds
    the settings that differ."""
    made = made.copy()
    labels = made["name"].astype(str)
    for name, part in made.groupby("name"):
        if part.settings.nunique() > 1 and not part.own_settings.astype(bool).all():
            pairs = [dict(pairs_of(settings)) for settings in part.settings]
            differ = [k for k in pairs[0] if len({p.get(k) for p in pairs}) > 1]
            labels.loc[part.index] = [
                f"{name} {' '.join(f'{k}={p[k]}' for k in differ if k in p)}".strip() for p in pairs
            ]
    return made.assign(label=labels)


def exponents(made: pd.DataFrame, field: str = "seq_len") -> dict[str, tuple[float, int]]:
    """label -> (the exponent b of time ~ field^b, the number of sizes). Least squares over the logarithms of the
    largest half of at least four sizes."""
    found = {}
    for label, part in made[(made.status == "ok") & made[field].notna()].groupby("label"):
        sizes = part.groupby(field).median_us.median().sort_index()
        if len(sizes) >= 4:
            top = sizes.iloc[len(sizes) // 2 :] if len(sizes) >= 6 else sizes
            slope = np.polyfit(np.log(top.index.to_numpy(float)), np.log(top.to_numpy(float)), 1)[0]
            found[str(label)] = (float(slope), len(top))
    return found


# ---- against a kept set ----


def load_kept(path: str | Path) -> tuple[pd.DataFrame, Provenance]:
    """(table, Provenance) of a file from `save`, .csv or .json. TraceError for anything else, or for another format."""
    path = Path(path)
    if path.suffix != ".json":
        made, where = tables.load(path)
    else:
        try:
            said = json.loads(path.read_text())
            tables.check_format(said["provenance"], path)
            made, where = pd.DataFrame(said["rows"]), Provenance.from_json(said["provenance"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise TraceError(f"{path.name} is not a table of times: {error!r}. {tables.REMEDY}.") from None
    absent = [name for name in COLUMNS if name not in made]
    if absent:
        raise TraceError(f"{path.name} is not a table of times: it has no column {', '.join(absent)}. {tables.REMEDY}.")
    return made, where


def against(made: pd.DataFrame, kept: pd.DataFrame) -> pd.DataFrame:
    """Each point of `made` with a time in `kept`: its row and these columns.

    kept_us: the kept median. ratio: the new median over the kept one.
    ratio_low: the new p10 over the kept p90. ratio_high: the new p90 over the kept p10.
    change: slower if even ratio_low is above 1, faster if even ratio_high is below 1, same between them, and no time
    if the point has none now.

    Points match by name, problem and L2, and by settings of a person's choice."""
    before = kept[kept.status == "ok"].assign(key=_point_key).drop_duplicates("key").set_index("key")
    found = made.assign(key=_point_key)
    found = found[found.key.isin(before.index)].copy()
    found["kept_us"] = found.key.map(before.median_us).astype(float)
    for end, (above, below) in RATIO.items():
        found[f"ratio{end}"] = found[above].astype(float) / found.key.map(before[below]).astype(float)
    found["change"] = np.select(
        [found.status != "ok", found.ratio_low > 1, found.ratio_high < 1], ["no time", "slower", "faster"], "same"
    )
    return found.drop(columns="key").reset_index(drop=True)


def _point_key(made: pd.DataFrame) -> pd.Series:
    settings = made.settings.fillna("").where(~made.own_settings.astype(bool), "")
    return made["name"].astype(str) + " " + made.problem.astype(str) + " " + made.l2.astype(str) + " " + settings


def against_lines(compared: pd.DataFrame, where: Provenance, kept: Provenance) -> list[str]:
    """`against` in words: the ratio of every point with its spread, then the slower points."""
    lines = [
        f"Against {kept.device}, driver {kept.driver}, {kept.date}: the new median over the kept one "
        "(p10 over p90 to p90 over p10)"
    ]
    if kept.device != where.device:
        lines.append(f"  The kept times are of {kept.device} and the new ones of {where.device}: this compares GPUs.")
    if compared.empty:
        return [*lines, "  No point of this bench has a time in the kept set."]
    slower = []
    for said, part in _problems(compared):
        lines.append(said)
        for r in part.itertuples():
            spread = f"x {r.ratio:.3f} ({r.ratio_low:.3f} to {r.ratio_high:.3f})"
            now = spread if r.status == "ok" else f"{r.status}. {r.reason}"
            told = f"  {r.change}" if r.change in ("slower", "faster") else ""
            lines.append(f"  {r.label:32s} {r.kept_us:12,.2f} us before  {now}{told}")
            slower += [f"  {r.label} at {said}: {spread}"] if r.change == "slower" else []
    counted = compared.change.value_counts()
    changes = ", ".join(f"{counted.get(name, 0)} {name}" for name in ("slower", "faster", "same", "no time"))
    lines.append(f"{changes} of {len(compared)} points")
    return [*lines, *(["Slower beyond the spread:", *slower] if slower else [])]


# ---- the report of a bench ----


@dataclass(frozen=True)
class Report:
    """A table of times with its comparisons.

    shown: every row with its label.
    compared: the rows with a time, with speed-ups against `baseline`, a label.
    kept: the result of `against`, if requested."""

    where: Provenance
    shown: pd.DataFrame
    compared: pd.DataFrame
    baseline: str
    changes: pd.DataFrame | None = None
    kept: Provenance | None = None


def report(made: pd.DataFrame, where: Provenance, kept: tuple[pd.DataFrame, Provenance] | None = None) -> Report:
    """The Report of a table of times. Speed-ups are against the first label with a time. kept: as from load_kept."""
    shown = labelled(made)
    baseline = next(iter(shown[shown.status == "ok"].label), "")
    changes = against(shown, kept[0]) if kept else None
    return Report(where, shown, speedups(shown, baseline), baseline, changes, kept[1] if kept else None)


def report_lines(made: Report) -> list[str]:
    """One line per point, problem by problem. Then the points without a time with their reasons, then the changes
    against the kept set."""
    where = made.where
    lines = [
        f"{where.device}, driver {where.driver}, torch {where.torch}, {where.date}; "
        f"roofs: {roofs_said(where.roofs)}; speed-up against {made.baseline or 'nothing'} (p10 to p90)"
    ]
    for said, part in _problems(made.compared):
        lines.append(said)
        for r in part.itertuples():
            line = f"  {r.label:32s} {r.median_us:12,.2f} us ({r.p10_us:,.2f} to {r.p90_us:,.2f})"
            line += f" {r.tflops:9.3f} TFLOP/s" if pd.notna(r.tflops) else ""
            line += f" {r.gb_per_s:9,.1f} GB/s {r.roof_percent:5.1f} % of {r.roof}" if pd.notna(r.gb_per_s) else ""
            if pd.notna(r.speedup):
                line += f"  x {r.speedup:.3f} ({r.speedup_low:.3f} to {r.speedup_high:.3f})"
            if pd.notna(r.sustained_us):
                line += f"  sustained {r.sustained_us:,.2f} us ({r.sustained_p10_us:,.2f} to {r.sustained_p90_us:,.2f})"
                line += f" at {r.sustained_clock:,.0f} MHz" if pd.notna(r.sustained_clock) else ""
                line += f", {r.sustained_power:.0f} W" if pd.notna(r.sustained_power) else ""
            lines.append(line)
    without = made.shown[made.shown.status != "ok"]
    for (label, status, reason), part in without.groupby(["label", "status", "reason"], sort=False):
        lines.append(f"  {label}: {status}{f' at {len(part)} problems' if len(part) > 1 else ''}. {reason}")
    if made.changes is not None and made.kept:
        lines += against_lines(made.changes, where, made.kept)
    return lines


def _problems(compared: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """(the problem in words, its rows) for each problem of a table."""
    for _, part in compared.groupby(problem_key(compared), sort=False):
        first = part.iloc[0]
        sizes = [
            f"{n} {first[n]:g}" if isinstance(first[n], float) else f"{n} {first[n]}"
            for n in SIZES
            if pd.notna(first[n])
        ]
        yield f"{first.title}: {', '.join(sizes) or str(first.problem)[:120]} ({first.l2} L2)", part


def roofs_said(roofs: dict[str, float]) -> str:
    return (
        f"copy {roofs['copy_gb_per_s']:,.0f} GB/s, fp32 FMA {roofs['fp32_tflops']:.1f} TFLOP/s, fp16 tensor cores "
        f"{roofs['fp16_tflops']:.0f} TFLOP/s"
    )


def report_json(made: Report) -> dict[str, object]:
    """The JSON of `bench --json`: provenance, baseline, rows, and against, if requested."""
    rows = records(made.compared) + records(made.shown[made.shown.status != "ok"])
    said: dict[str, object] = {"provenance": _as_json(made.where), "baseline": made.baseline, "rows": rows}
    if made.changes is not None and made.kept:
        said["against"] = {"provenance": _as_json(made.kept), "rows": records(made.changes)}
    return said


def records(made: pd.DataFrame) -> list[dict[str, object]]:
    """A table's rows as JSON, with None for an empty value."""
    return json.loads(made.to_json(orient="records"))


def _as_json(where: Provenance) -> dict[str, object]:
    return {"format": tables.FORMAT, **where.as_json()}


def save(made: pd.DataFrame, where: Provenance, path: str) -> None:
    """Writes a table of times with its provenance as .csv or .json."""
    if path.endswith(".csv"):
        tables.save(made, path, where)
    else:
        Path(path).write_text(json.dumps({"provenance": _as_json(where), "rows": records(made)}, indent=1))

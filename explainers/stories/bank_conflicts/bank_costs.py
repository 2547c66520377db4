"""The cost of each source line in wavefronts, the cycles of a wavefront, and the check of the rule against counters."""

from collections.abc import Sequence
from functools import lru_cache

import altair as alt
import pandas as pd

from explainers.charts.palette import AXIS, OKABE_ITO
from explainers.stories.bank_conflicts.padding import compare_padding
from explainers.story import stage
from explainers.story.glossary import short
from explainers.story.stage import Block
from explainers.story.words import Words
from kernels.core.request import Request
from kernels.errors import WarpglassError
from kernels.measure import calibration, conflicts, hierarchy
from kernels.recordings import tables
from kernels.run.results import Run

WORDS = Words.of(str(__package__))
SHORT = 16  # floats: shorter rows are all loop, and no bank


def by_line(runs: Sequence[Run]) -> pd.DataFrame:
    """Returns `compare_padding` of two runs. For one run, the table has no columns of the comparison."""
    if len(runs) > 1:
        return compare_padding(*runs)
    table = compare_padding(runs[0], runs[0]).rename(columns={"padded": "wavefronts a request"})
    return table.drop(columns=["not padded", "wavefronts without"]).rename(columns={"wavefronts with": "wavefronts"})


def cycles_chart(table: pd.DataFrame, now: pd.DataFrame | None = None) -> alt.LayerChart:
    """Returns the measured cycles per access against derived wavefronts, a point for each recorded setting.

    The line is one cycle per wavefront. now: the marked rows.
    """
    settings = [f"{name}:Q" for name in table.columns if name.isupper()]
    numbers = [alt.Tooltip("wavefronts:Q", format=".3g"), alt.Tooltip("cycles:Q", format=".4g")]
    tips = ["stride:Q", *settings, *numbers]
    scale, ticks = alt.Scale(type="log", base=2, domain=[1, 40]), alt.Axis(values=[1, 2, 4, 8, 16, 32])
    x = alt.X("wavefronts:Q", scale=scale, title="wavefronts per access (derived)", axis=ticks)
    y = alt.Y("cycles:Q", scale=scale, title="cycles per access (measured)", axis=ticks)
    points = (
        alt.Chart(table)
        .mark_point(filled=True, size=60, opacity=0.75, color=OKABE_ITO["blue"])
        .encode(x=x, y=y, tooltip=tips)
    )
    ends = pd.DataFrame({"wavefronts": [1, 32], "cycles": [1, 32]})
    layers = [alt.Chart(ends).mark_line(color=AXIS, strokeDash=[4, 4]).encode(x=x, y=y), points]
    if now is not None and len(now):
        ring = alt.Chart(now).mark_point(size=220, strokeWidth=3, color=OKABE_ITO["vermillion"])
        layers.append(ring.encode(x=x, y=y, tooltip=tips))
    return alt.LayerChart(layer=layers).properties(height=300)


def calibrated() -> str:
    """The check of the rule against counters."""
    for device, (table, where) in calibration.recorded().items():
        same = int((table.measured == table.modelled).sum())
        equal = f"equal in {same:,} of {len(table):,} accesses, of every width, kind and mask"
        return f"Held against Nsight Compute on {device}, {where.date}: {equal}."
    absent = "No comparison of the present rule with Nsight Compute's counters is recorded."
    return " ".join([absent, *tables.left_out(calibration.KIND)])


def cycles_blocks(runs: Sequence[Run], names: Sequence[str]) -> list[Block]:
    """The recorded cycles, with rings around the shown ones. names: of the sides."""
    found = [cycles(run) for run in runs]
    titles = [f"{name}: " if name else "" for name in names]
    said = [stage.text(f"{title}{whose}") for title, (_, whose) in zip(titles, found)]
    try:
        recorded = hierarchy.recorded(kind=hierarchy.CYCLES)
    except WarpglassError as error:
        return [stage.note(str(error)), *said]
    rings = pd.DataFrame([row for row, _ in found if row])
    chart = cycles_chart(recorded.table[recorded.table.stride >= SHORT], rings)
    caption = WORDS.say("cycles", {"device": recorded.device, "date": recorded.date, "short": SHORT})
    alt = "Measured cycles per access against derived wavefronts"
    return [stage.chart(chart, alt, caption, "Cycles beside wavefronts"), *said]


def counted_blocks(name: str) -> list[Block]:
    """Conflicts of loads by their addresses and by Nsight Compute's counter, with the reason for the differences. The
    rows of the kernel with this name come first."""
    found = conflicts.TABLE.newest()
    if not found:
        absent = "No counts of Nsight Compute are recorded. Run python -m kernels measure conflicts on a GPU."
        return [stage.note(" ".join([absent, *tables.left_out(conflicts.KIND)]))]
    rows, where = found
    multiprocessors = int(where.more["multiprocessors"])
    rows = rows[rows.wavefronts > 0].sort_values("name", key=lambda names: names != name, kind="stable")
    few = rows[rows.blocks <= multiprocessors]
    given = {
        "device": where.device,
        "date": where.dates,
        "multiprocessors": multiprocessors,
        "most": int(rows.blocks.max()),
    }
    given |= {"most": int(rows.blocks.max()), "few": len(few)}
    given |= {"equal": int((few.counted == few.addresses).sum()), "counter": conflicts.COUNTED}
    many = rows[rows.blocks > multiprocessors]
    given |= {"many": len(many), "more": int((many.counted > many.addresses).sum())}
    columns = {"name": "kernel", "settings": "padding", "addresses": "conflicts of the addresses", "counted": "ncu"}
    shown = rows[["name", "launch", "settings", "blocks", "addresses", "counted"]]
    pads = shown.settings.str.extract(r"(PAD\w*=\d+)")[0].fillna("")
    shown = shown.assign(settings=pads, difference=shown.counted - shown.addresses).rename(columns=columns)
    said = [stage.text(WORDS.say(f"ncu_{part}", given)) for part in ("few", "many")]
    return [*said, stage.table(shown, WORDS.say("ncu_caption", given))]


def cycles_said(runs: list[Run]) -> str:
    """The cycles of an access in each run, with their label; empty without a known one."""
    found = [row for row, _ in map(cycles, runs)]
    if not any(found):
        return ""
    label = "measured" if runs[0].request.backend == "gpu" else "recorded"
    values = [short(float(str(row["cycles"]))) if row else "unknown" for row in found]
    return f"{' and '.join(values)} ({label})"


def cycles(run: Run) -> tuple[dict[str, object] | None, str]:
    """Cycles per access of a run's walk, measured on its GPU or recorded: a row of the table or None, and a sentence
    with the source or the reason."""
    request = run.request
    if not hierarchy.has_cycles(request.kernel):
        return None, "Cycles are measured for the column walk only."
    try:
        if request.backend == "gpu":
            row = _measured(request)
            return row, f"{short(float(str(row['cycles'])))} cycles, measured on {run.device}, {run.date}."
        recorded = hierarchy.recorded(kind=hierarchy.CYCLES)
    except WarpglassError as error:
        return None, str(error)
    wanted = {"stride": request.problem.stride, **request.constants}
    found = recorded.table[(recorded.table[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    if not len(found):
        return None, "This setting is not among those recorded."
    row = found.iloc[0].to_dict()
    return row, f"{short(float(str(row['cycles'])))} cycles, recorded on {recorded.device}, {recorded.date}."


@lru_cache(maxsize=64)
def _measured(request: Request) -> dict[str, object]:
    return hierarchy.cycles_point(request.problem, tuple(request.constants.items()))

"""The check of the banks' rule against counters, and the cycles of a wavefront."""

from collections.abc import Sequence
from functools import lru_cache

import pandas as pd

from explainers.stories.bank_conflicts import bank_costs
from explainers.story import stage
from explainers.story.glossary import short
from explainers.story.stage import Block
from kernels.core.request import Request
from kernels.errors import WarpglassError
from kernels.measure import calibration, hierarchy
from kernels.recordings import tables
from kernels.run.results import Run

SHORT = 16  # floats: shorter rows are all loop, and no bank


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
    chart = bank_costs.cycles_chart(recorded.table[recorded.table.stride >= SHORT], rings)
    caption = (
        f"Recorded on {recorded.device}, {recorded.date}: cycles per access of a warp while 8 warps do nothing else. "
        "The ring marks the choice on this page. Below two to four cycles the instructions around an access, not the "
        f"banks, set the pace. Rows of fewer than {SHORT} floats, all loop, are left out."
    )
    alt = "Measured cycles per access against derived wavefronts"
    return [stage.chart(chart, alt, caption, "Cycles beside wavefronts"), *said]


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

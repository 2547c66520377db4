"""How far the outputs and the state of two runs differ."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from explainers.stories.compare.alignment import SIDES
from explainers.story import axes
from explainers.story.glossary import short
from kernels.core.request import Request
from kernels.core.tolerance import OutputError
from kernels.run.results import Run


def state(run: Run) -> pd.DataFrame:
    """Returns m and l of each row after its last tile, in the traced query tile."""
    if "row" not in run.trace.keys:
        return pd.DataFrame(columns=["m", "l"])
    table = run.trace.frame("launch", "seq", "event", "row", "value")
    found = {}
    for name in ("m", "l"):
        part = table[(table.event == name) & table.row.notna()]
        found[name] = part.sort_values("seq", kind="stable").groupby("row").value.last()
    return pd.DataFrame(found)


def outputs(run_a: Run, run_b: Run) -> pd.DataFrame:
    """Returns rows of (what, over, largest difference) between two runs of one problem. Empty for two problems."""
    rows: list[tuple[str, str, float]] = []
    if run_a.request.problem != run_b.request.problem:
        return pd.DataFrame(rows, columns=["what", "over", "largest difference"])
    names = {tensor.name: symbol for symbol, tensor in axes.tensors(run_a.request).items()}
    for output in run_a.request.problem.outputs:
        both_arrays = [
            run.arrays[output.name].astype(np.float64) for run in (run_a, run_b) if output.name in run.arrays
        ]
        if len(both_arrays) == 2:
            largest = float(np.abs(both_arrays[0] - both_arrays[1]).max())  # NaN if either has one
            rows.append((names.get(output.name, output.name), f"all {both_arrays[0].size:,} numbers", largest))
    both = state(run_a).merge(state(run_b), left_index=True, right_index=True, suffixes=("_a", "_b"))
    for name in ("m", "l"):
        if len(both):
            gap = (both[f"{name}_a"] - both[f"{name}_b"]).abs()
            rows.append(
                (f"{name} after the last tile", f"{len(both)} rows that both traced", float(gap.max(skipna=False)))
            )
    return pd.DataFrame(rows, columns=["what", "over", "largest difference"])


def output_sentence(table: pd.DataFrame, runs: Sequence[Run], errors: Sequence[Sequence[OutputError]]) -> str:
    """Returns the distance of the two outputs in sentences, and the sides that are wrong on purpose.

    errors: the errors of each run's outputs (execute.judge).
    """
    off = " and ".join(f"{side} {short(run.max_abs_error, 2)}" for side, run in zip(SIDES, runs))
    two = runs[0].request.problem != runs[1].request.problem
    far = "Each solves a problem of its own, so they are not compared." if two else largest_sentence(table)
    against = f"The largest error against float64 is of {off}."
    right = [is_right(found) for found in errors]
    if broken := broken_sentence([run.request for run in runs], right):
        return f"{broken} {far} {against}"
    wrong = [side for side, ok in zip(SIDES, right) if not ok]
    if wrong:
        return f"{' and '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} off by more than rounding. {far} {against}"
    return f"{'Both are right' if two else 'A and B agree'} within rounding. {far} {against}"


def largest_sentence(table: pd.DataFrame) -> str:
    """Returns the largest differences of `outputs`."""
    said = ", ".join(f"{name} {short(gap, 2)}" for name, gap in zip(table["what"], table["largest difference"]))
    return f"Largest difference between A and B: {said or 'not known, as they log nothing in common'}."


def is_right(errors: Sequence[OutputError]) -> bool:
    """Whether each output of a run is right within rounding."""
    return all(error.ok for error in errors)


def broken_sentence(requests: Sequence[Request], right: Sequence[bool]) -> str:
    """Returns the sides with a what-if, and its effect, or "". right: for each side, whether its output is right."""
    said = [
        f"{side} is built with {constant.what_if}, a what-if. On this problem its output is still right."
        if ok
        else f"{side} is broken on purpose: {constant.what_if[0].lower()}{constant.what_if[1:]}."
        for side, request, ok in zip(SIDES, requests, right)
        for constant in request.broken
    ]
    return " ".join(said)


def broken_tone(requests: Sequence[Request], right: Sequence[bool]) -> str:
    """Returns bad if a what-if makes an output wrong, else info."""
    return "bad" if any(request.broken and not ok for request, ok in zip(requests, right)) else "info"

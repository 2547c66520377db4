"""The words and numbers of the pages: the labels of values (PROVENANCE), the marks of kernels (PHASES), amounts."""

import math
from collections.abc import Sequence

PROVENANCE = {
    "measured": "Run on the GPU of this machine, now.",
    "executed": "This kernel's source, run on the CPU of this machine. It gives values and addresses, never a time.",
    "derived": "Computed from logged addresses and values, by the rule next to it.",
    "modelled": "Computed by a formula, such as the float64 reference. No kernel ran for it.",
    "recorded": "Measured earlier, on the GPU and the date named.",
}

LABELS = {name: name for name in PROVENANCE} | {"executed": "run on this CPU"}  # as the pages show them

PHASES = {  # the marks of the kernels, as the pages call them
    "load_q": "Load Q",
    "load_tile": "Load tile",
    "load_v": "Load V",
    "prefetch": "Prefetch K",
    "prefetch_tile": "Prefetch tile",
    "read_list": "Read the work list",
    "combine_warps": "Combine warps",
    "wait_q": "Wait for Q",
    "nothing_left": "No tile left",
    "tile_begin": "Start of tile",
    "tile_end": "End of tile",
    "scores_done": "Scores ready",
    "output_done": "Output ready",
    "check_sums": "Check sums",
    "scores": "Scores",
    "softmax": "Online softmax",
    "output": "Output",
    "write": "Write O",
    "walk_k": "Walk K",
    "walk_v": "Walk V",
    "write_part": "Write partition",
    "combine": "Combine",
    "write_token": "Write token",
    "copy_page": "Copy page",
    "walk": "Walk",
    "row_max": "Row max",
    "row_sum": "Row sum",
    "divide": "Divide",
    "load_keys": "Load keys",
    "weights": "Weights P",
    "weight_gradients": "dP = dO Vᵀ",
    "score_gradients": "dS from P and dP",
    "value_sums": "Sum of dV",
    "key_sums": "Sum of dK",
    "key_value_sums": "Sums of dV and dK",
    "query_sums": "Part of dQ",
    "weight_gradients_done": "dP ready",
    "value_sums_done": "dV ready",
    "key_sums_done": "dK ready",
    "query_sums_done": "dQ part ready",
    "clear": "Clear dQ",
    "add": "Add to dQ",
    "write_parts": "Write parts of dK and dV",
    "add_parts": "Add parts",
    "write_dk_dv": "Write dK and dV",
    "write_dk": "Write dK",
    "write_dv": "Write dV",
    "write_dq": "Write dQ",
}

DERIVED_PHASES = {  # the pages derive the first from the marks, and plain kernels have the others
    "wait_free": "Wait for free memory",
    "kernel_start": "From the start",
    "barrier": "After a barrier",
    "loop": "In the loop",
    "loop_end": "After the loop",
}


def phase_title(phase: str) -> str:
    """The pages' name of a phase: its entry above, or the mark's name with spaces for underscores."""
    return (PHASES | DERIVED_PHASES).get(phase) or phase.replace("_", " ")


UNORDERED = "Derived order: the logged accesses do not say which role comes first here."  # of kernels.trace.steps


MOST_WHOLE = 1e15  # From here on a number has an exponent. app/stage/core/paint.js has the same limit.
MICROSECONDS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"))  # units of a time in microseconds, the largest first
BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))
BINARY = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "bytes"))


def short(value: float, digits: int = 4) -> str:
    """A number in so many significant digits: 0.9998, 10,000, 8.238e+28. It has no exponent from 1e-4 to MOST_WHOLE."""
    if math.isnan(value):
        return "NaN"
    rounded = float(f"{value:.{digits}g}")  # the only place that rounds to significant digits
    if not abs(rounded) < MOST_WHOLE:
        return f"{value:.{digits}g}"
    return f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:,.{digits}g}"


def figure(value: float, digits: int = 4) -> str:
    """An amount in so many digits, and in all of its whole ones: 2.125, 37,368, 8.238e+28."""
    if not 1000 - 0.5 * 10 ** (3 - digits) <= abs(value) < MOST_WHOLE:
        return short(value, digits)
    return f"{value:,.0f}"


def us(ns: float) -> str:
    """A time in microseconds, in three digits: 0.3 µs, 1,234 µs."""
    return f"{figure(ns / 1e3, 3)} µs"


def logged(value: float) -> str:
    """A logged number and the float64 number next to it, in six digits: 0.946955, 2,219.22, 8.23802e+28."""
    return short(value, 6)


def amount(value: float, units: Sequence[tuple[float, str]], digits: int = 3) -> str:
    """A value in the largest unit in which it shows at least 1: 999.4 is 999 µs, and 999.6 is 1 ms.

    units: (size, name), the largest first.
    """
    size, name = next((u for u in units if float(f"{abs(value) / u[0]:.{digits}g}") >= 1), units[-1])
    return f"{short(value / size, digits)} {name}"


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: 1 sector, 1,024 sectors, 2 entries."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(parts: list[str]) -> str:
    """The parts as a list in a sentence: a, b and c."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def microseconds(value: float) -> str:
    """Returns a time in microseconds with its unit: 84.7 us, 13.9 ms."""
    return amount(value, ((1e3, "ms"), (1.0, "us")), 4)

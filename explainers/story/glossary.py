"""The words and numbers of the pages: the labels of values (PROVENANCE), the marks of kernels (PHASES), amounts.

glossary.toml has the labels and marks."""

import math
import tomllib
from collections.abc import Sequence
from importlib.resources import files

_TOML: dict[str, dict[str, str]] = tomllib.loads(files(str(__package__)).joinpath("glossary.toml").read_text())
PROVENANCE, PHASES, DERIVED_PHASES = (_TOML[name] for name in ("provenance", "phases", "derived_phases"))
LABELS = {name: name for name in PROVENANCE} | {"executed": "run on this CPU"}  # as the pages show them
ELSEWHERE = LABELS | {"executed": "run on a CPU"}  # the same for a reader of a file or a site


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
    """Returns a time in microseconds with its unit: 84.7 µs, 13.9 ms."""
    return amount(value, MICROSECONDS, 4)

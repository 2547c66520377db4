"""The closing picture of the course: the recorded time of each kernel of the stops, on one problem and one GPU."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.course import gains
from app.course.compared import amount
from app.course.stop import Stop
from kernels.catalog import Catalog

ONE_PROBLEM = "All kernels here have one problem. The stops use other sizes, so their factors differ"


@dataclass(frozen=True)
class Step:
    """A kernel of the course.

    stop: the name of its stop.
    label: the stop, and the idea within it if the stop has several kernels.
    kernel: its name.
    us: its median time in microseconds.
    said: the time in words.
    times: how many times less than the step before. Empty for the first one.
    bits: of its inputs.
    """

    stop: str
    label: str
    kernel: str
    us: float
    said: str
    times: str
    bits: int


@dataclass(frozen=True)
class Journey:
    """The steps in the order of the catalog. source: of the times, in words. Both are empty without recordings."""

    steps: tuple[Step, ...] = ()
    source: str = ""


def journey(stops: tuple[Stop, ...], problem: Mapping[str, object], catalog: Catalog) -> Journey:
    """The kernels of the stops that have a rested time for the problem in one table, the newest one with most of them.

    problem: its sizes, without the type of its numbers.
    """
    named = _named(stops)
    found: list[Journey] = []
    for rows, where in gains.recorded_rows("bench"):
        wanted = {"status": "ok", "causal": False, **problem}
        timed = {
            name: gains.row_of(rows, "name", name, wanted, {}, catalog) for name in catalog.kernels if name in named
        }
        steps: list[Step] = []
        for name, row in timed.items():
            if row is None:
                continue
            us, bits = float(str(row["median_us"])), 16 if "16" in str(row["dtype"]) else 32
            times = f"{steps[-1].us / us:.3g}" if steps else ""
            steps.append(Step(*named[name], name, us, amount(us, "us"), times, bits))
        source = f"{gains.place_of(where, 'rested')}. {ONE_PROBLEM}"
        found.append(Journey(tuple(steps), source))
    return max(found, key=lambda one: len(one.steps), default=Journey())


def _named(stops: tuple[Stop, ...]) -> dict[str, tuple[str, str]]:
    """kernel -> its stop and its label: the first stop that opens it or gives its time."""
    found: dict[str, tuple[str, str]] = {}
    for stop in stops:
        if kernel := stop.choices.get("kernel"):
            found.setdefault(kernel, (stop.name, stop.title))
        for gain in stop.gain:
            if gain.kind == "time":
                label = stop.title if gain.name == gain.kind else f"{stop.title}: {gain.name}"
                found.setdefault(gain.kernel, (stop.name, label))
    return found

"""The closing picture of the course: the recorded time of each kernel of the stops, on one problem and one GPU."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.course import gains
from app.course.compared import amount
from app.course.stop import Gain, Stop
from explainers.story.glossary import short
from kernels.catalog import Catalog

ONE_PROBLEM = "The stops use other sizes, heads and batches, so their factors differ"
ESTIMATED = "Striped: not recorded at this size, but taken from the factor of its stop"


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
    estimated: whether the time follows from the factor of the stop, at other sizes.
    """

    stop: str
    label: str
    kernel: str
    us: float
    said: str
    times: str
    bits: int
    estimated: bool = False


@dataclass(frozen=True)
class Journey:
    """The steps in the order of the catalog. source: of the times, in words. Both are empty without recordings."""

    steps: tuple[Step, ...] = ()
    source: str = ""


def journey(stops: tuple[Stop, ...], problem: Mapping[str, object], catalog: Catalog) -> Journey:
    """The kernels of the stops that have a rested time for the problem in one table, the newest one with most of them.

    problem: its sizes, without the type of its numbers.
    """
    named, changed = _named(stops), _changed(stops, catalog)
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
            steps.append(_step(named[name], name, us, bits, steps))
            if name in changed:
                stop, factor = changed[name]
                steps.append(_step((stop.name, stop.title), name, us / factor, bits, steps, estimated=True))
        shown = [gains.place_of(where, "rested"), ONE_PROBLEM, *[ESTIMATED for step in steps if step.estimated][:1]]
        source = ". ".join(shown)
        found.append(Journey(tuple(steps), source))
    return max(found, key=lambda one: len(one.steps), default=Journey())


def _step(
    named: tuple[str, str], kernel: str, us: float, bits: int, before: list[Step], estimated: bool = False
) -> Step:
    """A step after others. named: its stop and its label."""
    about = "about " if estimated or (before and before[-1].estimated) else ""
    times = f"{about}{short(before[-1].us / us, 3)}" if before else ""
    said = f"{'about ' * estimated}{amount(us, 'us')}"
    return Step(*named, kernel, us, said, times, bits, estimated)


def _changed(stops: tuple[Stop, ...], catalog: Catalog) -> dict[str, tuple[Stop, float]]:
    """kernel -> the stop that changes only its constants, and the factor of this change."""
    found: dict[str, tuple[Stop, float]] = {}
    for stop in stops:
        for gain in stop.gain:
            own = gain.before == gain.kernel and gain.settings and _is_own(gain, catalog)
            if own and gain.kind == gain.name == "time":
                told = gains.compared(gain, catalog)
                found.setdefault(gain.kernel, (stop, told.value_before / told.value))
    return found


def _is_own(gain: Gain, catalog: Catalog) -> bool:
    """Whether the constants before are those of the kernel itself."""
    own = catalog.kernels[gain.kernel].settings()
    return all(own.get(name) == value for name, value in gain.before_settings.items())


def _named(stops: tuple[Stop, ...]) -> dict[str, tuple[str, str]]:
    """kernel -> its stop and its label: the first stop that opens it or gives its time."""
    found: dict[str, tuple[str, str]] = {}
    for stop in stops:
        if kernel := stop.choices.get("kernel"):
            found.setdefault(kernel, (stop.name, stop.title))
        for gain in stop.gain:
            if gain.kind == "time":
                label = stop.title if gain.name == gain.kind else f"{stop.title}: {gain.name.replace('_', ' ')}"
                found.setdefault(gain.kernel, (stop.name, label))
    return found

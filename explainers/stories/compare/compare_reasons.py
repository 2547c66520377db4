"""Why one build is faster than another: the needs of its run by weight, and the unexplained rest.

Counted: bytes, wavefronts and multiply-adds, from logged addresses of a run of the timed builds.
Modelled: the least time of each resource by itself. It is the amount over the measured rate of the same GPU, with all
SMs busy. A reason's weight is the slower build's least time minus the faster one's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from explainers.stories.timing.wording import microseconds
from explainers.story import axes
from kernels.build.occupancy import Occupancy
from kernels.core.tensors import Role
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS
from kernels.trace.memory import model

EQUAL = 1.05  # a smaller difference is no reason
SIDES = "AB"


@dataclass(frozen=True)
class Rates:
    """Measured rates of one GPU.

    shared_bytes, l2_bytes: bytes per second of all SMs.
    arithmetic: for each side, its name and FLOP per second.
    """

    shared: float
    l2: float
    arithmetic: tuple[tuple[str, float], tuple[str, float]]
    multiprocessors: int
    warps: int  # most warps of an SM


@dataclass(frozen=True)
class Figures:
    """The needs of one build on the whole timed problem.

    wavefronts, global_bytes, fetched: counted, and scaled by the multiply-adds if a smaller problem ran. fetched are
        elements of inputs.
    blocks, threads, held: of the largest launch. held is the number of its blocks on an SM.
    launches: their number.
    """

    multiply_adds: float
    wavefronts: float
    conflicts: float
    global_bytes: float
    fetched: float
    blocks: int
    threads: int
    held: int
    launches: int
    limited_by: str

    def busy(self, rates: Rates) -> float:
        """Returns the share of SMs with a block, over all waves of the grid."""
        waves = -(-self.blocks // rates.multiprocessors)
        return self.blocks / (waves * rates.multiprocessors)

    def warps(self, rates: Rates) -> int:
        """Returns the most warps on the GPU at once."""
        return min(self.blocks, self.held * rates.multiprocessors) * (self.threads // 32)


@dataclass(frozen=True)
class Reason:
    """A reason for a difference.

    what: wavefronts, bytes, arithmetic, multiprocessors, warps or launches.
    brief: one line with the figures of both sides.
    said: the reason in full.
    weight: microseconds, None for a reason without a time.
    ratio: the slower side's need over the faster one's.
    """

    what: str
    brief: str
    said: str
    weight: float | None
    ratio: float


def figures(run: Run, traffic: Traffic | None, occupancy: Sequence[Occupancy], times: float) -> Figures:
    """Returns the Figures of a traced run.

    traffic: counts of the whole run, None if its traced items represent all others.
    times: the timed problem's multiply-adds over the run's.
    """
    request, work = run.request, run.request.problem.work
    shared, known = model.requests(run.trace, space="shared").costs, axes.tensors(run.request)
    each = run.trace.frame("event", "space", "tensor", "bytes")
    each = each[each.space == "global"]
    each = (
        each.assign(tensor=each.tensor.astype(str), read=each.event.isin(READS)).groupby(["tensor", "read"]).bytes.sum()
    )
    items = request.plan.items / request.scope.count
    moved = {key: items * float(n) for key, n in each.items()}
    wavefronts, ideal = items * float(shared.wavefronts.sum()), items * float(shared.ideal.sum())
    if traffic is not None:
        table = traffic.table.assign(tensor=traffic.table.tensor.astype(str), read=traffic.table.kind.isin(READS))
        every = 1.0 if traffic.whole else items
        there = table[table.space == "global"].groupby(["tensor", "read"]).bytes.sum()
        moved = {key: every * float(n) for key, n in there.items()}
        lanes = float(shared.active.sum())  # for the traced items; each lane's access is one record
        of_all = every * float(table[table.space == "shared"].accesses.sum()) / lanes if lanes else 0.0
        wavefronts, ideal = of_all * float(shared.wavefronts.sum()), of_all * float(shared.ideal.sum())
    inputs = {symbol: t for symbol, t in known.items() if t.role is Role.INPUT}
    fetched = sum(n / inputs[tensor].itemsize for (tensor, read), n in moved.items() if read and tensor in inputs)
    largest = max(occupancy, key=lambda o: o.grid_blocks * o.threads)
    return Figures(
        times * work.flops / 2,
        times * wavefronts,
        times * (wavefronts - ideal),
        times * sum(moved.values()),
        times * fetched,
        largest.grid_blocks,
        largest.threads,
        largest.blocks,
        len(occupancy),
        largest.limited_by,
    )


def least_times(figures: Sequence[Figures], rates: Rates) -> dict[str, tuple[float, float]]:
    """Returns what -> microseconds of each side for this need only, by the model, with all SMs busy."""
    return {
        "wavefronts": _of_both(lambda n, f: f.wavefronts * model.LINE / rates.shared, figures),
        "bytes": _of_both(lambda n, f: f.global_bytes / rates.l2, figures),
        "arithmetic": _of_both(lambda n, f: 2 * f.multiply_adds / rates.arithmetic[n][1], figures),
    }


def _of_both(seconds: Callable[[int, Figures], float], figures: Sequence[Figures]) -> tuple[float, float]:
    a, b = (1e6 * seconds(n, f) for n, f in enumerate(figures))
    return a, b


def reasons(figures: Sequence[Figures], rates: Rates, times_us: Sequence[float]) -> tuple[list[Reason], list[Reason]]:
    """Returns the reasons for the faster side, the weightiest first, and the reasons for the slower side.

    Reasons without a time come last.
    """
    slow = 0 if times_us[0] >= times_us[1] else 1
    fast, least = 1 - slow, least_times(figures, rates)
    f, said = figures, _Said(figures, rates, times_us)
    needs: dict[str, Sequence[float]] = {
        "wavefronts": [side.wavefronts for side in f],
        "bytes": [side.global_bytes for side in f],
        "arithmetic": list(least["arithmetic"]),
        "multiprocessors": [1 / side.busy(rates) for side in f],
        "warps": [1 / side.warps(rates) if side.warps(rates) else 0.0 for side in f],
        "launches": [side.launches for side in f],
    }
    found: tuple[list[Reason], list[Reason]] = ([], [])
    for what, need in needs.items():
        ratio = _over(need[slow], need[fast])
        if 1 / EQUAL < ratio < EQUAL:
            continue
        weight = least[what][slow] - least[what][fast] if what in least else None
        brief = said.brief(what, least.get(what))
        found[ratio < 1].append(Reason(what, brief, getattr(said, what)(*least.get(what, ())), weight, ratio))
    for side in found:
        side.sort(key=lambda reason: -abs(reason.weight) if reason.weight is not None else 0.0)
    return found


def _over(a: float, b: float) -> float:
    return a / b if b else 1.0 if not a else float("inf")


@dataclass(frozen=True)
class _Said:
    """Each reason in words."""

    figures: Sequence[Figures]
    rates: Rates
    times_us: Sequence[float]

    def brief(self, what: str, least: tuple[float, float] | None) -> str:
        """Returns a reason in one line. least: microseconds of each side for this need only."""
        names = {
            "wavefronts": ("Shared memory", [f"{_count(f.wavefronts)} wavefronts" for f in self.figures]),
            "bytes": ("Global memory", [_bytes(f.global_bytes) for f in self.figures]),
            "arithmetic": ("Arithmetic", [name for name, _ in self.rates.arithmetic]),
            "multiprocessors": ("Multiprocessors at work", [f"{100 * f.busy(self.rates):.0f} %" for f in self.figures]),
            "warps": ("Warps on the GPU at once", [_count(f.warps(self.rates)) for f in self.figures]),
            "launches": ("Launches", [str(f.launches) for f in self.figures]),
        }
        title, (a, b) = names[what]
        alone = f"; alone {microseconds(least[0])} and {microseconds(least[1])} at least (modelled)" if least else ""
        return f"{title}: A {a}, B {b}{alone}."

    def _at_least(self, a: float, b: float, where: str) -> str:
        each = [f"{microseconds(us)} of {s}'s {microseconds(t)}" for us, t, s in zip((a, b), self.times_us, SIDES)]
        return f"{where} it takes at least {each[0]} and {each[1]} (modelled)."

    def multiprocessors(self) -> str:
        of = self.rates.multiprocessors
        each = [f"{s}'s {f.blocks:,} blocks keep {100 * f.busy(self.rates):.0f} %" for s, f in zip(SIDES, self.figures)]
        longer = [f"{1 / f.busy(self.rates):.3g}" for f in self.figures]
        return (
            f"Multiprocessors: {each[0]} of {of} at work, {each[1]}, over all waves of the grid; what each of them "
            f"does takes {longer[0]} and {longer[1]} times the least times above."
        )

    def wavefronts(self, a: float, b: float) -> str:
        each = [
            f"{s} needs {_count(f.wavefronts)} wavefronts ({_each(f.multiply_adds, f.wavefronts)}"
            f"{f', {100 * f.conflicts / f.wavefronts:.0f} % of them bank conflicts' if f.conflicts else ''})"
            if f.wavefronts
            else f"{s} needs no wavefront"
            for s, f in zip(SIDES, self.figures)
        ]
        rate = f"At {self.rates.shared / 1e12:.3g} TB/s"
        return f"Shared memory: {each[0]}, {each[1]}. {self._at_least(a, b, rate)}"

    def bytes(self, a: float, b: float) -> str:
        each = [
            f"{s} moves {_bytes(f.global_bytes)} ({_each(f.multiply_adds, f.fetched, 'element fetched')})"
            for s, f in zip(SIDES, self.figures)
        ]
        rate = f"At {self.rates.l2 / 1e12:.3g} TB/s from L2"
        return f"Global memory: {each[0]}, {each[1]}. {self._at_least(a, b, rate)}"

    def arithmetic(self, a: float, b: float) -> str:
        each = [
            f"{s} multiplies with {name} (roof {rate / 1e12:.3g} TFLOP/s)"
            for s, (name, rate) in zip(SIDES, self.rates.arithmetic)
        ]
        return f"Arithmetic: {each[0]}, {each[1]}. {self._at_least(a, b, 'At its roof')}"

    def warps(self) -> str:
        full = [100 * f.held * f.threads / 32 / self.rates.warps for f in self.figures]
        each = [
            f"{s} has {_count(f.warps(self.rates))} warps on the GPU at once ({f.blocks:,} blocks of {f.threads} "
            f"threads; a multiprocessor holds {f.held}, {percent:.0f} % of its warps, limited by "
            f"{f.limited_by})"
            for s, f, percent in zip(SIDES, self.figures, full)
        ]
        return f"Warps at work: {each[0]}, {each[1]}. While one waits for memory another can compute."

    def launches(self) -> str:
        each = [f"{s} makes {f.launches}" for s, f in zip(SIDES, self.figures)]
        return f"Launches: {each[0]}, {each[1]}. Each begins when the one before has ended."


def unexplained(figures: Sequence[Figures], rates: Rates, times_us: Sequence[float], percents: Sequence[Any]) -> str:
    """Returns each side's time minus its largest least time, and the ratio by the model.

    percents: (per cent, roof) of each side.
    """
    least, said, largest = least_times(figures, rates), [], []
    for what in ("wavefronts", "arithmetic"):  # a multiprocessor's own
        a, b = (us / f.busy(rates) for us, f in zip(least[what], figures))
        least[what] = a, b
    names = {"wavefronts": "shared memory", "bytes": "bytes from L2", "arithmetic": "arithmetic"}
    for n, side in enumerate(SIDES):
        what = max(least, key=lambda name: least[name][n])
        needed, took = least[what][n], microseconds(times_us[n])
        largest.append(needed)
        if needed > times_us[n]:
            said.append(
                f"{side}'s {names[what]} should take {microseconds(needed)}, more than its {took}: a nearer cache "
                "served it."
            )
            continue
        left = 100 * (1 - needed / times_us[n])
        said.append(
            f"of {side}'s {took} its weightiest need, {names[what]}, explains {microseconds(needed)}; {left:.0f} % is "
            "left."
        )
    text = " ".join(part[0].upper() + part[1:] for part in said)
    roofs = [f"{side} reaches {percent:.3g} % of its roof ({roof})" for side, (percent, roof) in zip(SIDES, percents)]
    slow = 0 if times_us[0] >= times_us[1] else 1
    model_says = _over(largest[slow], largest[1 - slow])
    measured = times_us[slow] / times_us[1 - slow]
    return (
        f"{text} By these figures alone {SIDES[1 - slow]} would be {model_says:.3g} times as fast; it is "
        f"{measured:.3g} times. {'; '.join(roofs)}. What is left is launching, waiting for memory and for one another, "
        "and every instruction that is no multiply-add: no figure here tells them apart."
    )


def _count(n: float) -> str:
    return f"{n:,.0f}" if n < 1e7 else f"{n / 1e6:,.0f} million" if n < 1e10 else f"{n / 1e9:,.1f} billion"


def _bytes(n: float) -> str:
    return f"{n:,.0f} bytes" if n < 1e7 else f"{n / 1e6:,.0f} MB" if n < 1e10 else f"{n / 1e9:,.1f} GB"


def _each(products: float, n: float, what: str = "wavefront") -> str:
    return f"{_plain(products / n)} multiply-adds for each {what}" if n else f"no {what}"


def _plain(n: float) -> str:
    return f"{n:,.0f}" if n >= 100 else f"{n:.3g}"

"""The needs of a build on the timed problem, and why one build is faster than another: the needs by weight, and the
unexplained rest.

Counted: bytes, wavefronts and multiply-adds, from logged addresses of a run of the timed build.
Modelled: the least time of each resource by itself. It is the amount over the measured rate, with all SMs busy.
A reason's weight is the slower build's least time minus the faster one's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from explainers.stories.compare.pair_times import WORDS
from explainers.story import axes
from explainers.story.glossary import microseconds, short
from kernels.build.occupancy import Occupancy
from kernels.core.launch import TensorMap
from kernels.core.request import Request
from kernels.core.tensors import Role
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS
from kernels.trace.memory import model, traced

SIDES = "AB"
NEEDS = {"wavefronts": "shared memory", "bytes": "bytes from L2", "arithmetic": "arithmetic"}
EQUAL = 1.05  # a smaller difference is no reason
TITLES = {  # of a reason in one line
    "wavefronts": "Shared memory",
    "bytes": "Global memory",
    "arithmetic": "Arithmetic",
    "multiprocessors": "SMs at work",
    "warps": "Warps on the GPU at once",
    "launches": "Launches",
}


@dataclass(frozen=True)
class Rates:
    """Measured rates of one GPU.

    shared, l2: bytes per second of all SMs.
    arithmetic: for each side, its name and FLOP per second.
    multiprocessors: the number of SMs.
    warps: the most warps of an SM.
    """

    shared: float
    l2: float
    arithmetic: tuple[tuple[str, float], tuple[str, float]]
    multiprocessors: int
    warps: int


@dataclass(frozen=True)
class Figures:
    """The needs of one build on the whole timed problem.

    multiply_adds: of the timed problem.
    wavefronts, conflicts, global_bytes: counted, and scaled by the multiply-adds if a smaller problem ran.
    fetched: elements of inputs, counted and scaled in the same way.
    blocks, threads, held: of the largest launch. held is the number of its blocks on an SM.
    launches: their number.
    limited_by: the resources with the least blocks.
    uncounted: see `uncounted`. The wavefronts are then only a part.
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
    uncounted: Sequence[str] = ()

    def busy(self, rates: Rates) -> float:
        """The share of SMs with a block, over all waves of the grid."""
        waves = -(-self.blocks // rates.multiprocessors)
        return self.blocks / (waves * rates.multiprocessors)

    def warps(self, rates: Rates) -> int:
        """The most warps on the GPU at once."""
        return min(self.blocks, self.held * rates.multiprocessors) * (self.threads // 32)


def figures(run: Run, traffic: Traffic | None, occupancy: Sequence[Occupancy], times: float) -> Figures:
    """The Figures of a traced run.

    traffic: counts of the whole run, None if its traced items represent all others.
    times: the timed problem's multiply-adds over the run's.
    """
    request = run.request
    shared = traced.requests(run.trace, space="shared").costs
    shared_scale = scale = request.plan.items / request.scope.count
    if traffic is None:
        moved = _moved(run.trace.frame("event", "space", "tensor", "bytes").rename(columns={"event": "kind"}), scale)
    else:
        scale = 1.0 if traffic.whole else scale
        lanes = float(shared.active.sum())  # each lane's access is one record
        accesses = float(traffic.table[traffic.table.space == "shared"].accesses.sum())
        moved, shared_scale = _moved(traffic.table, scale), scale * accesses / lanes if lanes else 0.0
    wavefronts, ideal = shared_scale * float(shared.wavefronts.sum()), shared_scale * float(shared.ideal.sum())
    itemsize = {symbol: t.itemsize for symbol, t in axes.tensors(request).items() if t.role is Role.INPUT}
    fetched = sum(size / itemsize[tensor] for (tensor, read), size in moved.items() if read and tensor in itemsize)
    largest = max(occupancy, key=lambda launch: launch.grid_blocks * launch.threads)
    return Figures(
        multiply_adds=times * request.problem.work.flops / 2,
        wavefronts=times * wavefronts,
        conflicts=times * (wavefronts - ideal),
        global_bytes=times * sum(moved.values()),
        fetched=times * fetched,
        blocks=largest.grid_blocks,
        threads=largest.threads,
        held=largest.blocks,
        launches=len(occupancy),
        limited_by=largest.limited_by,
        uncounted=uncounted(request),
    )


def uncounted(request: Request) -> list[str]:
    """The accesses of shared memory without addresses in a trace: the reads of wgmma and the writes of TMA."""
    boxes = any(isinstance(arg, TensorMap) for launch in request.plan.launches for arg in launch.args)
    return ["wgmma"] * ("wgmma" in request.kernel.instructions) + ["TMA"] * boxes


def _moved(accesses: pd.DataFrame, scale: float) -> dict[tuple[str, bool], float]:
    """(tensor, is read) -> bytes in global memory, times scale."""
    rows = accesses[accesses.space == "global"]
    by_tensor = rows.assign(tensor=rows.tensor.astype(str), read=rows.kind.isin(READS)).groupby(["tensor", "read"])
    return {key: scale * float(size) for key, size in by_tensor.bytes.sum().items()}


def least_times(figures: Sequence[Figures], rates: Rates) -> dict[str, tuple[float, float]]:
    """What -> microseconds of each side for this need only, by the model, with all SMs busy."""
    a, b = figures
    turns, l2, (flop_a, flop_b) = (
        1e6 * model.LINE / rates.shared,
        1e6 / rates.l2,
        (rate for _, rate in rates.arithmetic),
    )
    return {
        **({} if a.uncounted or b.uncounted else {"wavefronts": (a.wavefronts * turns, b.wavefronts * turns)}),
        "bytes": (a.global_bytes * l2, b.global_bytes * l2),
        "arithmetic": (2e6 * a.multiply_adds / flop_a, 2e6 * b.multiply_adds / flop_b),
    }


# ---- reasons ----


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


def reasons(figures: Sequence[Figures], rates: Rates, times_us: Sequence[float]) -> tuple[list[Reason], list[Reason]]:
    """The reasons for the faster side, the weightiest first, and the reasons for the slower side.

    Reasons without a time come last.
    """
    slow = _slower(times_us)
    least = least_times(figures, rates)
    for_faster: list[Reason] = []
    for_slower: list[Reason] = []
    for kind, need in _needs(figures, rates, least).items():
        ratio = _over(need[slow], need[1 - slow])
        if 1 / EQUAL < ratio < EQUAL:
            continue
        own = least.get(kind)
        weight = own[slow] - own[1 - slow] if own else None
        reason = Reason(kind, *_words(kind, figures, rates, own, times_us), weight, ratio)
        (for_slower if ratio < 1 else for_faster).append(reason)
    weightiest_first = [
        sorted(found, key=lambda reason: 0.0 if reason.weight is None else -abs(reason.weight))
        for found in (for_faster, for_slower)
    ]
    return weightiest_first[0], weightiest_first[1]


def _slower(times_us: Sequence[float]) -> int:
    return 0 if times_us[0] >= times_us[1] else 1


def _needs(figures: Sequence[Figures], rates: Rates, least: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Each need of both sides, more for the slower one."""
    warps = [side.warps(rates) for side in figures]
    return {
        **({"wavefronts": [side.wavefronts for side in figures]} if "wavefronts" in least else {}),
        "bytes": [side.global_bytes for side in figures],
        "arithmetic": list(least["arithmetic"]),
        "multiprocessors": [1 / side.busy(rates) for side in figures],
        "warps": [1 / count if count else 0.0 for count in warps],
        "launches": [side.launches for side in figures],
    }


def _over(a: float, b: float) -> float:
    if b:
        return a / b
    return float("inf") if a else 1.0


def unexplained(
    figures: Sequence[Figures], rates: Rates, times_us: Sequence[float], percents: Sequence[tuple[float, str]]
) -> str:
    """Each side's time minus its largest least time, and the ratio by the model.

    percents: (per cent, roof) of each side.
    """
    least = least_times(figures, rates)
    for kind in {"wavefronts", "arithmetic"} & {*least}:  # only SMs with a block help
        a, b = (us / side.busy(rates) for us, side in zip(least[kind], figures))
        least[kind] = a, b
    weightiest = [max(least, key=lambda name: least[name][side]) for side in (0, 1)]
    needed = [least[kind][side] for side, kind in enumerate(weightiest)]
    left = [
        WORDS.say(
            "left",
            {
                **{"side": SIDES[n], "need": NEEDS[weightiest[n]], "cached": needed[n] > times_us[n]},
                **{"needed": microseconds(needed[n]), "took": microseconds(times_us[n])},
                "left": 100 * (1 - needed[n] / times_us[n]),
            },
        )
        for n in (0, 1)
    ]
    slow = _slower(times_us)
    names: dict[str, object] = {"left": " ".join(left), "fast": SIDES[1 - slow], "roofs": percents}
    names |= {"modelled": _over(needed[slow], needed[1 - slow]), "measured": times_us[slow] / times_us[1 - slow]}
    return WORDS.say("unexplained", names)


# ---- in words ----


def _words(
    kind: str,
    figures: Sequence[Figures],
    rates: Rates,
    least: tuple[float, float] | None,
    times_us: Sequence[float],
) -> tuple[str, str]:
    """A reason in one line, and in full. least: microseconds of each side for this need only."""
    title = TITLES[kind]
    short_texts, texts = zip(*(_figures_said(kind, n, one, rates) for n, one in enumerate(figures)))
    names: dict[str, object] = {"title": title, "needs": [*map(microseconds, least)] if least else ()}
    brief = WORDS.say("brief_reason", names | {"a": short_texts[0], "b": short_texts[1]})
    names |= {"a": texts[0], "b": texts[1], "sms": rates.multiprocessors, "took": [*map(microseconds, times_us)]}
    names |= {"shared": rates.shared / 1e12, "l2": rates.l2 / 1e12}
    names |= {"longer": [1 / one.busy(rates) for one in figures], "least": WORDS.say("least", names) if least else ""}
    return brief, WORDS.say(kind, names)


def _figures_said(kind: str, n: int, side: Figures, rates: Rates) -> tuple[str, str]:
    """A side's figures for a reason: in brief, and in a clause."""
    name = SIDES[n]
    if kind == "wavefronts":
        each = _each(side.multiply_adds, side.wavefronts, "wavefront")
        if side.conflicts:
            each += f", {100 * side.conflicts / side.wavefronts:.0f} % bank conflicts"
        full = f"{_count(side.wavefronts)} wavefronts ({each})" if side.wavefronts else "no wavefront"
        return f"{_count(side.wavefronts)} wavefronts", f"{name} needs {full}"
    if kind == "bytes":
        moved = _bytes(side.global_bytes)
        return moved, f"{name} moves {moved} ({_each(side.multiply_adds, side.fetched, 'element fetched')})"
    if kind == "arithmetic":
        title, rate = rates.arithmetic[n]
        return title, f"{name} multiplies with {title} (roof {short(rate / 1e12, 3)} TFLOP/s)"
    if kind == "multiprocessors":
        busy = f"{100 * side.busy(rates):.0f} %"
        return busy, f"{name}'s {side.blocks:,} blocks keep {busy}"
    if kind == "launches":
        return str(side.launches), f"{name} makes {side.launches}"
    warps, percent = _count(side.warps(rates)), 100 * side.held * side.threads / 32 / rates.warps
    return warps, (
        f"{name} has {warps} warps on the GPU at once ({side.blocks:,} blocks of {side.threads} threads, an SM holds "
        f"{side.held}, {percent:.0f} % of its warps, limited by {side.limited_by})"
    )


def _count(n: float) -> str:
    if n < 1e7:
        return f"{n:,.0f}"
    return f"{n / 1e6:,.0f} million" if n < 1e10 else f"{n / 1e9:,.1f} billion"


def _bytes(n: float) -> str:
    if n < 1e7:
        return f"{n:,.0f} bytes"
    return f"{n / 1e6:,.0f} MB" if n < 1e10 else f"{n / 1e9:,.1f} GB"


def _each(products: float, n: float, noun: str) -> str:
    each = products / n if n else 0.0
    return f"{f'{each:,.0f}' if each >= 100 else short(each, 3)} multiply-adds for each {noun}" if n else f"no {noun}"

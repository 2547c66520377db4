"""Why one build is faster than another: the needs of both on the timed problem by weight, and the unexplained rest.

Counted: bytes, wavefronts and multiply-adds, from logged addresses of a run of the timed build.
Modelled: the least time of each resource by itself. It is the amount over the measured rate, with all SMs busy.
A reason's weight is the slower build's least time minus the faster one's.
Derived: the load of the tensor cores and the phases of a tile, from the marks of block 0 in recorded pipelines. A mark
shows the start of a phase, not the cause of a wait.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from explainers.stories.compare.pair_times import SIDES, WORDS, distance
from explainers.story import axes, stage
from explainers.story.glossary import microseconds, phase_title
from explainers.story.words import Row
from kernels.build.occupancy import Occupancy
from kernels.core.launch import TensorMap
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.tensors import Role
from kernels.measure import pipeline_bars
from kernels.measure.pipelines import Pipeline, RecordedPipeline
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS
from kernels.trace.memory import model, traced

EQUAL = 1.05  # a smaller difference is no reason
MOST = 2  # shorter phases in a sentence, and longer ones
LEAST = 0.02  # least difference of a phase, as a share of a tile's time


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
        accesses = run.trace.frame("event", "space", "tensor", "bytes").rename(columns={"event": "kind"})
    else:
        scale, accesses = 1.0 if traffic.whole else scale, traffic.table
        lanes = float(shared.active.sum())  # each lane's access is one record
        shared_scale = scale * float(accesses[accesses.space == "shared"].accesses.sum()) / lanes if lanes else 0.0
    rows = accesses[accesses.space == "global"]
    moved = rows.bytes.groupby([rows.tensor.astype(str), rows.kind.isin(READS)]).sum()
    itemsize = {symbol: t.itemsize for symbol, t in axes.tensors(request).items() if t.role is Role.INPUT}
    fetched = sum(size / itemsize[name] for (name, read), size in moved.items() if read and name in itemsize)
    wavefronts, ideal = float(shared.wavefronts.sum()), float(shared.ideal.sum())
    largest = max(occupancy, key=lambda launch: launch.grid_blocks * launch.threads)
    return Figures(
        multiply_adds=times * request.problem.work.flops / 2,
        wavefronts=times * shared_scale * wavefronts,
        conflicts=times * shared_scale * (wavefronts - ideal),
        global_bytes=times * scale * float(moved.sum()),
        fetched=times * scale * fetched,
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


def least_times(figures: Sequence[Figures], rates: Rates) -> dict[str, list[float]]:
    """What -> microseconds of each side for this need only, by the model, with all SMs busy."""
    turns, l2 = 1e6 * model.LINE / rates.shared, 1e6 / rates.l2
    counted = not any(side.uncounted for side in figures)
    return {
        **({"wavefronts": [side.wavefronts * turns for side in figures]} if counted else {}),
        "bytes": [side.global_bytes * l2 for side in figures],
        "arithmetic": [2e6 * side.multiply_adds / flop for side, (_, flop) in zip(figures, rates.arithmetic)],
    }


@dataclass(frozen=True)
class Reason:
    """A reason for a difference.

    what: wavefronts, bytes, arithmetic, multiprocessors, warps or launches.
    brief, said: one line with the figures of both sides, and the reason in full.
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
    slow, least, found = _slower(times_us), least_times(figures, rates), list[Reason]()
    needs: dict[str, Sequence[float]] = {
        **least,
        "multiprocessors": [1 / side.busy(rates) for side in figures],
        "warps": [1 / count if (count := side.warps(rates)) else 0.0 for side in figures],
        "launches": [side.launches for side in figures],
    }
    sides = [_side(n, one, rates) for n, one in enumerate(figures)]
    for kind, need in needs.items():
        ratio = _over(need[slow], need[1 - slow])
        if not 1 / EQUAL < ratio < EQUAL:
            own = least.get(kind, [])
            names: Row = {"kind": kind, "took": [*map(microseconds, times_us)], "needs": [*map(microseconds, own)]}
            names |= {"shared": rates.shared / 1e12, "l2": rates.l2 / 1e12, "sms": rates.multiprocessors}
            names["longer"] = [1 / one.busy(rates) for one in figures]
            short = [WORDS.say(f"brief_{kind}", side) for side in sides]
            brief = WORDS.say("brief_reason", names | {"a": short[0], "b": short[1]})
            a, b = (WORDS.say(f"side_{kind}", side) for side in sides)
            said = WORDS.say(kind, names | {"a": a, "b": b, "least": WORDS.say("least", names) if own else ""})
            found.append(Reason(kind, brief, said, own[slow] - own[1 - slow] if own else None, ratio))
    found.sort(key=lambda reason: 0.0 if reason.weight is None else -abs(reason.weight))
    return [one for one in found if one.ratio >= 1], [one for one in found if one.ratio < 1]


def _side(n: int, side: Figures, rates: Rates) -> Row:
    """The figures of a side for its texts."""
    title, rate = rates.arithmetic[n]
    return {
        "side": SIDES[n],
        "wavefronts": amount(side.wavefronts, "", " million", " billion"),
        "each_wavefront": side.multiply_adds / side.wavefronts if side.wavefronts else 0.0,
        "conflicts": side.conflicts / side.wavefronts if side.wavefronts else 0.0,
        "bytes": amount(side.global_bytes, " bytes", " MB", " GB"),
        "each_element": side.multiply_adds / side.fetched if side.fetched else 0.0,
        "arithmetic": title,
        "roof": rate / 1e12,
        "blocks": side.blocks,
        "busy": side.busy(rates),
        "launches": side.launches,
        "warps": amount(side.warps(rates), "", " million", " billion"),
        "threads": side.threads,
        "held": side.held,
        "filled": side.held * side.threads / 32 / rates.warps,
        "limited_by": side.limited_by,
    }


def amount(n: float, unit: str, million: str, billion: str) -> str:
    if n < 1e7:
        return f"{n:,.0f}{unit}"
    return f"{n / 1e6:,.0f}{million}" if n < 1e10 else f"{n / 1e9:,.1f}{billion}"


def _slower(times_us: Sequence[float]) -> int:
    return 0 if times_us[0] >= times_us[1] else 1


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
    least, slow = least_times(figures, rates), _slower(times_us)
    for kind in {"wavefronts", "arithmetic"} & {*least}:  # only SMs with a block help
        least[kind] = [us / side.busy(rates) for us, side in zip(least[kind], figures)]
    left, needed = list[str](), list[float]()
    for n in (0, 1):
        kind = max(least, key=lambda name: least[name][n])
        needed.append(least[kind][n])
        names: Row = {"side": SIDES[n], "kind": kind, "cached": needed[n] > times_us[n]}
        names |= {"needed": microseconds(needed[n]), "took": microseconds(times_us[n])}
        left.append(WORDS.say("left", names | {"left": 100 * (1 - needed[n] / times_us[n])}))
    ratios = {"modelled": _over(needed[slow], needed[1 - slow]), "measured": times_us[slow] / times_us[1 - slow]}
    return WORDS.say("unexplained", {"left": " ".join(left), "fast": SIDES[1 - slow], "roofs": percents, **ratios})


# ---- by the recorded pipelines ----


@dataclass(frozen=True)
class Marked:
    """The recorded pipelines of A and B on one problem.

    elsewhere: whether the time of the verdict is of another problem.
    """

    a: Pipeline
    b: Pipeline
    elsewhere: bool


def nearest(
    first: Iterable[RecordedPipeline], second: Sequence[RecordedPipeline], problem: Problem
) -> tuple[RecordedPipeline, RecordedPipeline] | None:
    """The recordings of two kernels on the common problem nearest to this one, or None."""
    pairs = [(a, b) for a in first for b in second if a.request.problem == b.request.problem]
    return min(pairs, key=lambda pair: distance(pair[0].request.problem, problem), default=None)


def marked_sentences(marked: Marked) -> list[str]:
    """The problem, the load of the tensor cores in both, the time of a tile with the phases of the largest difference,
    and the limits of these figures. The second and the third are left out if they are not known."""
    both = marked.a, marked.b
    names: Row = {"elsewhere": marked.elsewhere, "problem": stage.problem_said(marked.a.request.problem)}
    names |= {"device": marked.a.device, "date": marked.a.date, "cost": [one.overhead for one in both]}
    # the share of block 0's time in which the products of all its blocks need the tensor cores
    shares = [(pipeline_bars.multiplying(one, 0), pipeline_bars.resident(one, 0)) for one in both]
    names["needed"] = [share * held for share, held in shares if share is not None]
    names["fed"] = [share for one in both if (share := pipeline_bars.fed(one, 0)) is not None]
    return WORDS.parts("marked", names | _phases(marked))


def _phases(marked: Marked) -> Row:
    """The nanoseconds of a tile in both, and the phases with the largest difference. No tile if the tiles differ."""
    tiles = {(one.request.value_of("query_rows"), one.request.value_of("key_rows")) for one in (marked.a, marked.b)}
    each = [_phases_of(one) for one in (marked.a, marked.b)] if len(tiles) == 1 else []
    if not each or each[0].empty or each[1].empty:
        return {"tile": ""}
    a, b = (float(phases.sum()) for phases in each)
    every = pd.concat(each, axis=1, keys=["a", "b"]).fillna(0.0)
    gain = every.a - every.b
    apart, named, found = gain[gain.abs() >= LEAST * max(a, b)], list[object](), list[tuple[str, object]]()
    for word, part in (("less", apart[apart > 0]), ("more", apart[apart < 0])):
        most = every.loc[part.abs().sort_values(ascending=False).index[:MOST]]
        named += [*most.index]
        if len(most):
            found.append((word, [(phase_title(str(event)), row.a, row.b) for event, row in most.iterrows()]))
    rest = every.drop(index=named)  # so that the listed times add up to the whole
    if found and len(rest):
        others = float(rest.a.sum()), float(rest.b.sum())
        found.append(("less" if others[0] > others[1] else "more", [("all others", *others)]))
    tile = "query tile" if marked.a.walked == "query" else "key tile"
    return {"tile": tile, "noun": marked.a.noun, "a": a, "b": b, "found": found}


def _phases_of(pipeline: Pipeline) -> pd.Series:
    """The nanoseconds of each phase in a tile: the mean over the computing warps of block 0."""
    bars = pipeline_bars.bars(pipeline, 0)
    computing = bars[bars.event.isin(pipeline_bars.COMPUTING)].writer.unique()
    own = bars[:0]
    if "tile" in bars:
        own = bars[bars.writer.isin(computing) & (bars.event != bars.role) & bars.tile.notna()]
    tiles = int((own.event == "tile_begin").sum())
    spent = (own.end_ns - own.start_ns).groupby(own.event.astype(str)).sum()
    return spent / tiles if tiles else spent[:0]

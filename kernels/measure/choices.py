"""The fastest kernel by problem: kernels and constants take turns on a grid of sizes. In recordings/data/choice/.

The operators read this table (kernels/ops/choice.py). A case is a problem. Its participants are kernels with their
VARIANTS of constants. The project's one rule (core/tolerance.py) judges each one. A first short turn leaves out
those that take SLOWER times as long as the fastest one. An exact build, whose largest weight of a row is exactly 1,
meets only exact ones there, since operators take no others. The rest takes ROUNDS turns of SECONDS on a chip at work
(load.in_turns). A kernel that is done before the host enqueues the next one measures the host there. So the first turn,
whose runs wait in a queue, decides each case with a run shorter than ENQUEUED.

A problem takes its nearest recorded case: the same head_dim and mask, then the least distance in doublings of its keys
and of its blocks. A block is a tile of 128 queries of a head. Another type counts as OTHER_TYPE doublings. Sizes beyond
the grid count as its edge. Cases of another GPU do not count, and problems with SQUARE times more queries than keys, or
fewer, have no case.
"""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import metadata
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

from kernels import catalog
from kernels.core.problem import Problem, inputs_of
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import worst
from kernels.errors import OutOfMemory, ProblemError, WarpglassError
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.measure import judging, load, protocol
from kernels.measure.bench_rows import pairs_of, problem_text, settings_text
from kernels.measure.in_worker import in_worker
from kernels.recordings.tables import Case, Cases, RecordedTable, Row, by
from kernels.run.backends import Device, gpu

KIND = "choice"
SMALL_TILES = {"BLOCK_Q": 64, "BLOCK_KV": 64}
VARIANTS: Mapping[int, Sequence[Mapping[str, int]]] = {
    9: ({}, SMALL_TILES),
    11: ({},),
    12: ({},),
    13: ({}, SMALL_TILES, {"OPTIMISTIC": 0}, {"OPTIMISTIC": 1}),
}
"""The rungs that take part -> their constants other than the tuned ones."""
TOKENS = (128, 512, 1024, 2048, 4096, 16384)
BLOCKS = (32, 128, 512, 2048)
BLOCK_ROWS, WIDEST = 128, 32  # queries of a block; the most heads of a sequence in the grid
SLOWER, SECONDS, ROUNDS, LEAD = 1.15, 0.1, 2, 0.05
ENQUEUED = 20.0  # us of the host for a run. On an H200's machine, runs below it took up to 3.6 times as long in turns
SETS = 3  # of arrays. The runs of a turn take them one after the other
OTHER_TYPE = 0.5  # doublings
SQUARE = 4
TIME_LIMIT = 120.0  # seconds for one case
COLUMNS = (
    *("name", "variant", "status", "dtype", "head_dim", "causal", "tokens", "blocks", "batch", "num_heads"),
    *("us", "share", "first_us", "clock", "power", "error_share", "times", "code_hash", "problem", "reason"),
)
"""variant: constants other than the tuned ones, as NAME=VALUE.
status: ok, slow (left out after its first turn), wrong or skipped. reason: for it.
us: of a run, the median of the turns. first_us: of the first turn. share: the fastest participant's us over this one's.
error_share: of the output's allowed error. times: JSON, us of each turn."""


Variant = tuple[tuple[str, int], ...]
"""Pairs of constants other than the tuned ones."""


class Fastest(NamedTuple):
    """A participant of a case.

    us: of a run. share: the fastest time over this one's.
    """

    name: str
    variant: Variant
    us: float
    share: float


def problems() -> list[SixteenBitProblem]:
    """The grid, in bfloat16 and then in float16, short sequences first."""
    made = []
    for dtype, tokens, blocks, head_dim, causal in product(
        ("bfloat16", "float16"), TOKENS, BLOCKS, (64, 128), (True, False)
    ):
        heads = blocks * BLOCK_ROWS // tokens
        if heads:
            width = min(heads, WIDEST)
            made.append(SixteenBitProblem(tokens, head_dim, heads // width, width, causal, dtype))
    return made


def participants(problem: Problem) -> list[tuple[str, Variant]]:
    """(kernel, variant) of each participant on a problem. A variant that a kernel refuses, or that it is tuned to, does
    not take part."""
    found = []
    for name, spec in catalog.current().of_problem(SixteenBitProblem).items():
        plans = set()
        for variant in variants(spec) if spec.rung in VARIANTS else ():
            settings = spec.settings_for(problem, variant)
            with suppress(ProblemError):
                spec.plan(problem, settings)
                if (plan := tuple(settings.items())) not in plans:
                    plans.add(plan)
                    found.append((name, variant))
    return found


def variants(spec: KernelSpec) -> list[Variant]:
    """The variants of a kernel, the tuned one first."""
    known = VARIANTS.get(spec.rung, ({},)) if spec.solves_class(SixteenBitProblem) else ({},)
    return [tuple(variant.items()) for variant in known]


def may_round(spec: KernelSpec, problem: Problem, variant: Variant) -> bool:
    """Whether a row's largest weight may be rounded in a variant."""
    return spec.may_round(problem, spec.settings_for(problem, variant))


def blocks_of(problem: Problem) -> int:
    """Tiles of 128 queries of all heads."""
    queries, *heads = (int(str(problem.values()[name])) for name in ("seq_len", "batch", "num_heads"))
    return math.ceil(queries / BLOCK_ROWS) * math.prod(heads)


# ---- the recorded table ----


def _cases(device: Device, _: object) -> Cases:
    made = []
    for problem in problems():
        entries = participants(problem)
        keys = [(problem_text(problem), name, settings_text(variant)) for name, variant in entries]
        turn = partial(_turn, problem, entries)
        title = f"{problem.dtype} D {problem.head_dim} {'causal' if problem.causal else 'full'}, {problem.size}"
        made.append(Case(title, keys, turn))
    said = f"{ROUNDS} turns of {SECONDS:g} s after {LEAD:g} s of load, those within {SLOWER:g} times the fastest"
    return made, {"torch": metadata.version("torch"), "protocol": said}


def _turn(problem: Problem, entries: Sequence[tuple[str, Variant]], _: object) -> list[Row]:
    return in_worker("Choice", meet, problem, entries, limit=TIME_LIMIT)


TABLE = RecordedTable(KIND, by("problem", "name", "variant"), _cases, COLUMNS)


def meet(problem: Problem, entries: Sequence[tuple[str, Variant]]) -> list[Row]:
    """A row for each participant on a problem. Runs in the GPU's worker."""
    import cupy

    with gpu.errors():
        cupy.get_default_memory_pool().free_all_blocks()
        inputs = inputs_of(problem)
        rows = [_begun(problem, name, variant) for name, variant in entries]
        runs = [_judged(row, problem, variant, inputs) for row, (_, variant) in zip(rows, entries)]
        running = [(row, one) for row, one in zip(rows, runs) if one]
        for row, one in running:
            row["first_us"] = round(float(np.median(load.time_runs(one, 5))), 3)
        rounding = {
            (name, settings_text(variant)): may_round(catalog.find(name), problem, variant) for name, variant in entries
        }
        firsts = [
            (float(str(row["first_us"])), rounding[str(row["name"]), str(row["variant"])], row) for row, _ in running
        ]
        for us, rounds, row in firsts:  # an exact build is slow only next to exact ones: operators take no others
            best = min(other for other, other_rounds, _ in firsts if rounds or not other_rounds)
            row["status"] = "ok" if us <= SLOWER * best else "slow"
        fast = [(row, one) for row, one in running if row["status"] == "ok"]
        if fast:
            times, states = load.in_turns([one for _, one in fast], SECONDS, ROUNDS, LEAD)
            medians = np.median(times, axis=1)
            for (row, _), mine, median, meanwhile in zip(fast, times, medians, states):
                row |= {"us": round(float(median), 3), "share": round(float(medians.min() / median), 4)}
                row |= {"times": json.dumps(mine.round(3).tolist())}
                row["clock"], row["power"] = meanwhile[-1]
    return [*rows]


def _begun(problem: Problem, name: str, variant: Variant) -> dict[str, object]:
    row: dict[str, object] = dict.fromkeys(COLUMNS)
    row |= {key: value for key, value in problem.values().items() if key in COLUMNS}
    row |= {"name": name, "variant": settings_text(variant), "tokens": problem.values()["seq_len"]}
    return row | {
        "blocks": blocks_of(problem),
        "code_hash": catalog.find(name).code_hash,
        "problem": problem_text(problem),
    }


def _judged(
    row: dict[str, object], problem: Problem, variant: Variant, inputs: Mapping[str, np.ndarray]
) -> list[load.Enqueue]:
    """Functions that enqueue a run of a participant, empty if it has no time. Its row then has the reason."""
    spec = catalog.find(str(row["name"]))
    try:
        request = Request(spec, problem, tuple(spec.settings_for(problem, variant).items()), backend="gpu")
        prepared = protocol.Kernel(request, inputs)
        error = worst(judging.judged(problem, prepared.first_run()))
    except gpu.StickyError:
        raise
    except (OutOfMemory, WarpglassError) as skipped:
        row |= {"status": "skipped", "reason": str(skipped)}
        return []
    row["error_share"] = round(error.share, 3)
    status, reason = judging.verdict(spec.name, error)
    if status == "wrong":
        row |= {"status": status, "reason": reason}
        return []
    return prepared.copies(SETS)


# ---- the reader ----


def timed(made: pd.DataFrame) -> pd.DataFrame:
    """The rows with a time, the fastest first. us: of a run in its turns, or in the first turn for all of a case with a
    run shorter than ENQUEUED. share: the fastest us of the case over it."""
    rows = made[made.status == "ok"]
    brief = rows.groupby("problem").first_us.transform("min") < ENQUEUED
    us = rows.us.mask(brief, rows.first_us)
    rows = rows.assign(us=us, share=us.groupby(rows.problem).transform("min") / us)
    return rows.sort_values("us", kind="stable")


def fastest(problem: Problem, device: Device) -> list[Fastest]:
    """The participants of the problem's nearest recorded case on this GPU, the fastest first. Empty without one."""
    recorded = TABLE.recorded().get(device.name)
    if recorded is None or not catalog.find(recorded[0]["name"][0]).solves(problem):
        return []
    own, rows = problem.values(), recorded[0]
    queries, keys = int(str(own["seq_len"])), int(str(problem.sizes["keys"]))
    rows = timed(rows)
    rows = rows[(rows.head_dim == own["head_dim"]) & (rows.causal == own["causal"])]
    if rows.empty or not 1 / SQUARE < queries / keys < SQUARE:
        return []
    apart = OTHER_TYPE * (rows["dtype"] != own["dtype"])
    for column, size in (("tokens", keys), ("blocks", blocks_of(problem))):
        known = rows[column].astype(float)
        apart += np.abs(np.log2(known / min(max(size, known.min()), known.max())))
    case = rows[rows.problem == rows.problem[apart.idxmin()]]
    columns = case["name"], case.variant.fillna(""), case.us, case.share
    return [Fastest(name, pairs_of(variant), float(us), float(share)) for name, variant, us, share in zip(*columns)]

"""The rules of trace/memory/model.py against Nsight Compute, access by access: the cases, the command, and the
recorded table."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from kernels import catalog
from kernels.core.request import Request
from kernels.families.lab.accesses import ACCESS_BYTES, AccessProblem
from kernels.measure import counters
from kernels.recordings.tables import Case, Cases, RecordedTable, by, rows_of
from kernels.trace.kinds import LAB_KINDS, AccessKind, Rule
from kernels.trace.memory import model

KIND = "calibration"
METRICS = {kind.name: kind.metric for kind in LAB_KINDS}
COLUMNS = ["op", "width", "matrices", "offsets", "measured", "modelled"]
LANES = np.arange(32)
MASKS = {
    "all": LANES >= 0,
    "even": LANES % 2 == 0,
    "odd": LANES % 2 == 1,
    "lower half": LANES < 16,
    "upper half": LANES >= 16,
    "quarters 0 and 3": (LANES < 8) | (LANES >= 24),
    "second quarter": (LANES >= 8) & (LANES < 16),
    "one lane": LANES == 13,
    "pairs": LANES % 4 < 2,
    "every fourth": LANES % 4 == 0,
}  # active lanes


# ---- the cases ----


def cases() -> list[AccessProblem]:
    """AccessProblems of every kind and width: strides, padding, broadcasts, permutations, possible pairs, random
    words, masks."""
    return [problem for kind in LAB_KINDS for problem in cases_of_kind(kind)]


def cases_of_kind(kind: AccessKind) -> Iterable[AccessProblem]:
    if kind.event == "ldmatrix":
        rng, found = np.random.default_rng(7), []
        for matrices in (1, 2, 4):
            rows = [LANES * stride for stride in (16, 32, 48, 64, 80, 112, 128, 144, 160, 256, 272, 528)]
            rows += [LANES % 8 * 128 + LANES // 8 * 16, LANES % 8 * 144 + LANES // 8 * 16, LANES * 0 + 32]
            rows += [LANES // 2 * 128, LANES // 8 * 128, LANES % 4 * 128]
            rows += [LANES * 128 + ((LANES % 8) ^ k) * 16 for k in range(0, 8, 3)]
            rows += [rng.integers(0, span, 32) * 16 for span in (8, 16, 64, 2048) for _ in range(2)]
            found += [AccessProblem("ldmatrix", 16, matrices, tuple(row.tolist())) for row in rows]
        return found
    return [
        AccessProblem(kind.name, width, offsets=tuple(offsets.tolist()))
        for width in kind.widths
        for offsets in _offsets_for(kind, width)
    ]


def _offsets_for(kind: AccessKind, width: int) -> list[np.ndarray]:
    """Patterns of 32 offsets. A load that merges has extra patterns with pairs. Asynchronous copies have half the
    patterns."""
    patterns = _patterns(width, kind.space == "global")
    if kind.rule is Rule.MERGED:
        paired, crossed = LANES // 2, LANES // 4 * 2 + LANES % 2
        units = [np.where(part, paired, crossed) for part in (LANES < 16, LANES >= 16, LANES < 8, LANES % 16 < 8)]
        units += [np.where(lane == LANES, 40, way) for way in (paired, crossed) for lane in (3, 16, 30)]
        units += [np.where(LANES == 30, -1, np.where(LANES == 31, 40, paired)), np.where(LANES % 4 == 3, -1, paired)]
        units += [np.where(LANES < 16, paired, -1)]
        return [np.where(u < 0, -1, u * width) for u in units] + patterns
    return patterns[::2] if kind.rule in (Rule.SEPARATE, Rule.BYPASS) else patterns


def _patterns(width: int, in_global: bool) -> list[np.ndarray]:
    """Byte offsets of 32 lanes for an access of that width, -1 for inactive lanes."""
    rng = np.random.default_rng(width)
    units = [LANES * stride for stride in (1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33)]
    units += [LANES // n for n in (2, 4, 8, 16, 32)] + [LANES % n for n in (2, 4, 8, 16)]
    units += [LANES ^ k for k in (1, 5, 16, 31)] + [31 - LANES]
    if in_global:
        units += [LANES + shift for shift in (1, 2, 3, 5, 7, 8, 31)] + [LANES * 2 + 1, LANES * 32 + LANES]
    per_row = max(1, 128 // width)
    units += [LANES // n * per_row for n in (2, 4, 8, 16)] + [LANES % n * per_row for n in (2, 4, 8, 16)]
    units += [LANES * (per_row + pad) for pad in (0, 1, 2, 4)]
    units += [LANES * per_row + (LANES ^ k) % per_row for k in (0, 3)]
    # Pairs for the merging of loads: lane n with n^1, or n with n^2, over the whole warp, a half or a quarter.
    paired, crossed = LANES // 2 * per_row, (LANES // 4 * 2 + LANES % 2) * per_row
    for part in (LANES < 16, LANES >= 16, LANES < 8, LANES % 16 < 8):
        units += [np.where(part, paired, LANES * per_row), np.where(part, crossed, LANES * per_row)]
        units += [np.where(part, paired, crossed)]
    units += [paired, crossed, LANES // 2, LANES // 4 * 2 + LANES % 2, LANES // 2 * 3]
    units += [np.where(LANES == 31, 200, LANES // 2), np.where(LANES == 0, 200, LANES // 2)]
    top = ACCESS_BYTES // width
    units += [rng.permutation(32), rng.permutation(64)[:32]]
    units += [rng.integers(0, span, 32) for span in (8, 32, 64, 256, min(1024, top), top) for _ in range(2)]
    found = [u * width for u in units]
    for mask in MASKS.values():
        some = (LANES, LANES * 2, LANES // 2, LANES * per_row, crossed, rng.integers(0, 64, 32))
        found += [np.where(mask, u * width, -1) for u in some]
    for share in (0.1, 0.3, 0.6, 0.9):
        found += [np.where(rng.random(32) < share, rng.integers(0, 128, 32) * width, -1) for _ in range(3)]
    kept = {tuple(offsets.tolist()): offsets for offsets in found if offsets.max() < ACCESS_BYTES}
    return list(kept.values())


# ---- the table ----


def modelled(problem: AccessProblem) -> int:
    """The model's figure for the access: wavefronts, or sectors for an access of global memory."""
    addresses = [None if offset < 0 else offset for offset in problem.offsets]
    if problem.kind.space == "global":
        return model.global_sectors(addresses, problem.width).sectors
    return model.shared_wavefronts(addresses, problem.width, problem.kind.event, problem.matrices).wavefronts


def measure(problems: list[AccessProblem], metric_of: Mapping[str, str] = METRICS) -> pd.DataFrame:
    """A table of op, width, matrices, offsets, measured and modelled, one row per access. metric_of: op -> its
    counter. Needs a GPU and ncu. Raises as counters.profile does."""
    kernel = next(iter(catalog.current().of_problem(AccessProblem).values()))
    names = {metric: metric for metric in (metric_of[problem.op] for problem in problems)}
    counted = counters.profile([Request(kernel, problem, backend="gpu") for problem in problems], names)
    rows = [
        (p.op, p.width, p.matrices, write_offsets(p.offsets), int(row[metric_of[p.op]]), modelled(p))
        for p, row in zip(problems, counted.to_dict("records"))
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _cases(device: object, _: object) -> Cases:
    each = [
        Case(kind.name, [(kind.name,)], lambda _, k=kind: rows_of(measure(list(cases_of_kind(k)))))
        for kind in LAB_KINDS
    ]
    return each, {"profiler": "Nsight Compute", "metrics": METRICS}


TABLE = RecordedTable(KIND, by("op"), _cases, COLUMNS, present=lambda table, where: table, same=())
recorded = TABLE.recorded


def write_offsets(offsets: Iterable[int]) -> str:
    """Offsets as the table holds them, - for an inactive lane."""
    return " ".join("-" if o < 0 else str(o) for o in offsets)

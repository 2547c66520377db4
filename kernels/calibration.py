"""The model of kernels/memory.py against Nsight Compute, access by access: the cases, the command, and the committed table."""

import numpy as np
import pandas as pd

from kernels import catalog, counters, memory, tables
from kernels.execute import Request
from kernels.lab import ACCESS_BYTES, AccessProblem

PATH = tables.FOLDER / "calibration.csv"
LANES = np.arange(32)
METRICS = {"shared_load": counters.METRICS["wavefronts_load"], "shared_store": counters.METRICS["wavefronts_store"],
           "ldmatrix": counters.METRICS["wavefronts_load"], "global_load": counters.METRICS["sectors_load"],
           "global_store": counters.METRICS["sectors_store"],
           **{op: f"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts_cache_{how}.sum" for op, how in
              (("cp_async", "access"), ("cp_async_l2", "bypass"))}}
MASKS = {"all": LANES >= 0, "even": LANES % 2 == 0, "odd": LANES % 2 == 1, "lower half": LANES < 16, "upper half": LANES >= 16,
         "quarters 0 and 3": (LANES < 8) | (LANES >= 24), "second quarter": (LANES >= 8) & (LANES < 16), "one lane": LANES == 13,
         "pairs": LANES % 4 < 2, "every fourth": LANES % 4 == 0}


def cases():
    """AccessProblems over every op and width: strides, padding, broadcasts, permutations, pairs that may merge, random words, masks."""
    found = []
    for op in ("shared_load", "shared_store", "global_load", "global_store", "cp_async", "cp_async_l2"):
        for width in {"cp_async": (4, 8, 16), "cp_async_l2": (16,)}.get(op, memory.WIDTHS):
            patterns = _patterns(width, op.startswith("global"))
            patterns = _mixed_pairs(width) + patterns if op == "shared_load" else patterns[::2] if op.startswith("cp_async") else patterns
            found += [AccessProblem(op, width, offsets=tuple(int(o) for o in offsets)) for offsets in patterns]
    rng = np.random.default_rng(7)
    for matrices in (1, 2, 4):
        rows = [LANES * stride for stride in (16, 32, 48, 64, 80, 112, 128, 144, 160, 256, 272, 528)]
        rows += [LANES % 8 * 128 + LANES // 8 * 16, LANES % 8 * 144 + LANES // 8 * 16, LANES * 0 + 32, LANES // 2 * 128, LANES // 8 * 128, LANES % 4 * 128]
        rows += [LANES * 128 + ((LANES % 8) ^ k) * 16 for k in range(0, 8, 3)]
        rows += [rng.integers(0, span, 32) * 16 for span in (8, 16, 64, 2048) for _ in range(2)]
        found += [AccessProblem("ldmatrix", 16, matrices, tuple(int(o) for o in row)) for row in rows]
    return found


def _patterns(width, in_global):
    """Byte offsets of 32 lanes, -1 for those that stay out, for an access of that width."""
    rng = np.random.default_rng(width)
    units = [LANES * stride for stride in (1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33)]
    units += [LANES // n for n in (2, 4, 8, 16, 32)] + [LANES % n for n in (2, 4, 8, 16)] + [LANES ^ k for k in (1, 5, 16, 31)] + [31 - LANES]
    if in_global:
        units += [LANES + shift for shift in (1, 2, 3, 5, 7, 8, 31)] + [LANES * 2 + 1, LANES * 32 + LANES]
    per_row = max(1, 128 // width)
    units += [LANES // n * per_row for n in (2, 4, 8, 16)] + [LANES % n * per_row for n in (2, 4, 8, 16)]
    units += [LANES * (per_row + pad) for pad in (0, 1, 2, 4)] + [LANES * per_row + (LANES ^ k) % per_row for k in (0, 3)]
    # pairs that a load may merge: lane n with n^1, or n with n^2, over the whole warp, a half or a quarter
    paired, crossed = LANES // 2 * per_row, (LANES // 4 * 2 + LANES % 2) * per_row
    for part in (LANES < 16, LANES >= 16, LANES < 8, LANES % 16 < 8):
        units += [np.where(part, paired, LANES * per_row), np.where(part, crossed, LANES * per_row), np.where(part, paired, crossed)]
    units += [paired, crossed, LANES // 2, LANES // 4 * 2 + LANES % 2, LANES // 2 * 3]
    units += [np.where(LANES == 31, 200, LANES // 2), np.where(LANES == 0, 200, LANES // 2)]
    top = ACCESS_BYTES // width
    units += [rng.permutation(32), rng.permutation(64)[:32], *(rng.integers(0, span, 32) for span in (8, 32, 64, 256, min(1024, top), top) for _ in range(2))]
    found = [u * width for u in units]
    for mask in MASKS.values():
        found += [np.where(mask, u * width, -1) for u in (LANES, LANES * 2, LANES // 2, LANES * per_row, crossed, rng.integers(0, 64, 32))]
    found += [np.where(rng.random(32) < share, rng.integers(0, 128, 32) * width, -1) for share in (0.1, 0.3, 0.6, 0.9) for _ in range(3)]
    kept = {tuple(offsets.tolist()): offsets for offsets in found if offsets.max() < ACCESS_BYTES}
    return list(kept.values())


def _mixed_pairs(width):
    """Side by side, so that merging shows: one half's lanes paired as n^1 and the other's as n^2; a warp of which one lane breaks the pairs."""
    paired, crossed = LANES // 2, LANES // 4 * 2 + LANES % 2
    units = [np.where(part, paired, crossed) for part in (LANES < 16, LANES >= 16, LANES < 8, LANES % 16 < 8)]
    units += [np.where(lane == LANES, 40, way) for way in (paired, crossed) for lane in (3, 16, 30)]
    units += [np.where(LANES == 30, -1, np.where(LANES == 31, 40, paired)), np.where(LANES % 4 == 3, -1, paired), np.where(LANES < 16, paired, -1)]
    return [np.where(u < 0, -1, u * width) for u in units]


def modelled(problem):
    """What kernels/memory.py says of the access: wavefronts, or for an access of global memory sectors."""
    addresses = [None if offset < 0 else offset for offset in problem.offsets]
    if problem.op.startswith("global"):
        return memory.global_sectors(addresses, problem.width).sectors
    op = {"shared_load": "load", "shared_store": "store"}.get(problem.op, problem.op)
    return memory.shared_wavefronts(addresses, problem.width, op, problem.matrices).wavefronts


def measure(problems, metric_of=METRICS):
    """A table of op, width, matrices, offsets, measured and modelled, one row per access. Needs a GPU and ncu."""
    names = {metric: metric for problem in problems for metric in [metric_of[problem.op]]}
    counted = counters.profile([Request(catalog.KERNELS["lab_access"], problem, backend="gpu") for problem in problems], names)
    return pd.DataFrame([(p.op, p.width, p.matrices, write_offsets(p.offsets), int(row[metric_of[p.op]]), modelled(p))
                         for p, row in zip(problems, counted.to_dict("records"))], columns=["op", "width", "matrices", "offsets", "measured", "modelled"])


def update(device, ops=()):
    """Measures every case of these ops (all if none is given), writes the table with the other ops' rows as they were, and returns it."""
    asked = [problem for problem in cases() if not ops or problem.op in ops]
    table = measure(asked)
    if PATH.exists() and ops:
        kept = tables.load(PATH)[0]
        table = pd.concat([kept[~kept.op.isin(ops)], table])
    order = list(METRICS)
    table = table.sort_values("op", key=lambda column: column.map(order.index), kind="stable").reset_index(drop=True)
    tables.save(table, PATH, tables.provenance(device, profiler="Nsight Compute", metrics=METRICS))
    return table


def write_offsets(offsets):
    return " ".join("-" if o < 0 else str(o) for o in offsets)


def read_problem(row):
    """The AccessProblem of a row of the table."""
    return AccessProblem(row.op, int(row.width), int(row.matrices), tuple(-1 if o == "-" else int(o) for o in row.offsets.split()))

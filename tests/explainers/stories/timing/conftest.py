"""What the tests of times share: a sweep over sizes, and a table with sweeps over constants."""

import pandas as pd
import pytest

from explainers.stories.timing import sweeps as found
from explainers.stories.timing.shown import Shown
from kernels.core.tolerance import OutputError
from kernels.measure import bench_rows, sweeps
from kernels.measure.protocol import Timing


@pytest.fixture(scope="module")
def shown(bench_table):
    """The longest sweep next to torch's memory-efficient attention."""
    table, where = bench_table
    return Shown(next(iter(found.of(table).values())), "sdpa_efficient", (), {where.device: where})


@pytest.fixture(scope="module")
def constants(bench_table):
    """Two kernels over the sizes of their tiles and a padding: padded ones take a third of the time."""
    fields = [("BLOCK_Q", [8, 16]), ("BLOCK_KV", [8, 16, 32]), ("PAD_K", [0, 4])]
    made = []
    for point in sweeps.points(["02_tiled", "03_flash"], fields, [("seq_len", 4096)]):
        chosen = dict(point.settings)
        us = (300 if chosen["PAD_K"] == 0 else 100) * (2 if point.name == "02_tiled" else 1) * 16 / chosen["BLOCK_KV"]
        error = OutputError("o", 1e-7, 1e-7, 3e-7)
        made.append(Timing(point, "ok", "", 9, us, 0.9 * us, 1.1 * us, 10, 10**7, error, point.kernel.code_hash))
    where = bench_table[1]
    table = found.prepared(bench_rows.table(bench_rows.row(t, where.roofs) for t in made), where, "recorded")
    before = bench_table[0]
    again = before["name"].isin(table["name"]) & before.problem.isin(table.problem)  # the point with its own constants
    return pd.concat([before[~again], table], ignore_index=True)

"""The picture `shuffles`: the lanes of each row, their values, and the max that the shuffles find, as in the trace."""

import numpy as np
import pytest

from explainers.models import threads, tiling
from explainers.stories.registers import lanes, shuffles
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem
from kernels.measure import pattern_cycles
from kernels.recordings import tables

ROW = 6
SMALL = (("BLOCK_Q", 16), ("BLOCK_KV", 16))


def made_of(run):
    tiles = tiling.explain(run)
    made = lanes.explain(run, tiles, threads.explain(run))
    return tiles, made, shuffles.view(run, tiles, made, ROW)


@pytest.fixture(scope="module")
def shown(cpu_run):
    return made_of(cpu_run("04_warp_rows", DenseProblem(seq_len=64, head_dim=32), SMALL, Scope(0)))


def test_the_largest_score_of_four_lanes_is_the_max_of_the_tile_and_the_weights_add_up(shown):
    _, made, view = shown
    s, p, m, l, thread = (view.columns[name] for name in ("s", "p", "m", "l", "thread"))
    for row in range(16):
        before = -np.inf
        for n, (first, last) in enumerate(made.tiles):
            keys = slice(first, last + 1)
            own = {one: s[row, keys][thread[row, keys] == one].max() for one in set(thread[row, keys].tolist())}
            assert sorted(own) == list(range(4 * row, 4 * row + 4))  # four neighbours of one warp
            before = max(before, *own.values())
            assert before == m[n, row]
            np.testing.assert_allclose(p[row, keys], np.exp(s[row, keys] - m[n, row]), rtol=1e-5)
        assert p[row, slice(*view.meta["tile"])].sum() <= l[0, row]
        first, last = view.meta["tile"]
        assert p[row, first : last + 1].sum() == pytest.approx(l[0, row], rel=1e-5)


def test_the_first_tile_has_a_step_for_each_shuffle_and_the_gain_is_recorded(shown):
    _, _, view = shown
    meta = view.meta
    assert meta["phases"] == [*shuffles.FIRST, "gain", "hand"] and len(meta["frames"]) <= 10
    labels = {phase: one and one["label"] for phase, one in zip(meta["phases"], meta["provenances"])}
    modelled = dict.fromkeys(shuffles.MODELLED, "modelled")
    assert labels == dict.fromkeys(meta["phases"]) | modelled | {"gain": "recorded"}
    assert meta["shared"] == ["Q", "K", "V"]
    assert max(len(frame["sentence"].split()) for frame in meta["frames"]) <= 12
    before = " ".join(frame["sentence"] for frame in meta["frames"][:2])
    assert "shuffle" not in before and "swap" not in before  # the question asks for it at the second step


def test_a_warp_adds_its_numbers_faster_by_shuffles_as_recorded():
    table, _ = pattern_cycles.TABLE.newest()
    rows = table[table.problem.str.startswith("numbers=32 ")]
    found = shuffles.recorded_reductions()
    assert found["cycles"] == [
        rows.cycles[rows.kernel == name].min() for name in shuffles.WORDS.table("kernels").values()
    ]
    assert found["cycles"][0] < found["cycles"][1]


def test_the_gain_splits_the_times_of_two_rungs_into_padding_and_registers():
    table, _ = next(iter(tables.recorded("bench").values()))
    rows = table[(table[list(shuffles.TIMED)] == list(shuffles.TIMED.values())).all(axis=1)]
    own = rows.query("own_settings and causal == False").set_index("name").median_us
    gain = shuffles.recorded_gain()
    before, padded, now = gain["us"]
    assert [before, now] == [own["03_flash"], own["04_warp_rows"]] and before > padded > now
    assert gain["times"] == padded / now and gain["factors"][0] == ""


@pytest.mark.parametrize(
    ("name", "fields"), [("03_flash", {}), ("04_warp_rows", {"causal": True}), ("05_register_tiles", {"seq_len": 50})]
)
def test_other_rows_have_the_picture_of_any_lanes(cpu_run, name, fields):
    constants = SMALL if name != "05_register_tiles" else ()
    _, made, view = made_of(
        cpu_run(name, DenseProblem(**{"seq_len": 64, "head_dim": 32, **fields}), constants, Scope(0))
    )
    assert view is None and made is not None

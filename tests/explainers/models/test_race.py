"""The picture `race`: its rule against the trace of 03_flash, and its times against the recorded table."""

import pytest
from conftest import KERNELS
from hand_rules import applied

from explainers.models import race
from kernels.core.request import Request
from kernels.families.dense.problem import DenseProblem
from kernels.recordings import tables
from kernels.run import execute

HEIGHTS = (8, 16, 32)
TOKENS = (32, 40, 64, 96)
CASES = [(tokens, height, causal) for tokens in TOKENS for height in HEIGHTS for causal in (False, True)]


@pytest.mark.parametrize("height", HEIGHTS)
def test_the_way_that_keeps_a_tile_moves_the_bytes_of_the_trace(height):
    """Each tensor of 03_flash. A causal tile reads all keys up to its last query, in whole tiles of keys."""
    for tokens, _, causal in (case for case in CASES if case[1] == height):
        problem = DenseProblem(seq_len=tokens, head_dim=32, num_heads=2, batch=1, causal=causal)
        settings = (("BLOCK_Q", height), ("BLOCK_KV", height))
        table = execute.traffic(Request(KERNELS["03_flash"], problem, settings)).table
        own = table[table.space == "global"].groupby(["tensor", "kind"]).bytes.sum()
        job = {"batch": 1, "heads": 2, "dim": 32, "bytes": 4}
        (found,) = applied("traffic", [[tokens, height, causal, job]])
        for tensor, kind, moved in found["keep"][0]:
            assert own[tensor, kind] == moved, (tokens, height, causal, tensor)


def test_the_square_is_read_and_written_twice_and_whole_under_a_mask():
    job = {"batch": 4, "heads": 16, "dim": 128, "bytes": 2}
    for (tokens, _, causal), found in zip(CASES, applied("traffic", [[*case, job] for case in CASES]), strict=True):
        moved = [each for stage in found["store"] for each in stage]
        assert [bytes for tensor, _, bytes in moved if tensor in "SP"] == [64 * 2 * tokens * tokens] * 4
        shared = {(t, kind): bytes for t, kind, bytes in moved if t in "QKVO"}
        kept = {(t, kind): bytes for t, kind, bytes in found["keep"][0]}
        assert shared == kept if not causal else all(shared[key] >= kept[key] for key in kept)


def test_the_sentence_has_the_factor_of_the_rule():
    (found,) = applied("traffic", [[race.BEGIN, race.HEIGHT, False, race.JOB]])
    store, keep = (sum(each[2] for stage in found[way] for each in stage) for way in ("store", "keep"))
    assert f"asked for {store / keep:.1f} times fewer bytes" in frame_of("output")["details"]


def test_the_times_are_the_recorded_medians():
    times, where = race.raced()
    made, _ = tables.recorded("bench")[where.device]
    assert len(times) >= 8
    for one in times:
        rows = made[(made.seq_len == one["tokens"]) & (made.causal == one["causal"]) & (made.dtype == "float16")]
        rows = rows[(rows.batch == 4) & (rows.num_heads == 16) & (rows.head_dim == 128)]
        for name, peer in race.PEERS.items():
            assert one[peer] * 1e3 in rows[rows.name == name].median_us.to_numpy()


def test_the_bytes_held_are_those_of_the_recorded_peaks():
    """torch holds a little more: its statistics and what it aligns."""
    times = [one for one in race.raced()[0] if not one["causal"] and one["tokens"] >= race.BEGIN]
    for one, found in zip(times, applied("held", [[one["tokens"], race.JOB] for one in times]), strict=True):
        for peak, way in zip(one["held"], ("store", "keep"), strict=True):
            assert sum(found[way].values()) == pytest.approx(peak, rel=0.1), (one["tokens"], way)


def test_each_sentence_is_short_and_the_factor_is_that_of_the_times():
    course, start = race.view(), race.view(race.SHORT)
    assert max(len(frame["sentence"].split()) for view in (course, start) for frame in view.meta["frames"]) <= 12
    assert course.meta["provenance"]["label"] == "modelled"  # as its picture, and not as the run of its page
    at = next(one for one in course.meta["times"] if one["tokens"] == race.GROWN and not one["causal"])
    assert f"{at['unfused'] / at['flash']:.1f} times faster" in frame_of("times")["sentence"]


def test_the_questions_come_before_the_steps_that_answer_them():
    steps = {question.id: question.step for question in race.questions()}
    assert steps == {"crossings": race.PHASES.index("weights") - 1, "square": race.PHASES.index("grown") - 1}


def test_nearly_all_the_memory_of_attention_as_written_is_both_squares():
    """The stop says so, and the picture draws them in it."""
    job = race.JOB
    grown = [one for one in race.raced()[0] if one["tokens"] == race.GROWN]
    for one in grown:
        squares = 2 * job["batch"] * job["heads"] * job["bytes"] * one["tokens"] ** 2
        assert len(grown) == 2 and 0.95 < squares / one["held"][0] < 1


def frame_of(phase):
    return race.view().meta["frames"][race.PHASES.index(phase)]

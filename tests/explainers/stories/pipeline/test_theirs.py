"""Another profiler's bars under ours: their places, their times, and whose clock it is."""

import profiler_files as files
import pytest

from app.stories import pipeline as choices
from explainers.stories.pipeline import marks, theirs
from explainers.stories.pipeline import story as shown
from kernels.errors import TraceError
from kernels.measure.elsewhere import packed


def block(number=0, data=None):
    trace = packed.unpack(packed.opened("trace", data or files.iket(), "mine.json"))
    return packed.block(trace, number)


@pytest.fixture(scope="module")
def story():
    return marks.explain(choices.of("11_overlap")[0].load())


def test_a_block_is_packed_unpacked_and_chosen_by_its_number():
    first, last = block(0), block(7)
    assert (first.groups, first.number, last.number) == (2, 0, 1)
    assert first.name.endswith("block (0, 0, 0), SM 142") and last.name.endswith("block (3, 0, 0), SM 142")
    own = sorted((int(lane[5:]), kind, start, end) for lane, kind, start, end in first.frame().values.tolist())
    assert own == files.times()[0] and first.bars == len(own)
    with pytest.raises(TraceError, match="names no opened file"):
        packed.unpack(b"a bundle")


def test_their_bars_are_under_ours_on_one_axis_with_both_clocks(story):
    made = shown.stage_of([story], block())
    assert [view.id for view in made.views[:2]] == ["pipeline", "theirs"]
    plain = shown.stage_of([story]).views[0].meta.lines[0][0]
    (near,), (whole,) = (view.meta.lines[0] for view in made.views[:2])
    assert near.length == plain.length and near.groups[0].begins == plain.groups[0].begins == near.groups[1].begins
    assert [group.title for group in near.groups] == [
        "11_overlap, block 0: recorded by Warpglass",
        "measured elsewhere: mine.json",
    ]
    assert [group.note for group in near.groups] == [
        "clock: the SM's cycles, fitted to the GPU's timer",
        "clock: the GPU's timer, in steps of 32 ns",
    ]
    assert f"IKET, {block().name}." in near.note
    assert near.rows[: len(plain.rows)] == plain.rows and [row.name for row in near.rows[-2:]] == ["warp 0", "warp 1"]
    assert "Theirs: the GPU's timer, in steps of 32 ns." in near.note and "Left out: markers (1)." in near.note
    first = len(plain.rows)
    own = [(span.row - first, span.texts[0], span.start, span.end) for span in whole.spans if span.row >= first]
    assert sorted(own) == files.times()[0]
    ours = [span for span in whole.spans if span.row < first]
    assert whole.length == pytest.approx(1.02 * story.bars.end_ns.max()) and len(ours) > len(plain.spans)
    assert made.summary == "Measured elsewhere, by IKET: mine.json has 4 bars in 0.384 µs."


def test_nested_bars_get_parts_of_their_lane_and_waits_are_hatched(story):
    bars = [*files.BARS, (0, 1, "wait_full", 352, 400), *((0, 1, f"deep {n}", 200 + n, 440 - n) for n in range(5))]
    whole = shown.stage_of([story], block(data=files.iket(bars))).views[1].meta.lines[0][0]
    parts = {span.texts[0]: (span.part, span.hatch) for span in whole.spans if "file" in span.datum}
    assert parts["mma"] == (0, False) and parts["deep 0"] == (1, False) and parts["deep 2"] == (3, False)
    assert "deep 4" not in parts and "bars nested too deep." in whole.note
    assert parts["load K"] == parts["load V"] == (0, False)
    flat = shown.stage_of([story], block(data=files.iket([*files.BARS, (0, 1, "wait_full", 448, 480)]))).views[1]
    assert [span.hatch for span in flat.meta.lines[0][0].spans if span.texts == ["wait_full"]] == [True]


def test_many_lanes_and_many_bars_are_left_out_and_said(story):
    bars = [(0, warp, "work", 64 * n, 64 * n + 32) for warp in range(20) for n in range(200)]
    made = block(data=files.iket(bars))
    assert made.bars == 4000 and len(made.frame()) == packed.MOST_SHOWN
    whole = shown.stage_of([story], made).views[1].meta.lines[0][0]
    assert sum("file" in row.datum for row in whole.rows) == theirs.MOST_LANES
    assert "16 of 20 lanes." in whole.note and "3,000 of 4,000 bars." in whole.note

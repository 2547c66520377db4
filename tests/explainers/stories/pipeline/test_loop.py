"""The picture `loop`: its rule against the model of schedule.py and against what a unit can do, and its run."""

import random

import pytest
from hand_rules import applied

from app.stories import pipeline as page
from explainers.stories.pipeline import loop, marks, schedule
from kernels.measure import pipeline_bars
from kernels.recordings import tables

SCHEDULES = ("after", "flight", "turns")
TILES, SETTLED = 24, 10  # the model has 12, and its last ones meet no later one
CASES = 200


def random_times(number):
    """Lengths in whole ns: of a copy, a product and a softmax, and two or three warpgroups."""
    pick = random.Random(number)
    return {
        "copy": pick.choice([0, pick.randrange(3000), pick.randrange(300)]),
        "product": pick.randrange(50, 700),
        "softmax": pick.randrange(2000),
        "groups": pick.choice([2, 2, 3]),
    }


@pytest.fixture(scope="module")
def cases():
    """(name, times, result) of each schedule of random lengths."""
    asked = [[name, random_times(number)] for number in range(CASES) for name in SCHEDULES]
    return [(*ask, found) for ask, found in zip(asked, applied("loop", asked), strict=True)]


def test_without_copies_the_bars_are_those_of_the_model():
    asked = [[name, {**random_times(n), "copy": 0}] for n in range(CASES) for name in ("flight", "turns")]
    for (name, times), found in zip(asked, applied("loop", asked), strict=True):
        model = schedule.Model(times["groups"], times["product"], times["softmax"])
        due = model.without_turns() if name == "flight" else model.in_turns()
        due_bars = {
            (bar.row, {"softmax": "P"}.get(bar.kind, bar.kind), bar.tile, bar.start, bar.end)
            for bar in due
            if bar.row < times["groups"] and bar.tile < SETTLED
        }
        bars = {
            (bar["group"], bar["part"], bar["tile"], bar["start"], bar["end"])
            for bar in found["bars"]
            if bar["group"] >= 0 and bar["tile"] < SETTLED
        }
        assert bars == due_bars, (name, times)


def test_a_unit_does_one_thing_at_a_time_and_a_piece_waits_for_what_it_needs(cases):
    for name, times, found in cases:
        at = {(bar["part"], bar["tile"], bar["group"]): bar for bar in found["bars"]}
        groups = range(times["groups"])
        assert len(at) == TILES * (2 + 3 * times["groups"]), (name, times)
        copies = sorted((bar for bar in found["bars"] if bar["unit"] == "copy"), key=lambda bar: bar["start"])
        assert all(one["end"] <= other["start"] for one, other in zip(copies, copies[1:]))
        for group in groups:
            own = [at[part, tile, group] for tile in range(TILES) for part in "SPO"]
            assert all(one["end"] <= other["start"] for one, other in zip(own, own[1:]))
            for tile in range(TILES):
                assert at["K", tile, -1]["end"] <= at["S", tile, group]["start"]
                assert at["V", tile, -1]["end"] <= at["O", tile, group]["start"]
                if tile >= 2:  # two places in shared memory
                    assert at["S", tile - 2, group]["end"] <= at["K", tile, -1]["start"]
                    assert at["O", tile - 2, group]["end"] <= at["V", tile, -1]["start"]
        if name == "turns":
            products = sorted((bar for bar in found["bars"] if bar["unit"] == "tensor"), key=lambda bar: bar["start"])
            assert all(one["end"] <= other["start"] for one, other in zip(products, products[1:]))


def test_two_warpgroups_take_as_long_as_their_longest_part(cases):
    """A copy that is longer than all else still fills its two places at the start, so its period is a little less."""
    for name, times, found in cases:
        copy, product, softmax, groups = times.values()
        if groups > 2:
            continue
        apart, turns = 4 * product + softmax, max(4 * product, 2 * product + softmax)
        due = {"after": copy + apart, "flight": max(copy, apart), "turns": max(copy, turns)}[name]
        assert found["period"] == pytest.approx(due, rel=0.03), (name, times)
        assert found["share"] == pytest.approx(min(1, 4 * product / found["period"]))


def test_no_schedule_is_slower_than_the_one_before(cases):
    for n in range(0, len(cases), len(SCHEDULES)):
        after, flight, turns = (found["period"] for _, _, found in cases[n : n + 3])
        assert turns <= flight * 1.03 and flight <= after * (1 + 1e-9), cases[n][1]


@pytest.fixture(scope="module")
def story():
    return marks.explain(page.of("11_overlap")[0].load())


def test_the_picture_has_the_pieces_of_the_run(story):
    (view,) = loop.views(story)
    model = schedule.model_of(story)
    assert (view.meta["product"], view.meta["softmax"], view.meta["groups"]) == (
        round(model.product),
        round(model.softmax),
        2,
    )
    assert view.meta["share"] == pipeline_bars.multiplying(story.made, story.block)
    table, _ = tables.recorded("hierarchy")["NVIDIA H200"]
    rate = table[(table.space == "from_l2") & (table.kind == "bandwidth")].gb_per_s.max() / 132
    assert view.meta["copy"] - 2 * 128 * 128 * 2 / rate == pytest.approx(146, abs=4)  # and the wait of a load
    assert view.meta["cycle"] == [2048, 16]
    longer = [bar["spent"] > 1.1 * view.meta["softmax"] for bar in view.meta["run"] if bar["part"] == "P"]
    assert any(longer) and not all(longer)  # the picture has this part in another colour
    labels = [of and of["label"] for of in view.meta["provenances"]]
    assert dict(zip(loop.PHASES, labels)) == {p: None if p == "run" else "modelled" for p in loop.PHASES}
    softmax = story.bars[(story.bars.writer == 2) & (story.bars.event == "softmax")]
    shown = [bar for bar in view.meta["run"] if bar["group"] == 1 and bar["part"] == "P"]
    shift = story.steps[loop.FIRST]["span"][0]
    lengths = {(round(a - shift, 3), round(b - shift, 3)) for a, b in zip(softmax.start_ns, softmax.end_ns)}
    assert len(shown) > 3 and {(round(bar["start"], 3), round(bar["end"], 3)) for bar in shown} <= lengths


def test_a_product_of_the_run_has_the_tensor_cores_for_itself_while_its_marks_say_that_it_runs(story):
    (view,) = loop.views(story)
    product = schedule.model_of(story).product
    shift = story.steps[loop.FIRST]["span"][0]
    flying = story.flight[story.flight.event.isin(["scores", "output"])]
    spans = [
        ({"scores": "S", "output": "O"}[bar.event], bar.tile, bar.writer - 1, bar.start_ns - shift, bar.end_ns - shift)
        for bar in flying.itertuples()
    ]
    products = [bar for bar in view.meta["run"] if bar["unit"] == "tensor"]
    assert len(products) > 4 * loop.MOST - 4
    for bar in products:
        who = (bar["part"], bar["tile"], bar["group"])  # a block has several query tiles
        own = [(a, b) for *of, a, b in spans if tuple(of) == who and a <= bar["start"] and bar["end"] <= b + 1e-6]
        ((start, end),) = own
        assert bar["spent"] == pytest.approx(end - start)
        assert bar["end"] - bar["start"] == pytest.approx(product)
        if bar["part"] == "S":
            assert bar["end"] == pytest.approx(end)  # its warpgroup waits for it
    every = sorted(loop.placed(story, product).from_ns)
    assert len(every) == len(flying)
    assert all(after - before >= product - 1e-6 for before, after in zip(every, every[1:]))
    made = story.made
    mine = made.blocks.loc[(made.launch, story.block)]
    last = 2  # of each warpgroup, the scores that nothing reads
    assert (len(every) + last) * product / (mine.end_ns - mine.start_ns) == pytest.approx(view.meta["share"])


def test_each_step_lights_the_lines_of_its_pieces(story):
    (view,) = loop.views(story)
    lit = {phase: set(frame["lines"]) for phase, frame in zip(loop.PHASES, view.meta["frames"])}
    places = story.bars.groupby("event").place.unique()
    assert lit["flight"] == set(places["prefetch_tile"]) and lit["flight"] < lit["pieces"] == lit["hand"]
    turns = ("producer", "consumer", "scores", "softmax", "output")
    assert lit["turns"] == {place for event in turns for place in places[event]}


def test_its_sentences_are_headlines_and_its_questions_have_reasons(story):
    (view,) = loop.views(story)
    assert len(view.meta["frames"]) == len(loop.PHASES) <= 14
    assert max(len(frame["sentence"].split()) for frame in view.meta["frames"]) <= 12
    assert max(len(text.split()) for text in view.meta["words"].values()) <= 14
    for question in loop.questions():
        assert question.view == "loop" and question.step < question.shows["to"] < len(loop.PHASES)
        assert [reason == "" for reason in question.reasons] == [n == question.answer for n in range(4)]


def test_a_kernel_without_warpgroups_has_no_such_picture():
    assert loop.views(marks.explain(page.of("08_pipeline")[0].load())) == []

"""Patterns: the steps of each way, and their figures, computed again without the story."""

from functools import lru_cache

import numpy as np
import pytest

from explainers.stories.patterns import story
from explainers.stories.patterns.moves import COMING, READ
from explainers.story import stage
from kernels import catalog
from kernels.core.request import Request
from kernels.measure import pattern_cycles
from kernels.run import execute


class Runner:
    run = staticmethod(lru_cache(execute.run))  # several tests here ask for the same runs

    def provenance(self, run):
        return stage.provenance(run)


def look_of(name, **fields):
    kernel = catalog.find(name)
    kernels = catalog.current().of_problem(kernel.problem_type).values()
    problem = kernel.problem_type(**fields)
    ways = [(said, Request(k, problem, s, backend="cpu")) for k in kernels for said, s in pattern_cycles.ways(k)]
    return story.Look(next(request for _, request in ways if request.kernel.name == name), tuple(ways))


@pytest.fixture(scope="module")
def found():
    """The data of each pattern."""
    names = ("lab_reduce_tree", "lab_tiles_load", "lab_tiles_stages")
    return {name: story.data_of(look_of(name), Runner())[0] for name in names}


def way_of(data, name):
    return next(way for way in data["ways"] if way["name"] == name)


def steps_of(data, name):
    return way_of(data, name)["rows"]


def test_a_tree_halves_its_threads_and_the_place_of_its_words_sets_the_wavefronts(found):
    halves, data = [2**n for n in range(7, -1, -1)], found["lab_reduce_tree"]
    for name in ("Tree, divergent", "Tree, not divergent", "Tree, no conflicts"):
        assert way_of(data, name)["working"] == halves
    for number, step in enumerate(steps_of(data, "Tree, no conflicts")):
        assert step["wavefronts"] == 3 * max(1, halves[number] // 32)  # two reads and a write of each warp at work
        assert step["threads"] == ("1" * halves[number]).ljust(256, "0")


def test_every_number_of_a_tree_is_read_once_as_the_other_one(found):
    for name in ("Tree, divergent", "Tree, not divergent", "Tree, no conflicts"):
        steps = steps_of(found["lab_reduce_tree"], name)
        read = np.sum([[c == READ for c in step["places"]] for step in steps], axis=0)
        assert read.tolist() == [0] + [1] * 255


def test_a_step_says_why_it_needs_its_wavefronts(found):
    data = found["lab_reduce_tree"]
    said = [frame["sentence"] for frame in story.WORDS.frames(way_of(data, "Tree, not divergent")["rows"], data)]
    assert "Words of an access share a bank, so it takes 2 wavefronts, one after another." in said[0]
    assert "1 of 256 threads adds. No two words share a bank, so an access takes one wavefront. The sum" in said[7]
    chains = [way_of(data, f"Tree, {name}")["longest"] for name in ("divergent", "not divergent")]
    assert chains == [8 * 3, 3 * (2 + 4 + 8 + 8 + 8 + 4 + 2 + 1)]
    (ones,) = story.WORDS.frames(way_of(data, "Sum by tensor cores")["rows"][:1], data)
    assert "share" not in ones["sentence"]  # four words of each lane are no conflict


def test_another_way_than_the_chosen_one_shows_its_first_addition(found):
    data = found["lab_reduce_tree"]
    shown = {way["name"]: [s["n"] for s in data["steps"] if s["way"] is way] for way in data["ways"]}
    assert shown.pop("Tree, divergent") == [*range(8)] and set(map(tuple, shown.values())) == {(0,)}
    assert len(data["steps"]) == 8 + len(shown) <= 20


def test_the_table_counts_what_each_way_waits_for(found):
    data = found["lab_reduce_tree"]
    figures = {way["name"]: [*story.counts_of(way, data).values()] for way in data["ways"]}
    assert figures["Tree, divergent"] == ["24", "0", "8", "0"]
    assert figures["Shuffles, two levels"] == ["4", "10", "1", "0"]  # two reads and two writes
    assert figures["Shuffles, one warp"][1:] == ["5", "0", "0"]
    assert figures["Shuffles, then atomics"] == ["1", "5", "1", "8"]
    assert [story.count_said("wavefront in turn", n) for n in ("1", "24")] == [
        "1 wavefront in turn",
        "24 wavefronts in turn",
    ]


def test_the_first_addition_of_a_step_has_its_numbers(found):
    x = np.ravel(look_of("lab_reduce_tree").request.problem.inputs()["x"])
    first, second = steps_of(found["lab_reduce_tree"], "Tree, divergent")[:2]
    minus = str.maketrans("-", "\u2212")
    assert first["sum"].endswith(f"= {x[0] + x[1]:g}".translate(minus))
    assert second["sum"].endswith(f"= {x[:4].sum():g}".translate(minus))


def test_shuffles_need_one_barrier_and_atomics_no_further_step(found):
    shown = {way["name"]: (way["last"] + 1, way["barriers"]) for way in found["lab_reduce_tree"]["ways"]}
    assert shown["Shuffles, two levels"] == (10, 1) and shown["Shuffles, one level"] == (13, 1)
    assert shown["Atomics, every thread"] == (1, 1) and shown["Sum by tensor cores"] == (4, 0)


def test_wider_loads_move_the_same_sectors_with_fewer_requests(found):
    shown = [(way["requests"], way["sectors"]) for way in found["lab_tiles_load"]["ways"]]
    bytes_read = 4 * 4 * 1024  # tiles of floats
    assert {sectors for _, sectors in shown} == {bytes_read // 32}
    assert [requests for requests, _ in shown] == [bytes_read // 128, bytes_read // 512, 4]


def test_one_stage_never_adds_during_a_copy_and_two_stages_always_but_at_the_end(found):
    data = found["lab_tiles_stages"]
    alone = {way["name"]: way["alone"] for way in data["ways"]}
    assert alone == {"No double buffer": 4, "Two stages": 1, "Three stages": 1}
    assert max(step["places"].count(COMING) for step in steps_of(data, "Three stages")) == 3 * 32


def test_the_page_shows_the_figures_of_the_run(found):
    for name in ("lab_reduce_tree", "lab_tiles_load", "lab_tiles_stages"):
        made = story.STORY.stage(look_of(name), Runner())
        meta = made.views[0].meta
        assert meta.note.startswith("Cycles: recorded on ")
        assert all(len(part.split()) <= 25 for frame in made.frames for part in frame["sentence"].split(". "))
        files = {file["name"]: len(file["lines"]) for file in made.codes[0].files}
        lit = [place.rsplit(":", 1) for frame in made.frames for place in frame["lines"]]
        assert all(frame["lines"] for frame in made.frames)
        assert all(int(line) <= files.get(name, 0) for name, line in lit)
        bars = meta.lines[-1][0].bars
        assert [step for bar in bars for step in bar.now] == [*range(len(made.frames))]
        cycles = [pattern_cycles.cycles(way["request"]) for way in found[name]["ways"]]
        assert [bar.value for bar in bars] == [one.cycles for one in cycles]


@pytest.mark.parametrize("numbers", [32, 64])
def test_one_warp_with_fewer_numbers_than_its_reads_has_idle_lanes(numbers):
    data, _ = story.data_of(look_of("lab_reduce_warp", numbers=numbers), Runner())
    way = next(way for way in data["ways"] if way["chosen"])
    assert way["working"] == [numbers // 4, *[32] * 5]


def test_the_note_says_where_recorded_traces_come_from(found):
    data = found["lab_tiles_stages"] | {"gpus": ["H200"], "here": ["Here"]}
    assert "Counts: from traces on H200, of “Here” from a run on this machine." in story.WORDS.say("note", data)
    assert story.WORDS.say("note", data | {"here": []}).endswith("traces on H200.")

"""Patterns: the steps of each way, and their figures, computed again without the story."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from explainers.stories.patterns import sentences, story
from explainers.stories.patterns.frames import COMING, READ
from explainers.stories.patterns.moves import Walk
from explainers.stories.patterns.shown import Shown, counts_of
from explainers.story import stage
from kernels import catalog
from kernels.core.request import Request
from kernels.measure import pattern_cycles
from kernels.run import execute


class Runner:
    run = staticmethod(lru_cache(execute.run))  # several tests here ask for the same runs

    def provenance(self, run):
        return stage.provenance(run)


def look_of(name):
    kernel = catalog.find(name)
    kernels = catalog.current().of_problem(kernel.problem_type).values()
    problem = kernel.problem_type()
    ways = [(said, Request(k, problem, s, backend="cpu")) for k in kernels for said, s in pattern_cycles.ways(k)]
    return story.Look(next(request for _, request in ways if request.kernel.name == name), tuple(ways))


@pytest.fixture(scope="module")
def walks():
    names = ("lab_reduce_tree", "lab_tiles_load", "lab_tiles_stages")
    return {name: {way.name: way.walk for way in story.shown_of(look_of(name), Runner())[0]} for name in names}


def test_a_tree_halves_its_threads_and_the_place_of_its_words_sets_the_wavefronts(walks):
    halves = [2**n for n in range(7, -1, -1)]
    for name in ("Tree, divergent", "Tree, not divergent", "Tree, no conflicts"):
        assert [move["working"] for move in walks["lab_reduce_tree"][name].moves] == halves
    for number, move in enumerate(walks["lab_reduce_tree"]["Tree, no conflicts"].moves):
        assert move["wavefronts"] == 3 * max(1, halves[number] // 32)  # two reads and a write of each warp at work
        assert move["threads"] == ("1" * halves[number]).ljust(256, "0")


def test_every_number_of_a_tree_is_read_once_as_the_other_one(walks):
    for name in ("Tree, divergent", "Tree, not divergent", "Tree, no conflicts"):
        read = np.sum([[c == READ for c in m["places"]] for m in walks["lab_reduce_tree"][name].moves], axis=0)
        assert read.tolist() == [0] + [1] * 255


def test_a_step_says_why_it_needs_its_wavefronts(walks):
    way = Shown("Tree", None, walks["lab_reduce_tree"]["Tree, not divergent"], None, "")
    said = [sentences.sentence(way, n) for n in (0, 7)]
    assert said[0].endswith("Words of an access share a bank, so it takes 2 wavefronts, one after another.")
    assert "1 of 256 threads adds. No two words share a bank, so an access takes one wavefront. The sum" in said[1]
    chains = [walks["lab_reduce_tree"][f"Tree, {name}"].longest for name in ("divergent", "not divergent")]
    assert chains == [8 * 3, 3 * (2 + 4 + 8 + 8 + 8 + 4 + 2 + 1)]
    ones = Shown("Ones", None, walks["lab_reduce_tree"]["Sum by tensor cores"], None, "")
    assert "share" not in sentences.sentence(ones, 0)  # four words of each lane are no conflict


def test_the_table_counts_what_each_way_waits_for(walks):
    found = walks["lab_reduce_tree"]
    shown = [Shown(name, None, walk, None, "") for name, walk in found.items()]
    figures = {way.name: [figure for figure, _, _ in counts_of(way, shown)] for way in shown}
    assert figures["Tree, divergent"] == ["24", "0", "8", "0"]
    assert figures["Shuffles, two levels"] == ["4", "10", "1", "0"]  # two reads and two writes
    assert figures["Shuffles, one warp"][1:] == ["5", "0", "0"]
    assert figures["Shuffles, then atomics"] == ["1", "5", "1", "8"]


def test_the_first_addition_of_a_step_has_its_numbers(walks):
    x = np.ravel(look_of("lab_reduce_tree").request.problem.inputs()["x"])
    first, second = walks["lab_reduce_tree"]["Tree, divergent"].moves[:2]
    minus = str.maketrans("-", "\u2212")
    assert first["said"].endswith(f"= {x[0] + x[1]:g}".translate(minus))
    assert second["said"].endswith(f"= {x[:4].sum():g}".translate(minus))


def test_shuffles_need_one_barrier_and_atomics_no_further_step(walks):
    found = {name: (len(walk.moves), walk.barriers) for name, walk in walks["lab_reduce_tree"].items()}
    assert found["Shuffles, two levels"] == (10, 1) and found["Shuffles, one level"] == (13, 1)
    assert found["Atomics, every thread"] == (1, 1) and found["Sum by tensor cores"] == (4, 0)


def test_wider_loads_move_the_same_sectors_with_fewer_requests(walks):
    found = {name: (walk.requests, walk.sectors) for name, walk in walks["lab_tiles_load"].items()}
    bytes_read = 4 * 4 * 1024  # tiles of floats
    assert {sectors for _, sectors in found.values()} == {bytes_read // 32}
    assert [requests for requests, _ in found.values()] == [bytes_read // 128, bytes_read // 512, 4]


def test_one_stage_never_adds_during_a_copy_and_two_stages_always_but_at_the_end(walks):
    found = walks["lab_tiles_stages"]
    assert {name: walk.alone for name, walk in found.items()} == {
        "No double buffer": 4,
        "Two stages": 1,
        "Three stages": 1,
    }
    assert max(move["places"].count(COMING) for move in found["Three stages"].moves) == 3 * 32


def test_the_page_asks_with_the_figures_of_the_run():
    for name in ("lab_reduce_tree", "lab_tiles_load", "lab_tiles_stages"):
        made = story.STORY.stage(look_of(name), Runner())
        assert len(made.questions) >= 2 and made.views[0].meta["note"].startswith("Cycles: recorded on ")
        assert all(len(part.split()) <= 25 for frame in made.frames for part in frame["sentence"].split(". "))
        files = {file["name"]: len(file["lines"]) for file in made.codes[0].files}
        lit = [place.rsplit(":", 1) for frame in made.frames for place in frame["lines"]]
        assert all(frame["lines"] for frame in made.frames)
        assert all(int(line) <= files.get(name, 0) for name, line in lit)
        ways = made.views[0].meta["ways"]
        assert [(f["way"], f["move"]) for f in made.frames] == [
            (w, n) for w, way in enumerate(ways) for n in range(len(way["moves"]))
        ]
        reasons = {way["why"] for way in made.views[0].meta["ways"]}
        assert len(reasons) > 2 and all(reasons <= set(question.hides) for question in made.questions)


def test_the_note_says_where_recorded_traces_come_from():
    cycles = pattern_cycles.cycles(look_of("lab_tiles_stages").request)
    shown = [
        Shown(name, None, Walk([], 0, 0, 0, 0, 0, stages=1), cycles, traced)
        for name, traced in (("Here", ""), ("Other", "H200, 2026-01-02"))
    ]
    assert "Counts: from traces on H200, of “Here” from a run on this machine." in sentences.note(shown)
    assert sentences.note([replace(shown[1], traced="H200, 2026-01-02")]).endswith("traces on H200.")

"""Cycles of the patterns' ways: which are asked for, and what the recorded table has. Nothing here needs a GPU."""

from dataclasses import replace

import numpy as np
import pytest

from kernels import catalog
from kernels.core.request import Request
from kernels.families.lab.patterns import LINKS, LoadProblem, ReadsProblem, ReduceProblem, ShapesProblem, StagesProblem
from kernels.measure import pattern_cycles
from kernels.recordings import tables


def ways_of(problem):
    kernels = catalog.current().of_problem(type(problem)).values()
    return {name: Request(k, problem, s) for k in kernels for name, s in pattern_cycles.ways(k)}


def test_each_way_has_a_name_and_a_key_of_its_own():
    ways = ways_of(ReduceProblem())
    assert {"Tree, no conflicts", "Shuffles, two levels", "Sum by tensor cores"} < set(ways) and len(ways) == 9
    assert len(pattern_cycles.asked()) == len({*map(pattern_cycles.key_of, pattern_cycles.asked().values())})


def test_the_number_of_passes_and_the_seed_do_not_count():
    way = ways_of(ReduceProblem())["Tree, no conflicts"]
    other = replace(way, problem=replace(way.problem, repeats=3, seed=7))
    assert pattern_cycles.key_of(way) == pattern_cycles.key_of(other)
    assert pattern_cycles.key_of(way) != pattern_cycles.key_of(replace(way, problem=ReduceProblem(512)))


def test_cycles_are_those_of_a_pass_a_tile_or_a_read():
    clocks = np.array([10, 25, 45])
    assert ReduceProblem().cycles(clocks).tolist() == [10, 25, 45]
    assert LoadProblem().cycles(clocks).tolist() == [15, 20]
    assert ReadsProblem().cycles(clocks)[0] == 10 / LINKS
    assert ShapesProblem(reads=5).cycles(clocks)[0] == 2


def test_each_way_of_a_listed_pattern_says_why():
    for problem in (ReduceProblem(), LoadProblem(), StagesProblem()):
        said = [pattern_cycles.why(way.kernel, way.settings) for way in ways_of(problem).values()]
        assert all(said) and len({*said}) == len(said)
        assert all(pattern_cycles.waits(way.kernel, way.settings) for way in ways_of(problem).values())


def test_the_recorded_figures_are_medians_of_their_launches_of_the_present_code():
    if not (recorded := tables.recorded(pattern_cycles.PATTERNS)):
        pytest.skip("No cycles of patterns are recorded. Run python -m kernels measure patterns on a GPU.")
    assert pattern_cycles.missing() == []
    for table, where in recorded.values():
        medians = [np.array(row.split(), float) for row in table.medians]
        assert where.more["runs"] == pattern_cycles.LAUNCHES == len(medians[0])
        assert np.allclose(table.cycles, [np.median(row) for row in medians], atol=0.01)
    found = pattern_cycles.cycles(replace(ways_of(ReduceProblem())["Tree, no conflicts"], backend="cpu"))
    assert found and found.per_us and found.label == "recorded" and found.least <= found.cycles <= found.most
    assert pattern_cycles.cycles(replace(ways_of(ReduceProblem(32))["Tree, no conflicts"], backend="recorded"))

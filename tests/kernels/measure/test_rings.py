"""The table of rings goes on after a break, and keeps the rows of its peers."""

from dataclasses import replace

import pytest

from kernels.catalog import current
from kernels.families.ring.problem import RingProblem
from kernels.measure import ring_peers, rings
from kernels.recordings import tables
from kernels.run.backends import Device, gpus

GPU = Device("gpu", "Small GPU", "sm_90a", 232448, "580", 132)


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """The problems that were measured, of three in all, without a GPU. The problem in `measured.breaks` interrupts."""

    class Measured(list):
        breaks = None

    done = Measured()

    def ways(problem, _):
        if problem == done.breaks:
            raise KeyboardInterrupt
        done.append(problem)
        kernel = next(iter(current().of_problem(RingProblem).values()))
        row = rings._row(problem, status="ok", name=kernel.name, code_hash=kernel.code_hash)
        text = rings.problem_text(problem)
        heads = rings._row(replace(problem, order="plain"), status="ok", way=rings.SPLIT)
        ways = row | {"way": rings.RING, "problem": text}, row | {"way": rings.ONE}, heads
        return [way | {"turns": text} for way in ways]

    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    monkeypatch.setattr(gpus, "count", lambda: 2)
    monkeypatch.setattr(rings, "_link", lambda: {"one_way": 1.0})
    monkeypatch.setattr(rings, "problems", lambda count, of=rings.problems: of(count)[:3])
    monkeypatch.setattr(rings, "_measured", ways)
    monkeypatch.setattr(ring_peers, "times", lambda problem: [{"way": "torch over NCCL", "name": "a", "status": "ok"}])
    return done


def test_an_interrupted_second_recording_keeps_every_case_and_the_next_goes_on(measured):
    problems = rings.problems(2)
    measured.breaks = problems[2]
    with pytest.raises(KeyboardInterrupt):
        rings.record(GPU)
    whole, where = rings.recorded()
    assert measured == problems[:2] and len(whole) == 2 + 6
    with pytest.raises(KeyboardInterrupt):
        rings.record(GPU)
    assert measured == problems[:2] and rings.recorded()[0].equals(whole)
    measured.breaks = None
    (path,) = rings.record(GPU)
    assert measured == problems and path == tables.path_of("rings", "2 x Small GPU")
    whole, where = rings.recorded()
    assert [list(ways.way) for ways in rings.in_turns(whole)] == [[rings.RING, rings.ONE, rings.SPLIT]] * 3
    assert list(whole.way[:2]) == ["torch over NCCL"] * 2 and where.more["link"] == {"one_way": 1.0}
    rings.record(GPU)
    assert len(measured) == 3
    rings.record(GPU, anew=True)
    assert len(measured) == 6

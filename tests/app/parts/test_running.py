"""What a worker and the web process hold of runs and answers is bounded."""

from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest

from app.parts import running
from app.web import asking
from kernels.run import execute
from kernels.run.backends import Device, Survey


@pytest.fixture
def made(monkeypatch):
    """How often a run of each size was made; running.run makes them of that many bytes."""
    asked = []

    def run(size):
        asked.append(size)
        return SimpleNamespace(trace=SimpleNamespace(table=np.zeros(size, np.uint8)), arrays={})

    monkeypatch.setattr(execute, "run", run)
    monkeypatch.setattr(running, "_runs", OrderedDict())
    return asked


def test_a_run_is_made_once_while_it_is_kept(made):
    assert running.run(10) is running.run(10) and made == [10]


def test_small_runs_are_bounded_by_their_number_and_large_ones_by_their_bytes(made):
    for size in range(2 * running.MOST):
        running.run(size)
    assert list(running._runs) == list(range(running.MOST, 2 * running.MOST))
    for number in range(running.LEAST + 2):
        running.run(running.KEPT_BYTES + number)
    assert list(running._runs) == [running.KEPT_BYTES + number for number in range(2, running.LEAST + 2)]


def test_an_answer_belongs_to_the_devices_that_were_found_and_not_to_the_id_of_an_object(monkeypatch):
    """The memory of a survey that is gone may be that of the next."""
    found = []
    monkeypatch.setattr(asking, "ask", lambda story, params, survey, *rest: found.append(survey) or survey)
    asking.ask_once.cache_clear()
    story = SimpleNamespace(path="it")

    def asked(name):
        return asking.ask_once(story, {}, Survey({"cpu": Device("cpu", name, "cpu", 1)}, {}), None, False, "")

    for _ in range(3):
        assert asked("one").devices["cpu"].name == "one"
    assert asked("other").devices["cpu"].name == "other" and len(found) == 2
    asking.ask_once.cache_clear()

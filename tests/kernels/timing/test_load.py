"""A chip at work: runs without a pause, with clock and power meanwhile, on a GPU of numbers."""

import sys
import time
from types import SimpleNamespace

import pytest

from kernels.timing import clock, load


@pytest.fixture
def device(monkeypatch):
    """A GPU whose queue is a list: each run takes `us`, and an event is done when as much real time has passed."""
    made = SimpleNamespace(us=2000.0, at=0.0, readings=[], runs=0)

    def run():
        made.at = max(made.at, time.perf_counter()) + made.us / 1e6
        made.runs += 1

    class Event:
        def record(self):
            self.at = max(made.at, time.perf_counter())

        done = property(lambda self: time.perf_counter() >= self.at)

        def synchronize(self):
            time.sleep(max(0.0, self.at - time.perf_counter()))

    def reading():
        made.readings.append(time.perf_counter() < made.at)
        return len(made.readings), 600

    runtime = SimpleNamespace(deviceSynchronize=lambda: time.sleep(max(0.0, made.at - time.perf_counter())))
    elapsed = lambda start, end: 1000 * (end.at - start.at)  # noqa: E731
    cuda = SimpleNamespace(Event=Event, runtime=runtime, get_elapsed_time=elapsed)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(clock, "under_load", reading)
    made.run = run
    return made


def test_clock_and_power_are_read_before_the_last_run_ends(device, monkeypatch):
    monkeypatch.setattr(load, "SECONDS", 0.04)
    monkeypatch.setattr(load, "LEAD", 0.01)
    made = load.sustained([device.run], lambda: None, device.us)
    assert made.p10_us <= made.median_us <= made.p90_us and made.median_us == pytest.approx(2000, rel=0.2)
    assert device.readings[made.clock - 1] and made.power == 600  # the kept reading is of a GPU at work
    assert device.runs >= 5 + 20


def test_a_run_shorter_than_its_launch_is_timed_in_batches(device, monkeypatch):
    monkeypatch.setattr(load, "SECONDS", 0.01)
    monkeypatch.setattr(load, "LEAD", 0.0)
    batches = []

    def time_runs(enqueuers, runs, before):
        batches.append(runs)
        return [5.0] * runs

    monkeypatch.setattr(clock, "time_runs", time_runs)
    monkeypatch.setattr(clock, "EVENTS_SECONDS", 1.0)  # Python is the slower one
    made = load.sustained([device.run], lambda: None, 5.0)
    assert made.median_us == 5.0 and set(batches) == {clock.QUEUED} and made.power == 600


def test_all_take_turns_and_each_has_its_own_clock_and_power(device, monkeypatch):
    monkeypatch.setattr(clock, "time_runs", lambda functions, runs: [2000.0] * runs)
    order = []

    def runs_of(name):
        return [lambda: (order.append(name), device.run())]

    times, states = load.in_turns([runs_of("a"), runs_of("b")], 0.01, 3, lead=0.004)
    assert times.shape == (2, 3) and times == pytest.approx(2000, rel=0.3)
    turns = [name for n, name in enumerate(order) if n == 0 or order[n - 1] != name]
    assert turns == ["a", "b"] * 3 and [len(mine) for mine in states] == [3, 3]
    assert all(device.readings[number - 1] for mine in states for number, _ in mine)
    assert order.count("a") == order.count("b") + 2  # the load before the first round

"""A chip at work: runs without a pause, with clock and power meanwhile, on a GPU of numbers."""

import sys
from types import SimpleNamespace

import pytest

from kernels.measure import load, rings
from kernels.measure.rings import GpuState


@pytest.fixture
def device(monkeypatch):
    """A GPU in made-up time: each run takes `us`, Python takes 1 us for each look at its clock, and an event is done
    once its time has passed."""
    made = SimpleNamespace(us=2000.0, now=0.0, at=0.0, readings=[], runs=0)

    def perf_counter():
        made.now += 1e-6
        return made.now

    def sleep(seconds):
        made.now += max(0.0, seconds)

    def run():
        made.at = max(made.at, perf_counter()) + made.us / 1e6
        made.runs += 1

    class Event:
        def record(self):
            self.at = max(made.at, made.now)

        done = property(lambda self: perf_counter() >= self.at)

        def synchronize(self):
            sleep(self.at - made.now)

    def reading():
        made.readings.append(made.now < made.at)
        return len(made.readings), 600

    runtime = SimpleNamespace(deviceSynchronize=lambda: sleep(made.at - made.now))
    elapsed = lambda start, end: 1000 * (end.at - start.at)  # noqa: E731
    cuda = SimpleNamespace(Event=Event, runtime=runtime, get_elapsed_time=elapsed)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(load, "time", SimpleNamespace(perf_counter=perf_counter, sleep=sleep))
    monkeypatch.setattr(load, "under_load", reading)
    made.run = run
    return made


def test_clock_and_power_are_read_before_the_last_run_ends(device):
    made = load.sustained([device.run], lambda: None, device.us)
    assert made.p10_us <= made.median_us <= made.p90_us and made.median_us == pytest.approx(2000, rel=0.01)
    assert device.readings[made.clock - 1] and made.power == 600  # the kept reading is of a GPU at work
    assert device.runs == load.TRIED_RUNS + 50 + 200  # 0.1 s of load, 0.4 s of timed runs


def test_a_run_shorter_than_its_launch_is_timed_in_batches(device, monkeypatch):
    monkeypatch.setattr(load, "SECONDS", 0.01)
    monkeypatch.setattr(load, "LEAD", 0.0)
    batches = []

    def time_runs(enqueuers, runs, before):
        batches.append(runs)
        device.now += 0.004
        return [5.0] * runs

    monkeypatch.setattr(load, "time_runs", time_runs)
    monkeypatch.setattr(load, "EVENTS_SECONDS", 1.0)  # Python is the slower one
    made = load.sustained([device.run], lambda: None, 5.0)
    assert made.median_us == 5.0 and set(batches) == {load.QUEUED} and made.clock is made.power is None


def test_all_take_turns_and_each_has_its_own_clock_and_power(device, monkeypatch):
    monkeypatch.setattr(load, "time_runs", lambda functions, runs: [2000.0] * runs)
    order = []

    def runs_of(name):
        return [lambda: (order.append(name), device.run())]

    times, states = load.in_turns([runs_of("a"), runs_of("b")], 0.01, 3, lead=0.004)
    assert times.shape == (2, 3) and times == pytest.approx(2000, rel=0.01)
    turns = [name for n, name in enumerate(order) if n == 0 or order[n - 1] != name]
    assert turns == ["a", "b", "a", "b"]  # a b, b a, a b: each round begins with the last of the round before
    assert [len(mine) for mine in states] == [3, 3]
    assert all(device.readings[number - 1] for mine in states for number, _ in mine)
    assert order.count("a") == order.count("b") + 2  # the load before the first round


def test_power_is_of_this_instant_where_nvml_knows_it(monkeypatch):
    """The usual figure is the mean of a second, which mixes neighbours that take turns."""

    class Error(Exception):
        pass

    field = SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=690_400))
    nvml = SimpleNamespace(NVMLError=Error, NVML_SUCCESS=0, NVML_CLOCK_SM=1, NVML_FI_DEV_POWER_INSTANT=186)
    nvml.nvmlDeviceGetClockInfo = lambda handle, what: 1455
    nvml.nvmlDeviceGetPowerUsage = lambda handle: 500_000
    nvml.nvmlDeviceGetFieldValues = lambda handle, fields: [field]
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: {"GPU 0": 0x4, "GPU 1": 0x44}[handle]
    monkeypatch.setattr(load, "handle_of", lambda device: f"GPU {device}")
    assert load.under_load() == (1455, 690) and [load.slowed(device) for device in range(2)] == [0x4, 0x44]
    field.nvmlReturn = 3
    assert load.under_load() == (1455, 500)
    monkeypatch.setattr(load, "handle_of", lambda _: None)
    assert load.under_load() == (None, None) and load.state() == (None, None, None) and load.slowed(0) is None


def test_the_state_of_a_gpu_counts_heat_apart_from_power_and_leaves_out_unknown_figures():
    power, board, heat = 0x4, 0x80, 0x40
    readings = [(1400, 690, power), (1500, None, power | board), (1450, 700, heat), (1450, 710, 0)]
    assert rings.state_of(readings) == GpuState(1450, 700, 0.5, 0.25)
    assert rings.state_of([(None, None, None)]) == GpuState(None, None, None, None)

"""Launch times: the median run, its distance from events, and the way through a file."""

import numpy as np
import pandas as pd
import pytest

from kernels.core.request import Request
from kernels.errors import ProblemError
from kernels.measure import launch_times
from kernels.measure.launch_times import LaunchTimes
from kernels.measure.load import Sustained
from kernels.run.backends import Device

GPU = Device("gpu", "NVIDIA Test", "sm_90a", 227 * 1024, "1.0", 132)


def made(request: Request) -> LaunchTimes:
    """Three runs of 3, 1 and 2 µs, with steps one after another."""
    count = len(launch_times.names(request))
    parts = []
    for run, lasts in enumerate((3000, 1000, 2000)):
        ends = np.linspace(lasts / count, lasts, count).round().astype(int)
        starts = np.r_[0, ends[:-1] + 10]
        parts.append(pd.DataFrame({"run": run, "step": range(count), "start_ns": starts, "end_ns": ends}))
    numbers = {"events_ns": 2200.0, "host_ns": 9.0, "timed_ns": 2100.0}
    framed = {"framed_ns": 2900.0, "framed_events_ns": 3150.0, "after_ns": 700.0}
    runs = pd.DataFrame({"run": range(3), **numbers, **framed})
    table = pd.concat(parts)
    free = pd.concat([table.assign(cpp=cpp, call=call) for cpp in (False, True) for call in (True, False)])
    host = {"capture_ns": 1.0}, {"Python": 900.0}, "Test CPU"
    clock = 32, 150.0, Sustained(2.5, 2.4, 2.6)
    return LaunchTimes(request, table, runs, free, *host, *clock, "measured", GPU.name, "2026-11-26")


def test_the_median_run_is_one_of_the_runs_and_events_lose_their_overhead():
    found = made(launch_times.RECORDINGS.asked()[0])
    assert found.lasts_ns == 2000 and len(found.median) == len(launch_times.names(found.request))
    assert found.apart == pytest.approx(2900 / 3000 - 1) and found.after_ns == 700
    assert found.as_it_goes(cpp=True).end_ns.max() == 2000


def test_a_cpu_run_yields_no_time():
    spec = launch_times.RECORDINGS.asked()[0].kernel
    with pytest.raises(ProblemError, match="a CPU run yields none"):
        launch_times.launch_times(Request(spec, spec.problem_type(), backend="cpu"))


def test_recorded_launch_times_come_back_as_they_were(monkeypatch, tmp_path):
    class Done:
        def __init__(self, request):
            self.request = request

        def result(self):
            return made(self.request)

    from kernels.run import workers

    monkeypatch.setattr(workers, "submit", lambda function, request, **more: Done(request))
    monkeypatch.setattr("kernels.recordings.tables.FOLDER", tmp_path)
    launch_times.RECORDINGS.record(GPU)
    (request, *_) = launch_times.RECORDINGS.asked()
    found = launch_times.find(request).load()
    assert (found.provenance, found.timer_step_ns, found.device) == ("recorded", 32, GPU.name)
    for name in ("table", "runs", "free"):
        kept, new = (getattr(one, name).reset_index(drop=True) for one in (found, made(request)))
        pd.testing.assert_frame_equal(kept, new)
    assert (found.graph, found.clocks_ns, found.processor) == ({"capture_ns": 1.0}, {"Python": 900.0}, "Test CPU")
    assert len(launch_times.recorded()) == len(launch_times.RECORDINGS.asked())

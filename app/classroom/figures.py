"""What this server is doing: devices, their queues, sessions, classes, memory; for the lecturer, and for Prometheus."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import psutil
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from kernels.run import workers

_began = time.monotonic()


def now(classes: list[dict[str, Any]], sessions: int) -> dict[str, Any]:
    """Devices as workers.status says them; bytes of memory of this process and of all that it started. classes:
    rooms.figures(); sessions: browsers with a page open."""
    own = psutil.Process()
    return {
        "devices": [asdict(device) for device in workers.status()],
        "sessions": sessions,
        "classes": classes,
        "minutes": round((time.monotonic() - _began) / 60),
        "web_bytes": own.memory_info().rss,
        "worker_bytes": sum(_bytes(child) for child in own.children(recursive=True)),
        "free_bytes": psutil.virtual_memory().available,
    }


def for_prometheus(found: dict[str, Any]) -> tuple[bytes, str]:
    """(text, content type) of what `now` found, in Prometheus's form."""
    registry = CollectorRegistry()
    registry.register(_Collector(found))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Collector:
    def __init__(self, figures: dict[str, Any]):
        self.figures = figures

    def collect(self) -> Iterator[Metric]:
        found = self.figures
        runs = CounterMetricFamily(
            "warpglass_runs", "Tasks of workers that have ended.", labels=["device", "gpu", "outcome"]
        )
        waiting = GaugeMetricFamily("warpglass_queue", "Tasks that wait for a worker.", labels=["device", "gpu"])
        running = GaugeMetricFamily("warpglass_running", "Tasks that run.", labels=["device", "gpu"])
        deaths = CounterMetricFamily("warpglass_worker_deaths", "Workers that died.", labels=["device", "gpu"])
        compiling = CounterMetricFamily(
            "warpglass_compile_seconds", "Seconds spent compiling.", labels=["device", "gpu"]
        )
        out = GaugeMetricFamily("warpglass_device_out", "1 where a device is taken out.", labels=["device", "gpu"])
        for device in found["devices"]:
            name = [device["name"], device["gpu"]]
            runs.add_metric([*name, "done"], device["done"])
            runs.add_metric([*name, "failed"], device["failed"])
            waiting.add_metric(name, device["waiting"])
            running.add_metric(name, device["running"])
            deaths.add_metric(name, device["deaths"])
            compiling.add_metric(name, device["compiling"])
            out.add_metric(name, float(bool(device["out"])))
        yield from (runs, waiting, running, deaths, compiling, out)
        memory = GaugeMetricFamily("warpglass_memory_bytes", "Resident memory.", labels=["process"])
        memory.add_metric(["web"], found["web_bytes"])
        memory.add_metric(["workers"], found["worker_bytes"])
        yield memory
        yield GaugeMetricFamily("warpglass_sessions", "Browsers with a page open.", value=found["sessions"])
        yield GaugeMetricFamily("warpglass_classes", "Classes that are led.", value=len(found["classes"]))
        yield GaugeMetricFamily("warpglass_followers", "Who follows them.", value=_sum(found["classes"], "followers"))


def _sum(classes: Iterable[dict[str, Any]], name: str) -> int:
    return sum(one[name] for one in classes)


def _bytes(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:  # it ended just now
        return 0

"""Figures of this server (devices, queues, sessions, classes, memory), for the lecturer and for Prometheus."""

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import psutil
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from kernels.run import workers

_began = time.monotonic()
DEVICE_METRICS = (  # of each device: kind, name, meaning, key in the figures
    (GaugeMetricFamily, "queue", "Tasks in the queue of a worker.", "waiting"),
    (GaugeMetricFamily, "running", "Running tasks.", "running"),
    (CounterMetricFamily, "worker_deaths", "Crashed workers.", "deaths"),
    (CounterMetricFamily, "compile_seconds", "Seconds spent compiling.", "compiling"),
    (GaugeMetricFamily, "device_out", "1 for a device out of service.", "out"),
)


def now(classes: list[dict[str, Any]], sessions: int) -> dict[str, Any]:
    """The present figures: devices as in workers.status, and bytes of memory of this process and its children.

    classes: rooms.figures()
    sessions: browsers with an open page
    """
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
    """(text, content type) of the result of `now`, in Prometheus format."""
    registry = CollectorRegistry()
    registry.register(_Collector(found))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Collector:
    def __init__(self, figures: dict[str, Any]):
        self.figures = figures

    def collect(self) -> Iterator[Metric]:
        found = self.figures
        runs = CounterMetricFamily("warpglass_runs", "Finished tasks of workers.", labels=["device", "gpu", "outcome"])
        for device in found["devices"]:
            for outcome in ("done", "failed"):
                runs.add_metric([device["name"], device["gpu"], outcome], device[outcome])
        yield runs
        for family, name, meaning, key in DEVICE_METRICS:
            metric = family(f"warpglass_{name}", meaning, labels=["device", "gpu"])
            for device in found["devices"]:
                value = bool(device["out"]) if key == "out" else device[key]
                metric.add_metric([device["name"], device["gpu"]], float(value))
            yield metric
        memory = GaugeMetricFamily("warpglass_memory_bytes", "Resident memory.", labels=["process"])
        memory.add_metric(["web"], found["web_bytes"])
        memory.add_metric(["workers"], found["worker_bytes"])
        yield memory
        yield GaugeMetricFamily("warpglass_sessions", "Browsers with a page open.", value=found["sessions"])
        yield GaugeMetricFamily("warpglass_classes", "Open classes.", value=len(found["classes"]))
        followers = sum(one["followers"] for one in found["classes"])
        yield GaugeMetricFamily("warpglass_followers", "Their followers.", value=followers)


def _bytes(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:  # ended a moment ago
        return 0

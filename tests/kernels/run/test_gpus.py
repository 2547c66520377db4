"""Several GPUs in one process, with a CuPy of our own: how they reach each other's memory."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from kernels.errors import BackendUnavailable
from kernels.run.backends import gpus


def test_each_pair_of_gpus_is_connected_only_once(monkeypatch):
    connected, current = [], []
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 3,
        deviceCanAccessPeer=lambda own, other: True,
        deviceEnablePeerAccess=lambda other: connected.append((current[-1], other)),
    )
    device = lambda number: nullcontext(current.append(number))  # noqa: E731
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Device=device)))
    gpus._reach.cache_clear()
    gpus.connect(2)
    gpus.connect(3)
    gpus._reach.cache_clear()
    assert sorted(connected) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    with pytest.raises(BackendUnavailable, match="needs 4 GPUs, and this machine has 3"):
        gpus.connect(4)

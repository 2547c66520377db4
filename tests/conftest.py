"""Shared by all tests: runs on the CPU shim, made once; variants of a kernel's source; and which tests need a GPU."""

import shutil
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec

import pytest

from kernels import execute, workers
from kernels.backends import gpu
from kernels.catalog import CUDA, KERNELS
from kernels.errors import BackendUnavailable
from kernels.execute import Request, Scope
from kernels.problem import AttentionProblem

# A borrowed GPU machine may lack what the pages need; the kernels' tests run there all the same.
NEEDS = {"explainers": "altair", "app": "streamlit", "browser": "playwright"}
MISSING = {folder: module for folder, module in NEEDS.items() if find_spec(module) is None}
collect_ignore = list(MISSING)


def pytest_report_header():
    return [f"tests/{folder} is left out: {module} is not installed" for folder, module in MISSING.items()]


@lru_cache
def _no_gpu():
    try:
        gpu.device()
    except BackendUnavailable as reason:
        return str(reason)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("gpu") and _no_gpu():
            item.add_marker(pytest.mark.skip(reason=_no_gpu()))


def small_tiles(name):
    """Settings that cut a small problem into several tiles, for any attention kernel."""
    return tuple((c.name, 16) for c in KERNELS[name].constants if c.name.startswith("BLOCK"))


@lru_cache
def cpu_run(name="03_flash", problem=AttentionProblem(), settings=(), scope=Scope(), backend="cpu"):  # noqa: B008 - frozen
    return execute.run(Request(KERNELS[name], problem, settings, scope, backend))


@pytest.fixture(scope="session", name="cpu_run")
def cpu_run_fixture():
    """cpu_run(name, problem, settings, scope) -> Run, remembered."""
    return cpu_run


@pytest.fixture
def variant(tmp_path):
    """variant(name, old, new) -> the KernelSpec with that text of its source replaced, once."""

    def make(name, old, new, count=1):
        spec = KERNELS[name]
        assert old in spec.source
        shutil.copy(spec.path, tmp_path / spec.path.name)
        (tmp_path / spec.path.name).write_text(spec.source.replace(old, new, count))
        for header in CUDA.glob("*.cuh"):
            shutil.copy(header, tmp_path)
        return replace(spec, folder=tmp_path)

    return make


@pytest.fixture(scope="session", autouse=True)
def stop_workers():
    yield
    workers.stop()

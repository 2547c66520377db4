"""Shared by all tests: runs on the CPU shim, made once; variants of a kernel's source; and which tests need a GPU."""

from functools import lru_cache
from importlib.util import find_spec

import pytest

from kernels.catalog import KERNELS, load_kernel
from kernels.core.request import Request, Scope
from kernels.errors import BackendUnavailable
from kernels.run import execute, workers
from kernels.run.backends import gpu

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
def cpu_run(name="03_flash", problem=None, settings=(), scope=Scope(), backend="cpu"):  # noqa: B008 - frozen
    """The Run of a kernel on a problem, its default one if none is given; remembered."""
    spec = KERNELS[name]
    return execute.run(Request(spec, problem or spec.problem_type(), settings, scope, backend))


@pytest.fixture(scope="session", name="cpu_run")
def cpu_run_fixture():
    """cpu_run(name, problem, settings, scope) -> Run, remembered."""
    return cpu_run


@pytest.fixture
def variant(tmp_path):
    """variant(name, old, new) -> the KernelSpec of a copy in which that text, of the .cu or of a header beside it, is
    replaced, once."""

    def make(name, old, new, count=1):
        spec, folder = KERNELS[name], KERNELS[name].path.parent
        texts = {file: text for file, text in spec.files if (folder / file).exists()}
        changed = next(file for file, text in texts.items() if old in text)
        texts[changed] = texts[changed].replace(old, new, count)
        for file, text in texts.items():
            (tmp_path / file).write_text(text)
        return load_kernel(tmp_path / spec.path.name)

    return make


@pytest.fixture(scope="session", autouse=True)
def stop_workers():
    yield
    workers.stop()

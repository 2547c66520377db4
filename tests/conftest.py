"""Shared by all tests: runs on the CPU shim, made once; variants of a kernel's source; and which tests need a GPU."""

import gc
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from kernels.catalog import KERNELS, load_kernel
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BackendUnavailable
from kernels.families.dense.problem import DenseProblem
from kernels.run import execute, workers
from kernels.run.backends import gpu
from kernels.trace.probes import sites_of

pytest.register_assert_rewrite("same_trace")
if find_spec("hypothesis"):  # tests never assert times
    from hypothesis import settings

    settings.register_profile("patient", deadline=None)
    settings.load_profile("patient")
HERE = Path(__file__).parent
# A borrowed GPU machine may lack what the pages need; the kernels' tests run there all the same.
NEEDS = {
    "explainers": "altair",
    "test_house.py": "altair",
    "test_notebook.py": "altair",
    "app": "streamlit",
    "browser": "playwright",
}
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


# Files that take more than about 10 seconds, the longest first: xdist deals files out in this order, so that none of
# them begins last, on one core, while the other rests. Those without a browser begin, while .ci/run still looks at
# types. test_disassembly comes late enough to find test_builds' builds. The browser's tests are one unit.
LONGEST = (
    "kernels/run/test_check.py",
    "explainers/stories/test_questions.py",
    "app/stories/test_stories.py",
    "browser",
    "kernels/build/test_builds.py",
    "kernels/exercises/test_exercises.py",
    "app/web/test_asking.py",
    "kernels/ops/test_launcher.py",
    "app/stories/test_compared.py",
    "app/stories/test_dropped.py",
    "explainers/stories/pipeline/test_pipeline.py",
    "kernels/run/wrong/test_explain.py",
    "app/web/test_ends.py",
    "kernels/run/test_cluster.py",
    "kernels/build/test_disassembly.py",
    "kernels/run/test_cli.py",
    "kernels/exercises/test_cheats.py",
    "explainers/models/test_threads.py",
    "app/stage/test_tools.py",
    "app/stories/test_talks.py",
    "kernels/recordings/test_run_index.py",
    "kernels/run/test_workers.py",
    "explainers/stories/timing/test_timing.py",
    "explainers/stories/precision/test_precision.py",
    "kernels/device/test_hopper.py",
    "kernels/test_one_file.py",
)


def _unit(name):
    """What one process takes: all tests with a browser, which share a server, or else the file of that name."""
    return "browser" if name.startswith("browser/") else name


def _place(item):
    unit = _unit(item.path.relative_to(HERE).as_posix())
    return LONGEST.index(unit) if unit in LONGEST else len(LONGEST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadFileScheduling

    if config.getvalue("dist") != "loadfile":
        return None

    class ByUnit(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return _unit(super()._split_scope(nodeid).removeprefix("tests/"))

    return ByUnit(config, log)


def pytest_ignore_collect(collection_path, config):
    """With -m gpu, only files with such a test are imported: a borrowed machine lacks what others need."""
    if config.option.markexpr == "gpu" and collection_path.suffix == ".py":
        return "mark.gpu" not in collection_path.read_text() or None
    return None


@pytest.hookimpl(hookwrapper=True)
def pytest_collection():
    """Nothing that the collection makes is garbage. A search for garbage passed all of it, again and again."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items):
    items.sort(key=_place)
    for item in items:
        if item.get_closest_marker("gpu") and _no_gpu():
            item.add_marker(pytest.mark.skip(reason=_no_gpu()))


def one_of_each_family(names, more=()):
    """Parameters of a test: these kernels. Only the last of each family, and `more`, are asked without -m slow."""
    return _quick(names, {*{KERNELS[name].family: name for name in names}.values(), *more})


def one_of_each_kind(names):
    """Parameters of a test: these kernels. Only those of last_of_each_kind are asked without -m slow."""
    return _quick(names, last_of_each_kind(names))


def _quick(names, asked):
    return [pytest.param(name, marks=[] if name in asked else pytest.mark.slow) for name in names]


def last_of_each_kind(names):
    """The last of these kernels that together have each family and each set of events of their probes, in order."""
    seen, found = set(), []
    for name in reversed([*names]):
        spec = KERNELS[name]
        events = frozenset(s.event if s.space else s.kind for s in sites_of(Request(spec, spec.problem_type())))
        if not {spec.family, events} <= seen:
            seen |= {spec.family, events}
            found.insert(0, name)
    return found


KINDS = pytest.mark.parametrize("chosen", [last_of_each_kind, pytest.param(list, id="all", marks=pytest.mark.slow)])
"""For a test that asks about many kernels in a loop: `chosen(names)` are the names to ask about."""


def in_turn(ones, others):
    """Parameters of a test: each pair of two names. Without -m slow, it asks each of `ones` with one of `others`, in
    turn."""
    ones, others = [*ones], [*others]
    return [
        pytest.param((one, other), id=f"{one} {other}", marks=[] if m == n % len(others) else pytest.mark.slow)
        for n, one in enumerate(ones)
        for m, other in enumerate(others)
    ]


def small_tiles(name):
    """Settings that cut a small problem into several tiles, for any attention kernel."""
    tiles = [c for c in KERNELS[name].constants if c.name.startswith("BLOCK")]
    return tuple((c.name, min(v for v in c.values if v >= 16)) for c in tiles)


def of_fp32(story):
    """Of the kernels that a story can show those of DenseProblem: a test can ask them all on the same problems."""
    from explainers.story import probed  # where Altair is missing, no test of a story runs

    return {name: spec for name, spec in probed.accepting(story).items() if spec.problem_type is DenseProblem}


def usual_problem(spec):
    """The problem whose builds are looked at where any problem's would do, so that all tests make the same ones."""
    return spec.problem_type(head_dim=64) if spec.family == "dense" else spec.problem_type()


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
    """variant(name, old, new) -> the KernelSpec of a copy in which that text, of the .cu or of a header, is replaced,
    once."""

    def make(name, old, new, count=1):
        spec, folder = KERNELS[name], KERNELS[name].path.parent
        changed = next(file for file, text in spec.files if old in text)
        for file, text in spec.files:
            if file == changed:
                (tmp_path / file).write_text(text.replace(old, new, count))
            elif (folder / file).exists():
                (tmp_path / file).write_text(text)
        return load_kernel(tmp_path / spec.path.name)

    return make


@pytest.fixture(scope="session", autouse=True)
def stop_workers():
    yield
    workers.stop()

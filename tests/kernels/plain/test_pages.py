"""Any kernel, Source, Threads, Bytes, Coalescing and Banks show tutorials without a written probe.

By default each page is asked for one tutorial, with a path of its own (QUICK). Left out, as `slow`: all other pairs,
and Source.
"""

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
TUTORIALS = Path(__file__).parent / "tutorials"
NAMES = tuple(sorted(path.stem for path in TUTORIALS.glob("*.cu")))
WITH_SHARED = tuple(name for name in NAMES if "__shared__" in (TUTORIALS / f"{name}.cu").read_text())
QUICK = (
    ("any_kernel", "t05_whole_program"),  # with host code, and a pointer to dynamic memory
    ("coalescing", "t10_float4_ldg"),  # an instance of a template, without a shared array
    ("bank_conflicts", "t04_two_launches"),  # with a static array
)
FIELDS = {"t07_wmma": "&dtype=bfloat16"}  # in a link


def _each(page, names):
    """A test for each name, `slow` outside QUICK."""
    slow = (pytest.mark.slow,)
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=() if (page, name) in QUICK else slow) for name in names]
    )


def _page(page, name):
    """What a page shows of a kernel (tests/pages.py), asked with the others of its group."""
    group = QUICK if (page, name) in QUICK else tuple((page, name) for name in NAMES)
    return _shown(group)[page, name]


@lru_cache
def _shown(pairs):
    """(page, kernel) -> what the page shows."""
    done = subprocess.run(
        [
            sys.executable,
            str(TESTS / "pages.py"),
            *(f"{page}?kernel={name}{FIELDS.get(name, '')}" for page, name in pairs),
        ],
        env={**os.environ, "WARPGLASS_KERNELS": str(TUTORIALS), "PYTHONPATH": str(TESTS.parent)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(pairs, json.loads(done.stdout.splitlines()[-1])))


@_each("any_kernel", NAMES)
def test_any_kernel_has_steps_from_barrier_to_barrier_and_bytes(name):
    page = _page("any_kernel", name)
    assert not page["error"] and not page["told"] and page["choices"]["kernel"] == name
    barriers = (TUTORIALS / f"{name}.cu").read_text().count("__syncthreads")
    assert page["steps"] > 1 if barriers else page["steps"] >= 1
    assert "load" in page["tabs"]["bytes"] and "store" in page["tabs"]["bytes"]


@pytest.mark.slow
def test_source_shows_the_machine_code():
    for page in _shown(tuple(("source", name) for name in NAMES)).values():
        assert not page["error"] and "instructions of SASS" in page["summary"]


@_each("coalescing", NAMES)
def test_coalescing_shows_each_line_and_the_threads(name):
    page = _page("coalescing", name)
    assert not page["error"] and not page["told"] and page["choices"]["kernel"] == name
    assert page["steps"] and page["views"] == ["sectors", "threads"]
    assert f"{name}.cu:" in page["tabs"]["lines"]


@_each("bank_conflicts", WITH_SHARED)
def test_banks_shows_the_shared_arrays(name):
    page = _page("bank_conflicts", name)
    assert not page["error"] and not page["told"] and page["choices"]["kernel"] == name
    assert page["steps"] and "banks" in page["views"]
    assert f"{name}.cu:" in page["tabs"]["lines"]

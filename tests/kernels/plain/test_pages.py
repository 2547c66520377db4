"""Any kernel, Source, Threads, Bytes, Coalescing and Banks show tutorials without a written probe.

By default each page is asked for one tutorial, with a path of its own (QUICK). Left out, as `slow`: all other pairs,
and Source.
"""

from functools import cache
from pathlib import Path

import pytest
from pages import shown_with

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
    slow = (pytest.mark.slow,)
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=() if (page, name) in QUICK else slow) for name in names]
    )


@cache
def _shown(pairs):
    return dict(
        zip(pairs, shown_with(TUTORIALS, *(f"{page}?kernel={name}{FIELDS.get(name, '')}" for page, name in pairs)))
    )


def _page(page, name):
    """What a page shows of a kernel, asked with the others of QUICK if it is one of them."""
    shown = _shown(QUICK if (page, name) in QUICK else ((page, name),))[page, name]
    assert not shown["error"] and not shown["told"] and shown["choices"]["kernel"] == name
    return shown


@_each("any_kernel", NAMES)
def test_any_kernel_has_steps_from_barrier_to_barrier_and_bytes(name):
    page = _page("any_kernel", name)
    barriers = (TUTORIALS / f"{name}.cu").read_text().count("__syncthreads")
    assert page["steps"] > 1 if barriers else page["steps"] >= 1
    assert "load" in page["tabs"]["bytes"] and "store" in page["tabs"]["bytes"]


@pytest.mark.slow
def test_source_shows_the_machine_code():
    for page in shown_with(TUTORIALS, *(f"source?kernel={name}" for name in NAMES)):
        assert not page["error"] and "instructions of SASS" in page["summary"]


@_each("coalescing", NAMES)
def test_coalescing_shows_each_line_and_the_threads(name):
    page = _page("coalescing", name)
    assert page["steps"] and page["views"] == ["sectors", "threads"]
    assert f"{name}.cu:" in page["tabs"]["lines"]


@_each("bank_conflicts", WITH_SHARED)
def test_banks_shows_the_shared_arrays(name):
    page = _page("bank_conflicts", name)
    assert page["steps"] and "banks" in page["views"]
    assert f"{name}.cu:" in page["tabs"]["lines"]

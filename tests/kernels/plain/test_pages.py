"""Each page shows each tutorial, without a written probe: Any kernel, Source, Threads, Bytes, Coalescing and Banks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
TUTORIALS = Path(__file__).parent / "tutorials"
NAMES = [
    "t01_static_shared",
    "t02_dynamic_shared",
    "t03_template",
    "t04_two_launches",
    "t05_whole_program",
    "t06_half2",
    "t07_wmma",
    "t08_cooperative_grid",
    "t09_paged_walk",
    "t10_float4_ldg",
    "t11_split_k",
    "t12_pipeline",
]
FIELDS = {"t07_wmma": "&dtype=bfloat16"}  # in a link
WITHOUT_SHARED = {name for name in NAMES if "__shared__" not in (TUTORIALS / f"{name}.cu").read_text()}
PAGES = ("any_kernel", "coalescing", "bank_conflicts")


@pytest.fixture(scope="module")
def shown():
    """(page, kernel) -> what the page shows (tests/pages.py)."""
    return _shown([(page, name) for page in PAGES for name in NAMES])


def _shown(pairs):
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


@pytest.mark.parametrize("name", NAMES)
def test_any_kernel_has_steps_from_barrier_to_barrier_and_bytes(shown, name):
    page = shown["any_kernel", name]
    assert not page["error"] and not page["told"] and page["choices"]["kernel"] == name
    barriers = (TUTORIALS / f"{name}.cu").read_text().count("__syncthreads")
    assert page["steps"] > 1 if barriers else page["steps"] >= 1
    assert "load" in page["tabs"]["bytes"] and "store" in page["tabs"]["bytes"]


@pytest.mark.slow
def test_source_shows_the_machine_code():
    for page in _shown([("source", name) for name in NAMES]).values():
        assert not page["error"] and "instructions of SASS" in page["summary"]


@pytest.mark.parametrize("name", NAMES)
def test_coalescing_shows_each_line_and_the_threads(shown, name):
    page = shown["coalescing", name]
    assert not page["error"] and not page["told"] and page["choices"]["kernel"] == name
    assert page["steps"] and page["views"] == ["sectors", "threads"]
    assert f"{name}.cu:" in page["tabs"]["lines"]


@pytest.mark.parametrize("name", sorted({*NAMES} - WITHOUT_SHARED))
def test_banks_shows_the_shared_arrays(shown, name):
    page = shown["bank_conflicts", name]
    assert not page["error"] and not page["told"] and page["choices"]["kernel"] == name
    assert page["steps"] and "banks" in page["views"]
    assert f"{name}.cu:" in page["tabs"]["lines"]

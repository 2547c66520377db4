"""Kernels that a user brings: one .cu in a folder, and a family in a folder, with nothing else edited. The pages run in
a process of their own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dropped import readme_kernel

TESTS = Path(__file__).parents[1]
DROPPED = TESTS / "dropped"
pytestmark = pytest.mark.xdist_group("pages")


def visit(folder, *links):
    """What the pages of these links show where WARPGLASS_KERNELS names that folder."""
    done = subprocess.run(
        [sys.executable, str(TESTS / "pages.py"), *links],
        env={**os.environ, "WARPGLASS_KERNELS": str(folder), "PYTHONPATH": str(TESTS.parent)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """What every page shows of one .cu that was put into an empty folder."""
    folder = tmp_path_factory.mktemp("mine")
    shutil.copy(DROPPED / "one_kernel.cu", folder)
    readme_kernel(folder)
    kernel = "kernel=one_kernel&backend=cpu"
    links = {
        "tiling": f"tiling?{kernel}",
        "online_softmax": f"online_softmax?{kernel}&what_if=RESCALE",
        "bank_conflicts": f"bank_conflicts?{kernel}",
        "padding": f"bank_conflicts?{kernel}&view=attention",
        "coalescing": f"coalescing?{kernel}",
        "occupancy": f"occupancy?{kernel}",
        "source": f"source?{kernel}",
        "any_kernel": f"any_kernel?{kernel}",
        "readme": "any_kernel?kernel=scaled_copy&backend=cpu",
        "compare": "compare?a=03_flash&b=one_kernel&backend=cpu",
        "recorded": "tiling?kernel=one_kernel&backend=recorded",
        "ours": "tiling?kernel=03_flash&backend=cpu",
    }
    return dict(zip(links, visit(folder, *links.values())))


@pytest.mark.parametrize(
    ("page", "views"),
    [
        ("tiling", 4),
        ("online_softmax", 4),
        ("bank_conflicts", 4),
        ("padding", 4),
        ("coalescing", 4),
        ("occupancy", 0),
        ("source", 1),
        ("any_kernel", 4),
        ("compare", 7),
    ],
)
def test_a_dropped_kernel_is_on_every_page_that_its_events_allow(mine, page, views):
    shown = mine[page]
    assert "one_kernel" in shown["kernels"] and shown["kernel"] in ("one_kernel", "")
    assert shown["components"] == views and not shown["warnings"]
    assert not shown["errors"] or page == "online_softmax" and "goes wrong" in shown["errors"]
    assert "FlashAttention" not in shown["markdown"] or page != "tiling"


def test_the_kernel_that_the_readme_shows_how_to_write_is_shown(mine):
    shown = mine["readme"]
    assert shown["kernel"] == "scaled_copy" and shown["components"] == 4 and "Do not trust this run" in shown["errors"]


def test_what_is_missing_of_a_dropped_kernel_is_said(mine):
    assert "python -m kernels record" in mine["recorded"]["warnings"]


def test_ours_are_compared_with_a_dropped_kernel(mine):
    assert not mine["ours"]["errors"] and "One of mine 4 times" in mine["ours"]["captions"]


def test_a_family_that_nothing_knows_opens_and_breaks_no_page(tmp_path):
    folder = tmp_path / "brought"
    shutil.copytree(DROPPED / "odd_family", folder / "odd_family")
    any_, coalescing, source, occupancy, tiling, timing = visit(
        folder,
        "any_kernel?kernel=odd&backend=cpu",
        "coalescing?kernel=odd&backend=cpu",
        "source?kernel=odd",
        "occupancy?kernel=odd",
        "tiling?backend=cpu",
        "timing",
    )
    assert any_["kernel"] == "odd" and any_["components"] == 4
    for shown in (any_, coalescing, source, occupancy, tiling):
        assert not shown["errors"] and not shown["warnings"], shown["link"]
    assert "odd" in coalescing["kernels"] and "odd" in source["kernels"] and "odd" not in tiling["kernels"]
    assert "odd" not in timing["errors"]


def test_a_kernel_with_a_tensor_and_a_value_that_no_story_knows_is_shown_whole(tmp_path):
    text = (DROPPED / "one_kernel.cu").read_text()
    scratch = '[scratch.seen]\nshape = ["batch * num_heads", "seq_len"]\naxes = ["flat", "query"]\n\n'
    logged = (
        "  if (row_leader) PROBE_VALUE(surprise, row, l);\n  PROBE_STORE(SEEN_gmem, head + row, 4);\n"
        "  if (row < seq_len) stg<float>(&SEEN_gmem[head + row], l);\n"
    )
    for old, new in (
        ("[[launches]]", f"{scratch}[[launches]]"),
        ('"o", "int32', '"o", "seen", "int32'),
        ("float* O_gmem, int seq_len", "float* O_gmem, float* SEEN_gmem, int seq_len"),
        ("  PROBE_MARK(write, row);\n", f"  PROBE_MARK(write, row);\n{logged}"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    (tmp_path / "surprising.cu").write_text(text)
    links = ("tiling", "online_softmax", "any_kernel")
    for shown in visit(tmp_path, *(f"{page}?kernel=surprising&backend=cpu" for page in links)):
        assert not shown["errors"] and not shown["warnings"], shown
        if "any_kernel" in shown["link"]:
            assert shown["components"] == 4
        else:  # the story, and what it does not know beside it
            assert shown["components"] == 5 and "Beside this story: seen, surprise" in shown["expanders"]

"""Any kernel in a real Chromium: what it shows is what the run holds, also of a kernel and a family that nothing
knows."""

import random
import shutil

import dropped
import numpy as np
import pytest
from browser.conftest import Server
from browser.stepping import hover, point_at, press, rail, step_of, tip

from app.stories import STORIES
from explainers.models import generic
from kernels.catalog import KERNELS
from kernels.core.dtypes import widened
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem

VIEW = "Tensors and values"
SMALL = DenseProblem(seq_len=40, causal=True)
SMALL_URL = "seq_len=40&causal=true&BLOCK_Q=16&BLOCK_KV=16&backend=cpu"


@pytest.fixture(scope="module")
def flash(run_of):
    return run_of("03_flash", SMALL, {"BLOCK_Q": 16, "BLOCK_KV": 16}, Scope(1))


def some(rows, cols, count=1):
    """The last corner of a matrix, and some of its cells."""
    inner = random.Random(rows * cols).choices([(row, col) for row in range(rows) for col in range(cols)], k=count)
    return {(rows - 1, cols - 1), *inner}


def tensors_are_read_off(page, run, story):
    """Each tensor's cells, at the pointer, hold the run's own numbers at those places."""
    for shown in story.tensors:
        whole = run.arrays[shown["name"]]
        matrix = widened(whole.reshape(-1, *whole.shape[-2:])[0] if whole.ndim > 1 else whole[None])
        assert matrix.shape == (shown["rows"], shown["cols"])
        for row, col in some(*matrix.shape):
            place, value = hover(page, VIEW, box=shown["name"], row=row, col=col).split(" = ")
            assert place == f"{shown['name']}[{f'{row}, ' if whole.ndim > 1 else ''}{col}]"
            assert np.float32(value) == np.float32(matrix[row, col])


def values_are_read_off(page, run, story):
    """Each value's cells, at the pointer and with the last step shown, hold what the trace last logged there."""
    records = run.trace.frame()
    for shown in story.values:
        mine = records[(records.event == shown["event"]) & records.value.notna()]
        keys, title = shown["keys"], f"{shown['event']}({', '.join(shown['keys'])})"
        held = dict(part.split(" ") for part in shown["slice"].split(", ") if part)
        for key, at in held.items():
            mine = mine[mine[key] == int(at)]
        last = mine.groupby(keys[-2:]).value.last()
        for row, col in some(shown["rows"], shown["cols"]):
            at = [shown["row0"] + row, shown["col0"] + col][-len(keys[-2:]) :]
            place, value = hover(page, VIEW, box=title, row=row, col=col).split(" = ")
            assert place == f"{shown['event']}({', '.join(f'{key} {n}' for key, n in zip(keys[-2:], at))})"
            found = last.get(tuple(at) if len(at) > 1 else at[0])
            assert value == "not logged yet" if found is None else np.float32(value) == np.float32(found), place


def test_every_tensor_and_every_value_is_that_of_the_run_by_keyboard_and_pointer(visit, flash):
    page = visit(f"/any_kernel?kernel=03_flash&{SMALL_URL}&at_item=1")
    page.locator(".sheet canvas").focus()
    page.mouse.move(*point_at(page, VIEW, box="k", row=7, col=9))
    press(page, "Alt+ArrowRight", "Alt+ArrowDown", "Alt+ArrowLeft", "Alt+ArrowLeft", "Alt+ArrowUp")
    place, value = tip(page).split(" = ")
    assert place == "k[7, 8]" and np.float32(value) == flash.arrays["k"][0, 0, 7, 8]
    press(page, "Enter")
    page.mouse.move(5, 5)
    assert page.locator(".pin").inner_text() == f"Pinned: k[7, 8] = {value}"
    assert step_of(page) == 0
    story = generic.explain(flash)
    assert {"q", "k", "v", "o"} == {shown["name"] for shown in story.tensors}
    assert {"score", "m", "l", "p", "o", "rescale"} <= {shown["event"] for shown in story.values}
    assert hover(page, VIEW, box="score(row, col)", row=0, col=0) == "score(row 16, col 0) = not logged yet"
    press(page, "End")
    tensors_are_read_off(page, flash, story)
    values_are_read_off(page, flash, story)


def test_tensors_of_16_bits_and_of_one_axis_are_those_of_the_run(visit, run_of):
    run = run_of("add_rms_norm", KERNELS["add_rms_norm"].problem_type(tokens=2, hidden=64, dtype="bfloat16"))
    page = visit("/any_kernel?kernel=add_rms_norm&tokens=2&hidden=64&dtype=bfloat16&backend=cpu")
    press(page, "End")
    tensors_are_read_off(page, run, generic.explain(run))


# ---- what a user brings: tests/app/stories/test_dropped.py asks it without a browser ----


@pytest.fixture(scope="module")
def brought(tmp_path_factory):
    """A server whose WARPGLASS_KERNELS names a folder with a .cu of a family that we know and a family of its own."""
    folder = tmp_path_factory.mktemp("brought")
    shutil.copy(dropped.ONE_KERNEL, folder)
    shutil.copytree(dropped.ODD_FAMILY, folder / dropped.ODD_FAMILY.name)
    server = Server(WARPGLASS_KERNELS=str(folder))
    yield server
    server.stop()


@pytest.mark.slow
def test_what_is_brought_breaks_no_page(visit, brought):
    page = visit("/tiling?backend=cpu", at=brought)
    for path in [path for path in STORIES if path != "tiling"]:
        rail(page, path)
        assert not page.locator(".wg .messages [role=alert]").count(), (
            path,
            page.locator(".wg .messages").inner_text(),
        )

"""Any what-if leads to a wrong value: the offered scale and row."""

import numpy as np
import pytest
from conftest import of_fp32, small_tiles
from pages import open_page

from app.parts import running
from explainers.models import softmax_rows, tiling
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.run import execute

ROWS = [name for name in of_fp32(tiling) if softmax_rows.accepts(KERNELS[name])]
BROKEN = [(name, c.name) for name in ROWS for c in KERNELS[name].what_ifs]


@pytest.mark.parametrize(("kernel", "what_if"), BROKEN)
def test_a_what_if_without_effect_offers_a_scale_and_a_row_with_a_wrong_value(kernel, what_if):
    link = f"online_softmax?kernel={kernel}&backend=cpu&what_if={what_if}&row=0"
    first = open_page(link).stage
    if first.tone == "bad":
        assert first.offer is None
        return
    changes = "".join(f"&{name}={value}" for name, value in first.offer["set"].items())
    shown = open_page(link.replace("&row=0", "") + changes).stage
    assert shown.tone == "bad" and shown.offer is None
    assert shown.frames[shown.step]["wrong"] or np.isnan(shown.frames[shown.step]["l"])  # it opens on the wrong value


@pytest.mark.parametrize("path", ["tiling", "registers"])
def test_the_other_pages_of_a_tile_offer_the_scale(path):
    stage = open_page(f"{path}?kernel=03_flash&backend=cpu&what_if=SUBTRACT_MAX").stage
    assert set(stage.offer["set"]) == {"score_scale"} and "no difference in these rows" in stage.offer["text"]
    scale = stage.offer["set"]["score_scale"]
    assert open_page(f"{path}?kernel=03_flash&backend=cpu&what_if=SUBTRACT_MAX&score_scale={scale}").stage.offer is None


def test_a_kernel_as_written_has_no_wrong_row_and_offers_nothing():
    spec = KERNELS["03_flash"]
    run = execute.run(Request(spec, spec.problem_type(seq_len=64, head_dim=32, causal=True), small_tiles("03_flash")))
    assert not softmax_rows.wrong_rows(run) and softmax_rows.offer(run, running, 3) is None

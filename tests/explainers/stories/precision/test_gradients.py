"""Precision of a backward: the errors of dQ, dK and dV after each step that rounds, from the replay of Backward."""

import pytest
from pages import open_page, words

from explainers.models import gradient_errors
from explainers.stories.precision import gradients
from kernels.catalog import KERNELS

BACKWARD = [name for name, kernel in KERNELS.items() if gradients.is_backward(kernel)]


@pytest.fixture(scope="module")
def page():
    return open_page("precision?kernel=backward_4_mma&seq_len=48&head_dim=64&num_heads=4&num_kv_heads=2&at_head=1")


def test_every_rung_of_the_backward_has_a_page_and_float32_rounds_nothing_on_the_way():
    assert len(BACKWARD) >= 6 and not any(gradients.refusal(KERNELS[name]) for name in BACKWARD)
    told = [f["sentence"] for f in open_page("precision?kernel=backward_3_one_loop&seq_len=40").stage.frames]
    assert told[1].startswith("P stays in float32.") and told[3].startswith("The gradients stay in float32.")


def test_each_rounding_of_16_bits_is_a_step_with_the_error_of_each_gradient_and_the_tab_of_backward(page):
    stage = page.stage
    assert not page.asked.error and not page.asked.told
    assert len(stage.frames) == len(gradient_errors.STEPS) + 1 and stage.views[0]["kind"] == "chart"
    assert [state["name"] for state in stage.state] == [f"error of {part}" for part in ("dV", "dK", "dQ")]
    told = [frame["sentence"] for frame in stage.frames]
    assert "rounds P to float16 before dV" in told[1] and "The error of dV grows." in told[1]
    assert "The errors of dK and dQ grow." in told[2] and stage.frames[2]["title"].startswith("dS ")
    of_dv, of_dk, _ = (state["values"] for state in stage.state)
    assert of_dv[1] == of_dv[2] and of_dk[0] == of_dk[1] != of_dk[2]
    said = words(page.tab("gradients"))
    assert "The error of each gradient, step by step" in said and page.stage.summary in said

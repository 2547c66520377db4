from urllib.parse import parse_qsl

import pytest

from app import compare_choices


def test_an_empty_url_gives_the_defaults_and_ignores_nothing():
    state, ignored, step = compare_choices.from_url({})
    assert state == compare_choices.defaults() and not ignored and step == 0
    a, b = (compare_choices.request(state, side, "cpu") for side in compare_choices.SIDES)
    assert (a.kernel.name, b.kernel.name) == ("03_flash", "04_flash_registers") and a.problem == b.problem
    assert a.constants["BLOCK_Q"] == b.constants["BLOCK_Q"] == 16


def test_a_url_is_read_back_as_it_was_written():
    state, ignored, step = compare_choices.from_url(dict(parse_qsl(
        "a=02_tiled&b=04_flash_registers&a_BLOCK_Q=8&a_PAD_K=4&b_BLOCK_Q=64&b_BLOCK_KV=32&b_PAD=0&b_RESCALE=0&seq_len=100&heads=3&batch=2&causal=true"
        "&at_batch=1&at_head=2&at_query=70&step=5")))
    assert not ignored and step == 5
    a, b = (compare_choices.request(state, side, "cpu") for side in compare_choices.SIDES)
    assert (a.constants["BLOCK_Q"], a.constants["PAD_K"], b.constants["PAD"], b.constants["RESCALE"]) == (8, 4, 0, 0)
    assert a.scope.first == (1 * 3 + 2) * 13 + 70 // 8 and b.scope.first == (1 * 3 + 2) * 2 + 1  # each side's tile that holds the query


@pytest.mark.parametrize(("parameter", "value", "words"), [
    ("a", "99_magic", "a is '99_magic'"), ("b", "<b>x</b>", "b is '<b>x</b>'"), ("a_BLOCK_Q", "64", "a_BLOCK_Q is 64"), ("b_PAD", "3", "b_PAD is 3"),
    ("seq_len", "-4", "seq_len is -4"), ("at_query", "64", "here it can be 0 to 63"), ("at_head", "9", "here it can be 0 to 1"),
    ("colour", "red", "colour is not a choice"), ("backend", "tpu", "backend is 'tpu'"), ("step", "many", "step is 'many'"),
])
def test_nonsense_is_replaced_by_the_default_and_told(parameter, value, words):
    state, ignored, _ = compare_choices.from_url({parameter: value})
    assert state == compare_choices.defaults()
    assert len(ignored) == 1 and words in ignored[0]

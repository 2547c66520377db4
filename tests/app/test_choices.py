from urllib.parse import parse_qsl

import pytest

from app import choices
from kernels.catalog import ATTENTION


def test_an_empty_url_gives_the_defaults_and_ignores_nothing():
    state, ignored = choices.from_url({})
    assert state == choices.defaults() and not ignored
    request = choices.to_request(state, "cpu")
    assert request.kernel.name == "03_flash" and request.problem == request.kernel.problem_type()


def test_a_url_is_read_back_as_it_was_written():
    state, ignored = choices.from_url(dict(parse_qsl(
        "kernel=01_naive&backend=cpu&what_if=SUBTRACT_MAX&seq_len=100&head_dim=64&batch=2&heads=3&causal=true&score_scale=2.5&seed=7&BLOCK_Q=8&BLOCK_KV=32"
        "&at_batch=1&at_head=2&at_tile=12&row=3&step=4")))
    assert not ignored
    request = choices.to_request(state, "cpu")
    assert dict(request.settings) == {"BLOCK_Q": 8, "BLOCK_KV": 32, "SUBTRACT_MAX": 0}
    assert (request.problem.causal, request.problem.score_scale, request.problem.batch) == (True, 2.5, 2)
    assert request.scope.first == (1 * 3 + 2) * 13 + 12


@pytest.mark.parametrize(("parameter", "value", "words"), [
    ("kernel", "99_magic", "kernel is '99_magic'"), ("seq_len", "-4", "seq_len is -4"), ("seq_len", "<b>x</b>", "seq_len is '<b>x</b>'"),
    ("head_dim", "48", "head_dim is 48"), ("colour", "red", "colour is not a choice"), ("BLOCK_Q", "7", "BLOCK_Q is 7"),
    ("at_tile", "4", "here it can be 0 to 3"), ("row", "16", "here it can be 0 to 15"), ("step", "many", "step is 'many'"),
    ("what_if", "RECALL", "what_if is 'RECALL'"), ("backend", "tpu", "backend is 'tpu'"),
    ("score_scale", "nan", "score_scale is nan"), ("RESCALE", "0", "RESCALE is not a choice"),
])
def test_nonsense_is_replaced_by_the_default_and_told(parameter, value, words):
    state, ignored = choices.from_url({parameter: value})
    assert state == choices.defaults()
    assert len(ignored) == 1 and words in ignored[0]


def test_a_whatif_of_another_kernel_is_ignored():
    state, ignored = choices.from_url({"kernel": "01_naive", "what_if": "RESCALE"})
    assert state["what_if"] == choices.AS_WRITTEN and "01_naive has no such build" in ignored[0]


def test_short_sequences_bring_the_default_row_into_range():
    state, ignored = choices.from_url({"seq_len": "1"})
    assert state["row"] == 0 and not ignored


def test_every_field_and_constant_is_a_choice():
    assert {c.name for spec in ATTENTION.values() for c in spec.constants if c.what_if} == set(choices.what_ifs())
    assert set(choices.PROBLEM) <= set(choices.defaults())

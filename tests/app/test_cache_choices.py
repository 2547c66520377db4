from urllib.parse import parse_qsl

import pytest

from app import cache_choices
from kernels.catalog import PAGED
from kernels.kv_cache import Event


def test_an_empty_url_gives_the_defaults_at_the_scenarios_end():
    state, ignored, step = cache_choices.from_url({})
    assert state == cache_choices.defaults() and not ignored and step == 0
    assert cache_choices.scenario_of(state).states(16)[state["moment"]][0].sequences


def test_a_url_is_read_back_as_it_was_written():
    url = ("view=walk&scenario=by_hand&events=add+A+20%2C+fork+B+A&moment=1&shuffle=3&num_blocks=9&kernel=paged_v2&sequence=0&head=7&num_heads=8&num_kv_heads=1"
           "&head_size=96&block_size=8&dtype=float16&alibi=true&score_scale=2.5&seed=4&WARPS=2&PARTITION=128&step=5&backend=cpu")
    state, ignored, step = cache_choices.from_url(dict(parse_qsl(url)))
    assert not ignored and step == 5
    assert {name: str(value).lower() for name, value in state.items() if name != "events"} == \
        {name: value for name, value in parse_qsl(url) if name not in ("events", "step")}
    scenario = cache_choices.scenario_of(state)
    assert scenario.events == (Event("add", "A", 20), Event("fork", "B", parent="A")) and scenario.states(8)[0][0].num_blocks == 9


@pytest.mark.parametrize(("parameter", "value", "words"), [
    ("scenario", "zoo", "scenario is 'zoo'; it must be one of two_chats"), ("events", "add A", "Event 1 is 'add A'; it must be add NAME TOKENS"),
    ("moment", "99", "moment is 99; here it can be 0 to 9"),
    ("sequence", "2", "sequence is 2; here it can be 0 to 1"), ("head", "4", "head is 4; here it can be 0 to 3"),
    ("num_kv_heads", "3", "num_heads is 4 and num_kv_heads 3"), ("head_size", "72", "head_size is 72"), ("dtype", "<b>", "dtype is <b>"),
    ("PARTITION", "33", "PARTITION is 33"),
    ("shuffle", "-1", "shuffle is -1"), ("seq_len", "64", "seq_len is not a choice of this page"), ("view", "x", "view is 'x'"), ("step", "z", "step is 'z'"),
])
def test_nonsense_is_replaced_by_the_default_and_told(parameter, value, words):
    state, ignored, _ = cache_choices.from_url({parameter: value})
    assert state == cache_choices.defaults()
    assert len(ignored) == 1 and words in ignored[0]


def test_every_kernel_of_the_family_and_every_constant_is_a_choice():
    assert set(cache_choices.LISTS["kernel"]) == set(PAGED)
    assert {c.name for spec in PAGED.values() for c in spec.constants} <= set(cache_choices.defaults())

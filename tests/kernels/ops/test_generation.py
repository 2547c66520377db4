"""The loop over the paged cache generates what the same model generates with plain attention, from shared pages."""

import pytest

from kernels.errors import ProblemError
from kernels.kv_cache.manager import play
from kernels.kv_cache.scenarios import SERVED
from kernels.ops import generation
from kernels.ops.generation import PagedLoop, contiguous, generate

SCENARIO = SERVED["generation"]
OWN = dict(SCENARIO.texts)
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


@devices
@pytest.mark.parametrize("size", [16, 32])
def test_the_texts_equal_those_of_plain_attention_over_contiguous_keys(device, size):
    made = generate(SCENARIO.visits, OWN, SCENARIO.slots // size, size, device)
    assert made.equal and made.texts == {n: contiguous(OWN["R"] + OWN[n], len(made.texts[n])) for n in "ABC"}
    assert {name: len(text) for name, text in made.texts.items()} == {"A": 13, "B": 10, "C": 15}
    assert made.reused == dict.fromkeys("ABC", 38)
    without = generate(SCENARIO.visits, OWN, SCENARIO.slots // size, size, "")
    assert (without.texts, without.chosen, without.equal) == (made.texts, made.chosen, None)
    assert len(made.chosen) == len(SCENARIO.steps(size))


@devices
def test_requests_read_the_same_pages_of_their_prompt_and_write_into_their_own(device):
    loop, size = PagedLoop(16, 16, device), 16
    steps = SCENARIO.steps(size)
    for step in steps[:5]:
        loop.step(step, OWN)
    s, a, b, c = loop.cache.sequences
    assert s.table[:2] == a.table[:2] == b.table[:2] == c.table[:2]
    assert len({one.table[2] for one in (s, a, b, c)}) == 4  # the half full page is copied on write
    assert [loop.cache.ref_counts[page] for page in s.table] == [4, 4, 1]
    assert loop.cache == play(SCENARIO.history(size), 16, size)[sum(len(step.events) for step in steps[:5])][0]


def test_the_keys_of_the_prompt_are_computed_once(monkeypatch):
    written, write = [], generation.reshape_and_cache

    def counted(key, *rest):
        written.append(len(key))
        write(key, *rest)

    monkeypatch.setattr(generation, "reshape_and_cache", counted)
    loop = PagedLoop(16, 16, "cpu")
    for step in SCENARIO.steps(16)[:3]:
        loop.step(step, OWN)
    assert written[:: generation.LAYERS] == [38, 15, 1, 10]  # S, A, then A's first character, then B


def test_a_text_of_another_length_than_its_visit_is_refused():
    with pytest.raises(ProblemError, match="The texts of B have another length than their visits"):
        generate(SCENARIO.visits, OWN | {"B": "Why?"}, 16, 16, "cpu")

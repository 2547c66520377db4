"""The scheduler: what it promises holds for any requests, and every step is what the block manager plays."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.errors import ProblemError
from kernels.kv_cache.manager import play
from kernels.kv_cache.scenarios import SERVED, Scenario
from kernels.kv_cache.scheduler import Visit, alone, read_visits, serve

BLOCK_SIZES = (8, 16, 32)


@st.composite
def visits(draw):
    """A prefix, perhaps, and up to seven requests, some of which are forked from one that stands before them."""
    found = [Visit("P", 1, draw(st.integers(1, 50)), 0)] if draw(st.booleans()) else []
    for n in range(draw(st.integers(1, 7))):
        parent = draw(st.sampled_from(found)) if found and draw(st.booleans()) else None
        arrives = draw(st.integers(parent.arrives if parent else 1, 12))
        prompt, answer = draw(st.integers(0 if parent else 1, 40)), draw(st.integers(1, 12))
        found.append(Visit("ABCDEFG"[n], arrives, prompt, answer, parent.name if parent else ""))
    return tuple(found)


@settings(max_examples=60, deadline=None)
@given(visits(), st.sampled_from(BLOCK_SIZES), st.integers(12, 40))
def test_nobody_is_thrown_out_and_everybody_writes_what_was_asked_for(asked, block_size, pages):
    try:
        steps = serve(asked, pages, block_size)
    except ProblemError as error:
        assert "needs" in str(error) and "can be free" in str(error)
        return
    states = play([event for step in steps for event in step.events], pages, block_size)  # raises if a page lacks
    start = {name: step.number for step in steps for name in step.admitted}
    begun = {name: tokens for step in steps for name, tokens in zip(step.admitted, step.begun)}
    for visit in asked:
        decodes = [step.number for step in steps if visit.name in step.decoded]
        assert start[visit.name] >= visit.arrives
        assert decodes == list(range(start[visit.name] + 1, start[visit.name] + 1 + visit.answer))
        lengths = [len(s.tokens) for cache, _ in states for s in cache.sequences if s.name == visit.name]
        assert max(lengths) == begun[visit.name] + visit.prompt + visit.answer
        waits = [step.number for step in steps if visit.name in step.waiting]
        assert waits == list(range(visit.arrives, start[visit.name]))
    order = sorted(asked, key=lambda visit: visit.arrives)
    assert [name for step in steps for name in step.admitted] == [visit.name for visit in order]
    assert all(step.sure >= 0 for step in steps)
    assert all(step.sure < step.needed for step in steps if step.waiting)


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("scenario", SERVED.values(), ids=SERVED)
def test_a_served_scenario_ends_with_somebody_there(scenario, block_size):
    states = scenario.states(block_size)
    assert states[-1][0].sequences and len(states) - 1 == len(scenario.history(block_size))
    assert len(scenario.steps(block_size)) <= 50
    longest = max(len(s.tokens) for cache, _ in states for s in cache.sequences)
    assert longest <= scenario.max_len


def test_pages_of_who_is_finished_are_taken_by_others_and_a_server_without_pages_shares_none():
    changes = [change for _, change in SERVED["one_prompt"].states(16)[1:]]
    released = {page for change in changes for page in change.released if change.event.name == "B"}
    taken = {change.event.name for change in changes for _, page in change.allocated if page in released}
    assert released and taken == {"B", "C", "C2", "E"}
    steps = serve(read_visits("A 1 20 2, B 2 5 2 A, C 9 0 3 A"), 8, 16)
    assert [step.number for step in steps if "A" in step.freed] == [10]
    assert next(step.begun for step in steps if "C" in step.admitted) == (22,)
    scenario, pool = SERVED["one_prompt"], 256 // 96
    steps = serve(alone(scenario.visits, scenario.steps(16)), pool, 96)
    states = play([event for step in steps for event in step.events], pool, 96)
    assert max(len(cache.sequences) for cache, _ in states) == pool == 2
    assert all(len(s.table) == 1 for cache, _ in states for s in cache.sequences)
    assert len(steps) > len(scenario.steps(16))
    whole = "A 2 53 14, B 3 58 8, C 4 50 22, C2 9 55 12, D 6 69 10, E 10 30 14"
    assert SERVED["nothing_shared"].visits == read_visits(whole)


def test_a_fork_of_one_that_decodes_shares_all_its_pages_until_one_of_both_writes():
    """55 tokens in pages of 16: the last page holds 7. The first to write copies it, the other one does not."""
    steps = serve(read_visits("A 1 50 9, B 6 0 3 A"), 8, 16)
    assert [(step.admitted, step.begun) for step in steps if step.admitted] == [(("A",), (0,)), (("B",), (55,))]
    states = play([event for step in steps for event in step.events], 8, 16)
    forked = next(n for n, (_, change) in enumerate(states) if change and change.event.action == "fork")
    assert states[forked][0].find("A").table == states[forked][0].find("B").table and not states[forked][1].allocated
    (cache, first), (after, second) = states[forked + 1 : forked + 3]
    assert (first.event.name, first.copied) == ("A", (3, 4)) and (second.event.name, second.copied) == ("B", None)
    assert after.find("A").table == (0, 1, 2, 4) and after.find("B").table == (0, 1, 2, 3)
    assert [len(s.tokens) for s in after.sequences] == [56, 56]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A 1 20", "Request 1 is 'A 1 20'. Write NAME ARRIVES PROMPT ANSWER"),
        ("A 1 20 4, A 2 5 5", "The name of request 2 is 'A'"),
        ("A 0 20 4", "A arrives at step 0. The first step is 1."),
        ("A 1 0 4", "A has a prompt of 0 tokens. Only another answer of a parent may have this."),
        ("A 1 9 4, B 2 0 0 A", "B has a prompt of 0 tokens"),
        (
            "A 3 20 4, B 2 5 5 A",
            "The parent of B is 'A'. Name an earlier request in the list, with the same or an earlier step.",
        ),
        ("A 1 20 0", "No request has an answer"),
        ("B 2 5 5 S, S 1 9 0", "The parent of B is 'S'"),
        (", ".join(f"A{n} 1 1 1" for n in range(13)), "The text has 13 requests. The limit is 12."),
        ("", "Request 1 is ''"),
    ],
)
def test_requests_that_cannot_be_are_refused_in_words(text, says):
    with pytest.raises(ProblemError, match=r".") as error:
        read_visits(text)
    assert says in str(error.value)


def test_what_never_fits_and_what_takes_too_long_is_refused():
    with pytest.raises(ProblemError, match="A needs 7 pages of 16 slots, and 4 of 4 can be free"):
        serve(read_visits("A 1 100 4"), 4, 16)
    with pytest.raises(ProblemError, match="A needs 3 pages of 16 slots, and 1 of 4 can be free"):  # S holds 3
        serve(read_visits("S 1 40 0, A 2 30 4 S"), 4, 16)
    with pytest.raises(ProblemError, match="more than 120 steps"):
        serve(read_visits("A 130 10 4"), 4, 16)
    assert Scenario("", "", (), 64, 64, read_visits("A 1 20 4")).history(16)[0].tokens == 20

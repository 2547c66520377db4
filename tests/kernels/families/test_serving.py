"""The scheduler: what it promises holds for any requests, and every step is what the block manager plays."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.errors import ProblemError
from kernels.families.paged.kv_cache import play
from kernels.families.paged.scenarios import SERVED, Scenario
from kernels.families.paged.serving import Visit, read_visits, serve, without_pages, write_visits

BLOCK_SIZES = (8, 16, 32)


@st.composite
def visits(draw):
    """A prefix, perhaps, and up to seven requests of which some begin with it."""
    found, prefix = [], draw(st.booleans())
    if prefix:
        found.append(Visit("P", 1, draw(st.integers(1, 50)), 0))
    for n in range(draw(st.integers(1, 7))):
        shares = prefix and draw(st.booleans())
        numbers = draw(st.tuples(st.integers(1, 12), st.integers(1, 40), st.integers(1, 12)))
        found.append(Visit("ABCDEFG"[n], *numbers, "P" if shares else ""))
    return tuple(found)


@settings(max_examples=60, deadline=None)
@given(visits(), st.sampled_from(BLOCK_SIZES), st.integers(12, 40))
def test_nobody_is_thrown_out_and_everybody_writes_what_was_asked_for(asked, block_size, pages):
    try:
        steps = serve(asked, pages, block_size)
    except ProblemError as error:
        assert "needs" in str(error) and "pages" in str(error)
        return
    states = play([event for step in steps for event in step.events], pages, block_size)  # raises if a page lacks
    prompts = {visit.name: visit.prompt for visit in asked}
    start = {name: step.number for step in steps for name in step.prefilled}
    for visit in asked:
        decodes = [step.number for step in steps if visit.name in step.decoded]
        assert start[visit.name] >= visit.arrives
        assert decodes == list(range(start[visit.name] + 1, start[visit.name] + 1 + visit.answer))
        lengths = [len(s.tokens) for cache, _ in states for s in cache.sequences if s.name == visit.name]
        assert max(lengths) == visit.prompt + visit.answer + prompts.get(visit.parent, 0)
        waits = [step.number for step in steps if visit.name in step.waiting]
        assert waits == list(range(visit.arrives, start[visit.name]))
    order = sorted(asked, key=lambda visit: visit.arrives)
    assert [name for step in steps for name in step.prefilled] == [visit.name for visit in order]
    assert all(step.sure >= 0 for step in steps)
    assert all(step.sure < step.needed for step in steps if step.waiting)


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("scenario", SERVED.values(), ids=SERVED)
def test_a_served_scenario_ends_with_somebody_there(scenario, block_size):
    states = scenario.states(block_size)
    assert states[-1][0].sequences and len(states) - 1 == len(scenario.history(block_size))
    assert len(scenario.steps(block_size)) <= 40
    longest = max(len(s.tokens) for cache, _ in states for s in cache.sequences)
    assert longest <= scenario.max_len


def test_pages_of_who_is_finished_are_taken_by_another():
    states = SERVED["busy_minute"].states(16)
    released = {page for _, change in states[1:] for page in change.released if change.event.name == "B"}
    later = [
        change
        for _, change in states[1:]
        if change.event.name in "EF" and {page for _, page in change.allocated} & released
    ]
    assert released and {change.event.name for change in later} == {"E", "F"}


def test_a_server_without_pages_gives_each_its_slots_and_shares_none():
    scenario = SERVED["busy_minute"]
    steps = without_pages(scenario.visits, scenario.slots, scenario.max_len)
    states = play([event for step in steps for event in step.events], scenario.slots // scenario.max_len, 96)
    assert max(len(cache.sequences) for cache, _ in states) == 2 == scenario.slots // scenario.max_len
    assert all(len(s.table) == 1 for cache, _ in states for s in cache.sequences)
    assert len(steps) > len(scenario.steps(16))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A 1 20", "Request 1 is 'A 1 20'; it must be NAME ARRIVES PROMPT ANSWER"),
        ("A 1 20 4, A 2 5 5", "Request 2 is called 'A'"),
        ("A 0 20 4", "A arrives at step 0 with 20 tokens; both begin at 1."),
        ("A 1 20 4, B 2 5 5 A", "B begins with 'A'; it must be a request listed before it that has no answer"),
        ("B 2 5 5 S, S 1 9 0", "B begins with 'S'"),
        (", ".join(f"A{n} 1 1 1" for n in range(13)), "requests are 13; at most 12"),
        ("", "Request 1 is ''"),
    ],
)
def test_requests_that_cannot_be_are_refused_in_words(text, says):
    with pytest.raises(ProblemError, match=r".") as error:
        read_visits(text)
    assert says in str(error.value)


def test_requests_are_written_as_they_are_read():
    text = "S 1 44 0, A 2 9 14 S, B 3 14 8"
    assert write_visits(read_visits(text)) == text


def test_what_never_fits_and_what_takes_too_long_is_refused():
    with pytest.raises(ProblemError, match="A needs 7 pages of 16 slots, and the pool has 4"):
        serve(read_visits("A 1 100 4"), 4, 16)
    with pytest.raises(ProblemError, match="more than 120 steps"):
        serve(read_visits("A 130 10 4"), 4, 16)
    assert Scenario("", "", (), 64, 64, read_visits("A 1 20 4")).history(16)[0].tokens == 20

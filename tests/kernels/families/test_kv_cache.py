"""The block manager over random histories, and the layouts: no page is lost, held twice without a fork, or leaked; and
attention over the pages is attention over contiguous memory."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.build import Mode
from kernels.catalog import KERNELS
from kernels.core import reference
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import OutOfBlocks, ProblemError
from kernels.families.paged.cache import CacheCopyProblem, CacheWriteProblem
from kernels.families.paged.fields import K_STREAM, V_STREAM, random_rows
from kernels.families.paged.problem import PagedProblem
from kernels.kv_cache.layout import Layout
from kernels.kv_cache.manager import Event, KVCache, play
from kernels.kv_cache.scenarios import PRESETS, read_events, write_event
from kernels.run import execute
from kernels.run.backends import cpu

NAMES = "ABCDE"
EVENTS = st.one_of(
    st.builds(Event, st.sampled_from(["add", "append"]), st.sampled_from(NAMES), st.integers(1, 40)),
    st.builds(Event, st.just("fork"), st.sampled_from(NAMES), parent=st.sampled_from(NAMES)),
    st.builds(Event, st.just("free"), st.sampled_from(NAMES)),
)
HISTORIES = st.lists(EVENTS, max_size=30)


def apply_all(events, num_blocks=14, block_size=8):
    """The states and changes of a history, refused events left out."""
    states = [(KVCache(num_blocks, block_size), None)]
    for event in events:
        try:
            states.append(states[-1][0].apply(event))
        except ProblemError:
            continue
    return states


@given(HISTORIES)
@settings(deadline=None, max_examples=200)
def test_no_page_is_lost_leaked_or_held_twice_without_a_fork(events):
    for cache, _ in apply_all(events):
        held = set(cache.ref_counts)
        assert (
            held | set(cache.free) == set(range(cache.num_blocks))
            and not held & set(cache.free)
            and len(set(cache.free)) == len(cache.free)
        )
        for sequence in cache.sequences:
            assert len(sequence.table) == -(-len(sequence.tokens) // cache.block_size) == len(set(sequence.table))
        for page, count in cache.ref_counts.items():
            holders = [s for s in cache.sequences if page in s.table]
            assert len(holders) == count
            assert len({(s.family, s.table.index(page)) for s in holders}) == 1
            at = holders[0].table.index(page) * cache.block_size
            assert (
                len({s.tokens[at : at + cache.block_size] for s in holders}) == 1
            )  # what is shared is the same tokens
    for name in [s.name for s in cache.sequences]:
        cache, _ = cache.apply(Event("free", name))
    assert sorted(cache.free) == list(range(cache.num_blocks))


@given(HISTORIES)
@settings(deadline=None, max_examples=100)
def test_a_refused_event_says_why_and_changes_nothing(events):
    cache = KVCache(5, 8)
    for event in events:
        before = replace(cache)
        try:
            cache, _ = cache.apply(event)
        except OutOfBlocks as error:
            assert f"{len(cache.free)} of 5 are free" in str(error) and cache == before
        except ProblemError as error:
            assert event.name in str(error) or event.parent in str(error)
            assert cache == before


def rows(stream, numbers, layout, seed=0):
    return random_rows(seed, stream, max(numbers) + 1, (layout.num_kv_heads, layout.head_dim), layout.dtype)[
        list(numbers)
    ]


@given(HISTORIES)
@settings(deadline=None, max_examples=60)
def test_attention_over_the_pages_is_attention_over_contiguous_memory_after_any_history(events):
    layout = Layout(14, 2, 64, 8, "float32")
    k_cache, v_cache = np.full(layout.k_shape, np.nan, np.float32), np.full(layout.v_shape, np.nan, np.float32)
    states = apply_all(events)
    for _, change in states:  # the cache lives: only what each change says is written or copied
        if change and change.copied:
            for array in (k_cache, v_cache):
                array[change.copied[1]] = array[change.copied[0]]
        if change and change.written:
            numbers, slots = zip(*change.written)
            layout.write(k_cache, v_cache, slots, rows(K_STREAM, numbers, layout), rows(V_STREAM, numbers, layout))
    q = np.random.default_rng(1).standard_normal((4, 64))
    for sequence in states[-1][0].sequences:
        paged = layout.gather(k_cache, v_cache, sequence.table, len(sequence.tokens))
        contiguous = rows(K_STREAM, sequence.tokens, layout), rows(V_STREAM, sequence.tokens, layout)
        assert all(np.array_equal(a, b) for a, b in zip(paged, contiguous))
        assert np.array_equal(
            reference.decode_attention(q, *paged, 0.125, np.zeros(4))[0],
            reference.decode_attention(q, *contiguous, 0.125, np.zeros(4))[0],
        )


@pytest.mark.parametrize("preset", PRESETS)
def test_the_real_kernels_keep_the_cache_that_the_manager_describes(preset):
    """reshape_and_cache and copy_blocks play the history; paged_v1 then reads that cache; its output is that of
    attention over contiguous memory."""
    states, layout = PRESETS[preset].states(16), Layout(PRESETS[preset].slots // 16, 2, 64, 16, "float32")
    arrays = {
        "k_cache": np.full(layout.k_shape, np.nan, np.float32),
        "v_cache": np.full(layout.v_shape, np.nan, np.float32),
    }
    for _, change in states:
        if change and change.copied:
            launch(
                "copy_blocks",
                CacheCopyProblem(2, 64, 16, num_blocks=layout.num_blocks, copies=(change.copied,)),
                arrays,
                {},
            )
        if change and change.written:
            numbers, slots = zip(*change.written)
            launch(
                "reshape_and_cache",
                CacheWriteProblem(2, 64, 16, num_blocks=layout.num_blocks, slots=slots),
                arrays,
                {"key": rows(K_STREAM, numbers, layout), "value": rows(V_STREAM, numbers, layout)},
            )
    cache = states[-1][0]
    problem = PagedProblem.of_cache(cache)
    wanted = problem.inputs()
    held = np.array([page for s in cache.sequences for page in s.table])
    for name in ("k_cache", "v_cache"):
        mine, theirs = arrays[name][held], wanted[name][held]
        assert np.array_equal(mine[~np.isnan(theirs)], theirs[~np.isnan(theirs)])
    o = launch("paged_v1", problem, arrays, {})["o"]
    for n, sequence in enumerate(cache.sequences):
        true, _ = reference.decode_attention(
            wanted["q"][n],
            rows(K_STREAM, sequence.tokens, layout),
            rows(V_STREAM, sequence.tokens, layout),
            problem.scale,
            problem.slopes,
        )
        assert np.abs(o[n] - true).max() < 1e-6


def launch(name, problem, cache_arrays, others):
    made, plan, arrays = execute.prepare(Request(KERNELS[name], problem), Mode.TIMED)
    arrays |= cache_arrays | {key: np.ascontiguousarray(value) for key, value in others.items()}
    cpu.launch(made, plan, arrays, Scope())
    return arrays


@given(HISTORIES, st.integers(0, 2**31))
@settings(deadline=None, max_examples=50)
def test_a_shuffle_moves_pages_and_nothing_else(events, seed):
    cache = apply_all(events)[-1][0]
    moved = cache.shuffled(seed)
    assert [(s.name, s.tokens, len(s.table)) for s in moved.sequences] == [
        (s.name, s.tokens, len(s.table)) for s in cache.sequences
    ]
    assert Counter(moved.ref_counts.values()) == Counter(cache.ref_counts.values())
    assert set(moved.free) | set(moved.ref_counts) == set(range(cache.num_blocks))


def test_a_fork_shares_and_the_first_write_copies():
    states = play(read_events("add S 20, fork A S, append A 1, append S 1"), 8, 16)
    forked, (copied, change), (last, second) = states[2][0], states[3], states[4]
    assert forked.find("A").table == forked.find("S").table == (0, 1) and dict(forked.ref_counts) == {0: 2, 1: 2}
    assert change.copied == (1, 2) and copied.find("A").table == (0, 2) and copied.find("S").table == (0, 1)
    assert second.copied is None and last.find("S").table == (0, 1)  # alone in page 1 by now: no second copy


def test_usage_counts_slack_and_what_contiguous_memory_would_waste():
    cache = play(read_events("add A 20, fork B A"), 8, 16)[-1][0]
    assert cache.usage(100) == {"held": 32, "used": 20, "slack": 12, "reserved": 200, "copies": 20, "empty": 160}


def test_out_of_blocks_says_how_many_are_free_and_needed():
    cache = play(read_events("add A 20"), 3, 16)[-1][0]
    with pytest.raises(OutOfBlocks, match="30 tokens for B need 2 more pages of 16 slots. 1 of 3 are free"):
        cache.apply(Event("add", "B", 30))
    with pytest.raises(OutOfBlocks, match="^Event 2: 300 tokens for A"):
        play(read_events("add A 20, append A 300"), 3, 16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("add A", "Event 1 is 'add A'. Write add NAME TOKENS"),
        ("add A 5, jump B", "Event 2 is 'jump B'"),
        ("add A -3", "Event 1 is 'add A -3'"),
        ("add A 5, add A 5", "A sequence 'A' exists already"),
        ("append X 5", "no sequence 'X'. The cache has: none"),
        ("add A 0", "gets 0 tokens"),
        ("add <b> 5", "The name of a sequence is '<b>'"),
        ("add A 5, fork B C", "no sequence 'C'"),
        ("", "Event 1 is ''"),
    ],
)
def test_an_event_that_cannot_be_is_refused_by_number(text, message):
    with pytest.raises(ProblemError, match=message):
        play(read_events(text), 8, 16)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
@pytest.mark.parametrize("block_size", [8, 16, 32])
def test_every_preset_plays_at_every_block_size_and_can_be_written_and_read(preset, block_size):
    cache = preset.states(block_size)[-1][0]
    assert cache.sequences and cache.usage(preset.max_len)["empty"] > cache.usage(preset.max_len)["slack"]
    assert read_events(", ".join(map(write_event, preset.events))) == preset.events

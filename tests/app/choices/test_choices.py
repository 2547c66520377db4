"""What pages ask, and what of a link they take: the one module behind every page, without a page."""

from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

import pytest
from pages import page_of

from app.choices import places
from app.choices.choice import Choice
from app.choices.links import read_link
from app.choices.page import NONE
from app.stories import STORIES
from app.stories.block_table import history
from app.stories.compare import timed
from explainers.stories.compare import pair_times
from explainers.story.builds import fields_of_build
from kernels.catalog import KERNELS, current
from kernels.core.fields import fields_of, problem_field, write_value
from kernels.core.launch import Constant
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError
from kernels.families.sparse.problem import MaskFields

PAGES = {path: page_of(path) for path in STORIES}
WITH_KERNELS = {name: page for name, page in PAGES.items() if page.kernels}


def read(page, link=""):
    return read_link(page, dict(parse_qsl(link)))


def requests(page, state):
    """What a state asks for, side by side."""
    made = []
    for side in page.sides:
        settings = tuple(page.settings_of(state, side).items())
        made.append(Request(page.kernel_of(state, side), page.problem_of(state), settings, Scope()))
    return made


def test_a_page_refuses_masks_of_too_many_pairs_before_any_list_is_made(monkeypatch):
    for page in (page_of("sparsity"), page_of("compare")):  # the masks of the defaults are made here
        read(page, f"{'a' if page is page_of('compare') else 'kernel'}=block_sparse")
    monkeypatch.setattr(MaskFields, "masks", property(lambda self: pytest.fail("a mask is made")))
    for page in (page_of("sparsity"), page_of("compare")):
        name = "a" if page is page_of("compare") else "kernel"
        state, _ = read(page, f"{name}=block_sparse&seq_len=65536")
        with pytest.raises(ProblemError, match=r"4,294,967,296 pairs .* seq_len 65536.* Choose a smaller seq_len"):
            page.request_of(state)
    state |= {"seq_len": 16384}
    assert page_of("compare").problem_of(state).seq_len == 16384


# ---- every page ----


@pytest.mark.parametrize("name", PAGES)
def test_an_empty_link_gives_the_beginnings_and_ignores_nothing(name):
    state, ignored = read(PAGES[name])
    assert not ignored
    known = PAGES[name].choices(state)
    assert set(state) == set(known)
    assert (
        state == {n: c.default for n, c in known.items()} or name == "block_table"
    )  # whose moment is the scenario's end
    for request in requests(PAGES[name], state) if PAGES[name].kernels and not PAGES[name].without else ():
        assert request.plan.items


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_nonsense_is_replaced_by_the_beginning_and_told_for_every_choice(name):
    page, begin = PAGES[name], read(PAGES[name])[0]
    for choice, known in page.choices(begin).items():
        if known.check or known.late or isinstance(known.default, str) and known.allowed is None:
            continue
        state, ignored = read(page, f"{choice}=<b>x</b>")
        assert state == begin and len(ignored) == 1 and ignored[0].startswith(f"{choice}"), choice
        assert "<b>x</b>" in ignored[0]


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_every_field_and_every_constant_is_a_choice_of_every_kernel(name):
    page = PAGES[name]
    first = "kernel" if page.sides == ("",) else page.sides[0]
    for kernel, spec in page.kernels.items():
        state, ignored = read(page, f"{first}={kernel}")
        assert not ignored and page.kernel_of(state) == spec
        fields = set(fields_of(spec.problem_type)) - set(page.without)
        own = {c.name for c in spec.constants if not (c.what_if and page.one_what_if)}
        side = "" if page.sides == ("",) else f"{page.sides[0]}_"
        assert fields | {f"{side}{name}" for name in own} <= set(state)
        assert set(page.settings_of(state)) == {c.name for c in spec.constants}


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_a_link_written_from_a_state_is_read_back(name):
    page = PAGES[name]
    for kernel in page.kernels:
        state = read(page, f"{'kernel' if page.sides == ('',) else page.sides[0]}={kernel}")[0]
        again, ignored = read_link(page, {n: write_value(v) for n, v in state.items() if write_value(v) != ""})
        assert again == state and not ignored


@pytest.mark.parametrize(
    ("path", "parameter", "value", "words"),
    [
        ("tiling", "kernel", "99_magic", "kernel is '99_magic'. It must be one of"),
        ("tiling", "seq_len", "-4", "seq_len is -4"),
        ("tiling", "head_dim", "48", "head_dim is 48"),
        ("tiling", "BLOCK_Q", "7", "BLOCK_Q is 7"),
        ("tiling", "at_tile", "4", "Here it can be 0 to 3"),
        ("tiling", "row", "16", "Here it can be 0 to 15"),
        ("tiling", "what_if", "RECALL", "what_if is RECALL"),
        ("tiling", "backend", "tpu", "backend is tpu"),
        ("tiling", "score_scale", "nan", "score_scale is nan"),
        ("tiling", "RESCALE", "0", "RESCALE is not a choice"),
        ("tiling", "kernel", "03_flesh", "Did you mean 03_flash?"),
        ("tiling", "seqlen", "4", "seqlen is not a choice of this page. Did you mean seq_len?"),
        ("compare", "a", "99_magic", "a is '99_magic'"),
        ("compare", "a_BLOCK_Q", "64", "a_BLOCK_Q is 64"),
        ("compare", "b_PAD_QK", "3", "b_PAD_QK is 3"),
        ("compare", "at_query", "128", "Here it can be 0 to 127"),
        ("compare", "at_head", "9", "Here it can be 0 to 1"),
        ("block_table", "scenario", "zoo", "scenario is zoo. It must be one of two_chats"),
        ("block_table", "scenario", "by_hand", "scenario is by_hand. It must be one of two_chats"),
        ("block_table", "events", "add A 20", "events is not a choice of this page."),
        ("block_table", "moment", "99", "moment is 99. Here it can be 0 to 12"),
        ("block_table", "sequence", "9", "sequence is 9. Here it can be 0 to"),
        ("block_table", "head", "4", "head is 4. Here it can be 0 to 3"),
        ("block_table", "num_kv_heads", "3", "num_heads is 4 and num_kv_heads 3"),
        ("block_table", "head_dim", "72", "head_dim is 72"),
        ("block_table", "PARTITION", "33", "PARTITION is 33"),
        ("block_table", "shuffle", "-1", "shuffle is -1"),
        ("block_table", "seq_len", "64", "seq_len is not a choice of this page"),
        ("block_table", "context_lens", "3,4", "context_lens is not a choice of this page"),
        ("block_table", "view", "x", "view is x"),
    ],
)
def test_nonsense_is_replaced_and_told_in_words(path, parameter, value, words):
    state, ignored = read(page_of(path), f"{parameter}={value}")
    assert state == read(page_of(path))[0]
    assert len(ignored) == 1 and words in ignored[0]


# ---- tiling and online softmax ----


def test_a_link_of_a_story_is_read_as_it_was_written():
    state, ignored = read(
        page_of("tiling"),
        "kernel=01_naive&backend=cpu&what_if=SUBTRACT_MAX&seq_len=100&head_dim=64&batch=2&num_heads=3&causal=true"
        "&score_scale=2.5&seed=7&BLOCK_Q=8&BLOCK_KV=32&at_batch=1&at_head=2&at_tile=12&row=3",
    )
    assert not ignored
    problem = page_of("tiling").problem_of(state)
    assert page_of("tiling").settings_of(state) == {"BLOCK_Q": 8, "BLOCK_KV": 32, "SUBTRACT_MAX": 0}
    assert (problem.causal, problem.score_scale, problem.batch, problem.num_heads) == (True, 2.5, 2, 3)
    assert places.limits(page_of("tiling"), state) == {"at_batch": 1, "at_head": 2, "at_tile": 12, "row": 3}


def test_a_kernel_that_a_page_cannot_show_is_refused_with_the_reason():
    _, ignored = read(page_of("online_softmax"), "kernel=paged_v1")
    assert ignored[0].endswith('paged_v1 has no query tiles as items. Set item = "query tile" in its launches.')
    assert read(page_of("sparsity"), "kernel=03_flash")[1][0].endswith("03_flash solves a problem without a mask.")


def test_a_whatif_of_another_kernel_is_told():
    state, ignored = read(page_of("tiling"), "kernel=01_naive&what_if=RESCALE")
    assert state["what_if"] == NONE and "what_if is RESCALE. It must be one of none, SUBTRACT_MAX" in ignored[0]


def test_short_sequences_bring_the_row_into_range_without_a_word():
    state, ignored = read(page_of("online_softmax"), "seq_len=1")
    assert state["row"] == 0 and not ignored


def test_a_link_that_names_no_kernel_begins_with_one_that_has_what_it_names():
    assert read(page_of("coalescing"), "layout=strided")[0]["kernel"] == "lab_global"
    assert read(page_of("source"), "op=cp_async&width=16")[0]["kernel"] == "lab_access"


def test_another_kernel_keeps_what_was_chosen_and_begins_anew_where_nothing_was():
    state = read(page_of("occupancy"), "kernel=03_flash&seq_len=100&BLOCK_Q=32")[0]
    page_of("occupancy").take_kernel(state, "", "08b_three_bfloat16")
    own = KERNELS["08b_three_bfloat16"].settings()
    assert (state["seq_len"], state["BLOCK_Q"], state["BLOCK_KV"]) == (100, 32, own["BLOCK_KV"])
    page_of("occupancy").take_kernel(state, "", "lab_columns")
    assert "seq_len" not in state and set(state) == set(page_of("occupancy").choices(state))


# ---- however many there are ----


def test_six_constants_are_six_choices(monkeypatch):
    spec = KERNELS["03_flash"]
    more = tuple(Constant(f"EXTRA_{n}", 1, (1, 2, 4), "one more") for n in range(4))
    many = replace(spec, constants=(*spec.constants, *more))
    page = replace(page_of("tiling"), kernels={"03_flash": many})
    state, ignored = read(page, "EXTRA_0=2&EXTRA_1=4&EXTRA_2=2&EXTRA_3=4")
    assert not ignored and set(page.constants(state)) == {"BLOCK_Q", "BLOCK_KV", "PAD_K", *(c.name for c in more)}
    assert [page.settings_of(state)[c.name] for c in more] == [2, 4, 2, 4]


def test_a_build_depends_on_the_fields_that_change_its_constants():
    @dataclass(frozen=True)
    class Problem:
        length: int = problem_field(8, "how long", low=1, high=9)
        wide: bool = problem_field(False, "wide numbers", allowed=(False, True))

        @property
        def defines(self):
            return {"WIDE": int(self.wide)}

    assert fields_of_build(Problem) == {"wide"}
    assert fields_of_build(next(iter(current().of_family("dense").values())).problem_type) == {"head_dim"}


def test_a_beginning_that_cannot_be_is_not_taken():
    choice = Choice(4, (4, 8))
    assert choice.with_default(8).default == 8 and choice.with_default(16).default == 4


# ---- compare ----


def test_a_link_of_compare_says_both_sides():
    page = page_of("compare")
    state, ignored = read(
        page,
        "a=02_tiled&b=08b_three_bfloat16&a_BLOCK_Q=8&a_PAD_K=4&b_BLOCK_Q=64&b_BLOCK_KV=32&b_PAD=0&b_RESCALE=0"
        "&seq_len=100&num_heads=3&batch=2&causal=true&at_batch=1&at_head=2&at_query=70",
    )
    assert not ignored
    a, b = (request.constants for request in requests(page, state))
    assert (a["BLOCK_Q"], a["PAD_K"], b["PAD"], b["RESCALE"]) == (8, 4, 0, 0)


def test_compare_begins_with_two_rungs_of_the_ladder_in_the_builds_that_are_timed():
    a, b = requests(page_of("compare"), read(page_of("compare"))[0])
    assert b.kernel.changed_from == a.kernel.name and a.problem == b.problem
    row = pair_times.nearest(timed.times(a, b), a.problem)
    assert (
        row.asked
        and timed.of_page(a, b).asked
        and pair_times.problem_of(row, type(a.problem)).seq_len == a.problem.seq_len
    )


# ---- block table ----


def test_a_link_of_the_block_table_is_read_as_it_was_written():
    link = (
        "view=walk&scenario=requests&requests=A+1+20+4&moment=1&shuffle=3&num_blocks=9&kernel=paged_v2"
        "&sequence=0&head=7&num_heads=8&num_kv_heads=1&head_dim=96&block_size=8&dtype=float16&ranges=4&alibi=true"
        "&score_scale=2.5&seed=4&WARPS=2&PARTITION=128&backend=cpu"
    )
    state, ignored = read(page_of("block_table"), link)
    assert not ignored
    assert {name: write_value(value) for name, value in state.items()} == dict(parse_qsl(link, keep_blank_values=True))
    scenario = history.scenario_of(state)
    assert [(visit.name, visit.prompt, visit.answer) for visit in scenario.visits] == [("A", 20, 4)]
    assert scenario.states(8)[0][0].num_blocks == 9


def test_the_block_table_begins_at_the_scenarios_end():
    state = read(page_of("block_table"))[0]
    assert state["moment"] == len(history.scenario_of(state).events)
    assert history.scenario_of(state).states(16)[state["moment"]][0].sequences


def test_the_constants_of_every_kernel_of_the_block_table_are_choices():
    constants = {c.name for spec in page_of("block_table").kernels.values() for c in spec.constants}
    assert constants <= set(read(page_of("block_table"))[0])


def test_a_link_without_constants_takes_the_tuned_ones_where_the_defaults_are_refused():
    found = 0
    for page in (page_of(path) for path in ("any_kernel", "source")):
        for name, spec in page.kernels.items():
            state, told = read_link(page, {"kernel": name})
            problem = page.problem_of(state)
            spec.check_conditions(problem, page.settings_of(state))  # raises ProblemError
            chosen = {c.name: state.get(c.name) for c in spec.constants if not c.what_if}
            if chosen != {c.name: page.choice_of(c).default for c in spec.constants if not c.what_if}:
                found += 1
                assert not told and chosen.items() <= spec.settings_for(problem).items()
    assert found

"""What goes along from story to story: the same run, under the names that each story has for it."""

from itertools import permutations

import pytest
from pages import page_of

from app.stories import STORIES
from app.web import asking
from app.web.asking import translated
from explainers.story import picture
from kernels.run import workers

# Of each story with dense kernels: the same run, as a reader would choose it there. The tile holds queries 32 to 47 of
# head 1, and is item 10 of 16 (5 of a head).
RUN = {"seq_len": "70", "head_dim": "32", "num_heads": "3", "BLOCK_Q": "16", "BLOCK_KV": "8", "PAD_K": "4"}
TILE = {"at_head": "1", "at_tile": "2"}
CONSTANTS = {name: RUN[name] for name in RUN if name.isupper()}
FIELDS = {name: RUN[name] for name in RUN if not name.isupper()}
PLAIN = {"kernel": "03_flash", **RUN, "RESCALE": "0"}
ONE_WHAT_IF = {"kernel": "03_flash", **RUN, "what_if": "RESCALE", **TILE}
CHOSEN = {
    "tiling": ONE_WHAT_IF,
    "online_softmax": ONE_WHAT_IF,
    "registers": ONE_WHAT_IF,
    "bank_conflicts": PLAIN,
    "coalescing": PLAIN,
    "occupancy": PLAIN,
    "source": PLAIN,
    "any_kernel": {**PLAIN, "at_item": "7"},
    "compare": {
        "a": "03_flash",
        **FIELDS,
        **{f"a_{name}": value for name, value in CONSTANTS.items()},
        "a_RESCALE": "0",
        "at_head": "1",
        "at_query": "32",
    },
}


def ask(path, chosen, carried=True):
    made = asking.ask(STORIES[path], {**chosen, "backend": "cpu"}, workers.survey(), carried=carried)
    assert not made.error and (not made.told or not carried), (path, made.error, made.told)
    return made


def first(made):
    """The run's kernel, problem and constants, and the place, where the story has one."""
    what = next(iter(asking.requests_in(made.subject)), made.subject)
    return what.kernel.name, what.problem, what.kernel.settings(what.settings)


def placed(path, made):
    """The query tile that is traced, where the story has such a choice."""
    request = asking.requests_in(made.subject)[0]
    return picture.query_rows(request) if any(n.startswith("at_") for n in page_of(path).own) else None


@pytest.mark.parametrize(("here", "there"), list(permutations(CHOSEN, 2)))
def test_the_run_that_is_shown_goes_along_from_each_story_to_each_other(here, there):
    before, after = ask(here, CHOSEN[here], carried=False), ask(there, CHOSEN[here])
    assert first(after) == first(before)
    assert first(after)[2]["RESCALE"] == 0
    places = [placed(path, made) for path, made in ((here, before), (there, after))] if _has_place(here, there) else [0]
    assert len(set(places)) == 1, places


def _has_place(*paths):
    return all(any(name.startswith("at_") for name in page_of(path).own) for path in paths)


@pytest.mark.parametrize("path", [path for path in CHOSEN if path != "compare"])
def test_the_second_kernel_of_two_stays_as_it_stands(path):
    chosen = {**CHOSEN[path], "b": "01_naive", "b_BLOCK_Q": "8"}
    a, b = ask("compare", chosen).subject
    assert (a.kernel.name, a.constants["RESCALE"]) == ("03_flash", 0)
    assert (b.kernel.name, b.constants["BLOCK_Q"], b.broken) == ("01_naive", 8, ())
    assert ask(path, chosen).link["kernel"] == "03_flash"


@pytest.mark.parametrize(("kernel", "beside"), [("03_flash", "04_warp_rows"), ("paged_v1", "paged_v2")])
def test_beside_a_kernel_that_was_chosen_elsewhere_stands_another(kernel, beside):
    a, b = ask("compare", {"kernel": kernel}).subject
    assert (a.kernel.name, b.kernel.name) == (kernel, beside)


def test_the_newest_of_two_names_for_one_thing_counts():
    assert translated(page_of("tiling"), {"what_if": "RESCALE", "RESCALE": "1"}) == {"what_if": "none"}
    assert translated(page_of("tiling"), {"RESCALE": "0", "what_if": "none"}) == {"what_if": "none"}
    assert translated(page_of("tiling"), {"what_if": "SUBTRACT_MAX", "a_RESCALE": "0"}) == {"what_if": "RESCALE"}
    assert translated(page_of("tiling"), {"kernel": "01_naive", "a": "03_flash"}) == {"kernel": "03_flash"}
    assert translated(page_of("any_kernel"), {"kernel": "03_flash", "RESCALE": "0", "what_if": "none"}) == {
        "kernel": "03_flash",
        "SUBTRACT_MAX": "1",
        "RESCALE": "1",
    }
    tiles = {"kernel": "03_flash", "seq_len": "70", "BLOCK_Q": "16"}
    assert translated(page_of("tiling"), {**tiles, "at_tile": "1", "at_query": "50"})["at_tile"] == "3"
    assert translated(page_of("tiling"), {**tiles, "at_query": "50", "at_tile": "1"})["at_tile"] == "1"


@pytest.mark.parametrize("path", STORIES)
def test_nothing_chosen_leaves_each_story_at_its_own_beginning(path):
    assert ask(path, {}).link == ask(path, {}, carried=False).link


@pytest.mark.parametrize("path", ["tiling", "online_softmax", "registers", "block_table"])
def test_a_kernel_that_a_story_cannot_show_leaves_it_at_its_own(path):
    made = ask(path, {"kernel": "lab_columns", "stride": "33", "PAD": "1", "at_item": "0"})
    assert first(made)[:2] == first(ask(path, {}))[:2]

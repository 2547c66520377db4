"""The choices of Paging's two looks at work lists: what their kernels take, moments at which pages are shared, and the
cache in 8 bits."""

import pytest
from pages import page_of

from app.choices.links import read_link
from app.stories import STORIES
from app.stories.block_table.choices import kernels_with_ranges
from app.stories.block_table.subjects import moment_of
from app.web import asking, searching
from explainers.stories.block_table import ranges
from kernels.catalog import current
from kernels.core.scope import Scope
from kernels.recordings import run_index
from kernels.run import workers

STORY = STORIES["block_table"]


def ask(change=None, **link):
    return asking.ask(STORY, {"backend": "cpu"} | link, workers.survey(), change)


def test_each_look_runs_its_kernel_over_the_whole_cache():
    for view, spec in kernels_with_ranges(current()).items():
        what = ask(view=view).subject
        assert what.request.kernel == spec and ranges.shares(spec) == (view == "prefix")
        assert what.request.scope == Scope.everything(what.request.plan) and what.request.problem.ranges == 4


def test_the_sequence_the_head_and_the_moment_go_along_from_the_walk():
    walked = ask(scenario="one_long", moment="6", sequence="1", head="3")
    seen = ask(("view", "ranges"), **walked.link).subject
    assert seen.names == walked.subject.names and seen.place == (1, 3)
    assert seen.request.problem.context_lens == walked.subject.request.problem.context_lens


def test_what_the_kernel_does_not_take_is_told_and_begins_anew():
    asked = ask(view="ranges", dtype="float32", head_dim="96", num_heads="8")
    assert set(asked.told) == {"head_dim is 96. Here it can be 64, 128.", "dtype is float32. Here it can be float16."}
    problem = asked.subject.request.problem
    assert (problem.dtype, problem.head_dim, problem.num_heads) == ("float16", 64, 8)


def test_where_nothing_is_shared_a_prefix_is_looked_at_elsewhere_and_it_is_said():
    asked = ask(view="prefix", scenario="churn")
    assert asked.link["scenario"] == "shared_prompt"
    assert asked.told == ["In scenario churn, no two sequences share a whole page. Here it is shared_prompt."]
    assert len(asked.subject.names) == 3 and asked.subject.request.problem.prefix_pages.any()


def test_of_fields_that_nobody_chose_none_is_told_to_have_moved():
    begun = ask(view="walk").link
    asked = ask(("view", "ranges"), **begun)
    assert asked.told == [] and asked.link["dtype"] == "float16"
    asked = ask(("view", "ranges"), **begun | {"head_dim": "96"})
    assert asked.told == ["head_dim is 96. Here it can be 64, 128."]
    (told,) = ask(("view", "prefix"), **begun | {"moment": "5"}).told  # another cache than the one that was looked at
    assert told.endswith("share a whole page. Here it is shared_prompt.")


def test_at_a_moment_before_anything_is_shared_the_nearest_one_is_taken_and_it_is_said():
    asked = ask(view="prefix", scenario="shared_prompt", moment="1")
    assert asked.link["moment"] == "2"
    assert asked.told == ["After 1 events no two sequences share a whole page. After 2 they do."]


def test_what_these_kernels_do_not_compute_is_moved_and_not_offered():
    asked = ask(view="ranges", num_heads="32", num_kv_heads="1", dtype="float16")
    assert asked.told == ["num_kv_heads is 1, so 32 query heads share a KV head. Here at most 16 do."]
    assert asked.subject.request.problem.num_kv_heads == 2
    offered = {c["name"]: c for c in asked.choices}
    assert [o["value"] for o in offered["num_kv_heads"]["options"]] == ["2", "4", "8", "16", "32"]
    for name in ("dtype", "block_size", "head_dim"):  # whatever is offered can be chosen
        for option in offered[name]["options"]:
            assert not ask((name, option["value"]), view="ranges", dtype="float16").refused
    asked = ask(view="prefix", scenario="shared_prompt", alibi="true", dtype="float16")
    assert asked.told == ["alibi is true. Over a shared prefix it is not computed."] and not asked.error


def test_recordings_of_ranges_are_as_allocated_in_as_many_ranges_as_pages_begin_with():
    asked = ask(backend="recorded", view="ranges", ranges="7", shuffle="1")
    assert {"ranges is 7. Recorded is 4.", "shuffle is 1. Recorded is 0."} <= set(asked.told)
    assert asked.link["dtype"] == "float16"
    state = read_link(page_of("block_table"), asked.link)[0]
    request = moment_of(page_of("block_table"), state, "recorded").request_with_ranges()
    spec = request.kernel
    assert request.problem in [case.problem for case in spec.problem_type.recorded_cases(spec)]


def test_where_nothing_of_such_a_kernel_is_recorded_it_is_said_before_anything_is_made(monkeypatch):
    monkeypatch.setattr(run_index, "of", lambda spec: [])
    said = "Nothing is recorded of the present code of paged_v3. Choose another backend."
    assert ask(backend="recorded", view="ranges").error == said


def test_more_ranges_cut_a_sequence_into_more_pieces():
    pieces = []
    for count in (1, 4, 16):
        made = STORY.make(ask(view="ranges", scenario="one_long", sequence="0", ranges=str(count)).subject)
        ((_,), (parts,), _) = made.views[0].meta.lines
        pieces.append(sum("unit" in span.datum for span in parts.spans))
    assert pieces[0] == 1 and pieces == sorted(set(pieces))
    assert ask(("ranges", "17"), view="ranges").refused["ranges"].startswith("ranges is 17.")


@pytest.mark.parametrize("view", kernels_with_ranges(current()))
def test_every_tab_of_both_looks_has_something_to_say(view):
    what = ask(view=view).subject
    made = STORY.make(what)
    assert [tab.id for tab in made.tabs] == ["list", "merge", "builds", "data"]
    for tab in made.tabs:
        assert tab.blocks or STORY.parts[tab.id](what), tab.id


def test_without_recordings_of_it_a_scenario_that_is_not_recorded_is_refused_in_words():
    assert "Serving is not recorded" in ask(backend="recorded", view="ranges", scenario="long_prompt").error


def test_a_kernel_with_a_work_list_opens_at_its_own_view_and_the_link_names_it():
    """paged_v3 was refused: "kernel is 'paged_v3'. It must be one of paged_v1, paged_v2"."""
    for view, spec in kernels_with_ranges(current()).items():
        asked = ask(kernel=spec.name)
        assert asked.told == [] and asked.subject.request.kernel == spec and asked.headline.startswith(spec.name)
        assert (asked.link["kernel"], asked.link["view"]) == (spec.name, view)
        again = ask(**asked.link)
        assert again.subject == asked.subject and again.told == [] and again.link == asked.link
        (chip,) = [choice for choice in asked.choices if choice["name"] == "kernel"]
        assert chip["value"] == spec.name and spec.name in [option["value"] for option in chip["options"]]


def test_the_kernels_of_the_walk_and_of_the_ranges_lead_to_each_others_view():
    walked = ask().link
    v3 = kernels_with_ranges(current())["ranges"].name
    ranged = ask(("kernel", v3), **walked)
    assert ranged.refused == {} and ranged.subject.request.kernel.name == v3
    back = ask(("kernel", "paged_v2"), **ranged.link)
    assert (back.link["view"], back.subject.request.kernel.name) == ("walk", "paged_v2")
    assert ask(("view", "walk"), **ranged.link).subject.request.kernel.name == walked["kernel"]


def test_a_view_that_does_not_show_the_kernel_of_a_link_is_told():
    asked = ask(kernel="paged_v3", view="walk")
    assert asked.told == ["view is walk. The kernel of the link needs ranges."] and asked.link["view"] == "ranges"
    old = ask(kernel="paged_v1", view="ranges")  # the copied links of this view before it had a kernel
    assert old.told == [] and old.subject.request.kernel.name == "paged_v3"


def test_the_search_finds_the_kernels_with_a_work_list_on_this_page():
    links = {entry["link"] for entry in searching.everything(current()) if entry["kind"] == "kernel"}
    assert {f"block_table?kernel={kernel.name}" for kernel in kernels_with_ranges(current()).values()} <= links

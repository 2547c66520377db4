"""Compare's choices: two sides, their what-ifs, and both as they were timed."""

import re
from functools import cache
from urllib.parse import urlencode

import pytest
from conftest import KINDS
from pages import open_page, page_of, texts_in

from app.stories import pipeline as pipelines
from app.stories.compare import STORY, timed, verdict
from app.stories.compare import choices as compared
from app.web import asking
from explainers.stories.compare import pair_times
from explainers.story import glossary, stage
from explainers.story.glossary import figure
from kernels.measure import pipeline_bars as marks_of
from kernels.run import backends

SURVEY = backends.survey()


def asked(params, change=None):
    made = asking.ask(STORY, params, SURVEY, change)
    return made, {choice["name"]: choice for choice in made.choices}


@pytest.fixture(scope="module")
def begun():
    return asked({"backend": "cpu"})[0].link


def test_as_timed_sets_constants_and_problem_of_both_to_one_recorded_row(begun):
    made, choices = asked(begun, ("as_timed", "timed"))
    assert not made.error and choices["as_timed"]["value"] == "timed"
    a, b = made.subject
    row = timed.of_page(a, b)
    assert a.problem == b.problem == pair_times.problem_of(row, type(a.problem))
    for side, request in enumerate(made.subject):
        assert request.constants == pair_times.settings_of(row, side)
    again, choices = asked(made.link)  # the link alone says it
    assert again.subject == made.subject and choices["as_timed"]["value"] == "timed" and "as_timed" not in made.link
    changed, choices = asked(made.link, ("seed", "1"))
    assert choices["as_timed"]["value"] == "" and not changed.error


def test_a_what_if_is_one_choice_of_a_side_and_stands_in_the_link_as_its_constant(begun):
    _, choices = asked(begun)
    side = choices["b_what_if"]
    assert side["group"] == "what_if" and side["value"] == "none" and len(side["options"]) >= 2
    name = side["options"][1]["value"]
    made, choices = asked(begun, ("b_what_if", name))
    assert [c.name for c in made.subject[1].broken] == [name] and not made.subject[0].broken
    assert made.link[f"b_{name}"] != begun[f"b_{name}"] and f"b_{name}" not in choices
    assert choices["b_what_if"]["value"] == name and choices["a_what_if"]["value"] == "none"
    back, _ = asked(made.link, ("b_what_if", "none"))
    assert not back.subject[1].broken


def test_constants_are_labelled_by_their_side(begun):
    _, choices = asked(begun)
    build = [choice["label"] for choice in choices.values() if choice["group"] == "build"]
    assert build and all(label[:2] in ("A ", "B ") for label in build)


@KINDS
def test_another_problem_brings_two_kernels_that_solve_it(begun, chosen):
    for name in chosen(page_of("compare").kernels):
        spec = page_of("compare").kernels[name]
        made, choices = asked(begun, ("a", name))
        assert not made.error and made.subject[0].kernel == spec
        assert made.subject[1].kernel.problem_type is spec.problem_type
        assert (
            made.subject[0].problem != made.subject[1].problem
            or made.subject[0].kernel != made.subject[1].kernel
            or (made.subject[0].constants != made.subject[1].constants)
        ), f"{name} is compared with the very same"
        others = [o["value"] for o in choices["b"]["options"]]
        assert all(page_of("compare").kernels[other].problem_type is spec.problem_type for other in others)
        assert made.subject[1].kernel.name != name or len(others) == 1


@KINDS
def test_a_place_that_is_out_of_range_is_told_for_every_kind_of_kernel(begun, chosen):
    for name in chosen(page_of("compare").kernels):
        link = asked(begun, ("a", name))[0].link
        place = "at_query" if compared.by_matrices(page_of("compare"), {"a": link["a"], "b": link["b"]}) else "at_item"
        made, choices = asked({**link, place: "999999"})
        assert not made.error and any(place in said for said in made.told), name
        assert ("at_item" in choices) == (place == "at_item")


@pytest.mark.parametrize(
    ("kernel", "a", "b"),
    [
        ("lab_columns", {"stride": 32, "PAD": 0}, {"stride": 32, "PAD": 1}),
        ("lab_global", {"layout": "row_major"}, {"layout": "strided"}),
        ("lab_access", {"offsets": tuple(range(0, 512, 16))}, {"offsets": tuple(range(0, 128, 4))}),
        ("lab_chase", {"space": "through_l1"}, {"space": "from_l2"}),
        ("lab_fma", {"blocks": 2}, {"blocks": 4}),
    ],
)
def test_a_kernel_without_a_partner_stands_beside_itself_in_another_setting(kernel, a, b):
    made, choices = asked({"a": kernel, "backend": "cpu"})
    for request, values in zip(made.subject, (a, b)):
        assert (
            request.kernel.name == kernel and {**vars(request.problem), **request.constants}.items() >= values.items()
        )
    assert made.subject[0].problem != made.subject[1].problem or made.subject[0].constants != made.subject[1].constants
    fields = set(vars(made.subject[0].problem))
    assert all(
        choices[name]["label"] == f"A {name}" and choices[f"b_{name}"]["label"] == f"B {name}" for name in fields
    )
    assert all(choices[f"b_{name}"]["group"] == "problem" for name in fields)


def test_each_side_of_a_kernel_without_a_partner_has_a_problem_of_its_own():
    link = {"a": "lab_columns", "stride": "33", "b_stride": "16", "a_PAD": "0", "b_PAD": "2", "backend": "cpu"}
    made, _ = asked(link)
    assert not made.told and [request.problem.stride for request in made.subject] == [33, 16]
    changed, _ = asked(made.link, ("b_stride", "24"))
    assert [request.problem.stride for request in changed.subject] == [33, 24]
    told, _ = asked({"b_stride": "24", "backend": "cpu"})
    assert told.told == ["b_stride is not a choice of this page."]


def test_as_timed_and_a_what_if_of_a_link_are_taken_or_told(begun):
    made, choices = asked({**begun, "as_timed": "timed"})
    assert not made.told and choices["as_timed"]["value"] == "timed" and made.subject[0].problem.num_heads == 8
    made, choices = asked({**begun, "a_what_if": "RESCALE"})
    assert not made.told and choices["a_what_if"]["value"] == "RESCALE" and made.link["a_RESCALE"] == "0"
    made, _ = asked({**begun, "a_what_if": "RECALL", "as_timed": "yes"})
    assert made.told == [
        "as_timed is 'yes'. It must be one of timed.",
        "a_what_if is 'RECALL'. It must be one of none, SUBTRACT_MAX, RESCALE.",
    ]


def test_as_timed_is_lit_only_where_builds_and_problem_are_those_that_were_timed(begun, monkeypatch):
    assert asked(begun)[1]["as_timed"]["value"] == ""  # the builds are, the problem has fewer heads
    made, choices = asked({**begun, "as_timed": "timed"})
    assert choices["as_timed"]["value"] == "timed" and not choices["as_timed"]["disabled"]
    monkeypatch.setattr(timed, "_runs", lambda *args: False)
    choices = asked(made.link)[1]
    assert choices["as_timed"]["value"] == ""
    assert choices["as_timed"]["disabled"] == "no problem that has a time of both can run here"
    refused, _ = asked(begun, ("as_timed", "timed"))
    assert refused.refused == {"as_timed": "No problem that has a time of both can run here."}


def test_as_timed_takes_the_nearest_problem_that_can_run_here(begun):
    made, choices = asked({**begun, "seq_len": "4096", "batch": "4", "num_heads": "16", "head_dim": "128"})
    assert made.error  # too large for the CPU
    made, choices = asked(made.link, ("as_timed", "timed"))
    assert not made.error and not made.refused and choices["as_timed"]["value"] == "timed"


HOPPER = "compare?a=10_warp_roles&b=11_overlap&backend=cpu"


@cache
def hopper():
    return open_page(HOPPER)


def test_the_verdict_does_not_say_that_as_timed_sets_a_problem_while_it_is_disabled():
    page = hopper()
    why = page.choices["as_timed"]["disabled"]
    assert why and page.choices["as_timed"]["value"] == ""
    said = " ".join(block["text"] for block in page.tab("verdict")[:2])
    assert "As timed sets" not in said and f"As timed is off: {why}." in said
    row = timed.of_page(*page.asked.subject)
    both = timed.times(*page.asked.subject)
    assert f"Of {len(both)} timed problems" in said and f"{both.ratio.max():.3g} times as fast" in said
    assert row.ratio in set(both.ratio)


def test_where_a_run_cannot_say_why_the_recorded_pipelines_of_both_do():
    """The page said that it cannot explain, although marks of both are recorded."""
    page = hopper()
    lead, blocks = page.story.parts[page.stage.lead](page.asked.subject), page.tab("verdict")
    row = timed.of_page(*page.asked.subject)
    wanted = pair_times.problem_of(row, page.asked.subject[0].problem.problem_type)
    found = verdict.marked_of(page.asked.subject, wanted)
    a, b = found.a, found.b
    text = " ".join(block.get("text", "") for block in blocks)
    assert "reasons are not known" not in text and not any("reasons are not known" in block["text"] for block in lead)
    problem = stage.problem_said(a.request.problem)
    assert f"a problem of their own, not that of the times: {problem}. Recorded on {a.device}, {a.date}." in text
    ratio = f"{glossary.short(row.ratio, 3)} times"
    ends = {f"{glossary.short(r, 3)} times" for r in timed.times(*page.asked.subject).ratio}
    said = [page.stage.summary, text, *(block.get("text", "") for block in lead), *texts_in(page.stage.views)]
    assert {*re.findall(r"[\d.]+ times(?= as fast| \()", " ".join(said))} <= {
        ratio,
        *ends,
    } and ratio in page.stage.summary
    title, _ = bars_of(page)["time"]["title"]
    assert title.partition(", on ")[0] == f"Time at {pair_times.problem_said(row)}"
    needed = [marks_of.multiplying(made, 0) for made in (a, b)]  # one block on each multiprocessor
    assert f"for at least {needed[0]:.0%} of the time in A and {needed[1]:.0%} in B" in text
    phases = []
    for bars in (marks_of.bars(made, 0) for made in (a, b)):
        mine = bars[(bars.role == "consumer") & bars.tile.notna()]
        spent = (mine.end_ns - mine.start_ns).groupby(mine.event).sum()
        phases.append(spent / (mine.event == "tile_begin").sum())
    whole = re.search(r"key tile takes ([\d,.]+) ns .* in A and ([\d,.]+) ns in B\. (.*)", text)
    listed = re.findall(r"\(([\d,.]+) and ([\d,.]+) ns\)", whole[3].partition(". ")[0])
    assert "in all others (" in whole[3]
    for side in (0, 1):  # the list had -294 ns in all, and the tile -178
        parts = sum(float(pair[side].replace(",", "")) for pair in listed)
        assert parts == pytest.approx(float(whole[side + 1].replace(",", "")), abs=3)
    event = (phases[0] - phases[1]).abs().idxmax()
    assert f"({figure(phases[0][event], 3)} and {figure(phases[1][event], 3)} ns)" in text
    for block in (lead[-1], next(b for b in blocks if b.get("links"))):
        (way,) = block["links"]
        there = open_page(f"{way['story']}?{urlencode(way['query'])}")
        assert not there.asked.told and [r.kernel.name for r in there.asked.subject.requests] == [
            "10_warp_roles",
            "11_overlap",
        ]
        assert there.asked.subject.requests[0].problem == a.request.problem


def bars_of(page):
    """row -> its panel."""
    lines = next(view for view in page.stage.views if view["id"] == "bars")["meta"]["lines"]
    return {panel["bars"][0]["datum"]["row"]: panel for (panel,) in lines}


def test_wavefronts_that_leave_out_wgmma_and_tma_say_so_and_have_no_bar():
    """11_overlap showed 0.5625 wavefronts a query, as if it used no shared memory."""
    page = open_page("compare?a=06_mma&b=11_overlap&backend=cpu")
    a, b = bars_of(page)["wavefronts"]["bars"]
    assert a["value"] > 0 == b["value"]
    assert "not counted" not in a["text"] and b["text"].endswith("+ wgmma, TMA (not counted)")
    (table,) = [block for block in page.tab("differs") if block["kind"] == "table"]
    assert "leave out the accesses of B's wgmma and TMA" in table["caption"]


def test_a_pair_without_marks_in_common_still_says_that_it_cannot(monkeypatch):
    monkeypatch.setattr(pipelines, "recorded", lambda: ())
    page = open_page(HOPPER)
    assert any("The reasons are not known here" in block.get("text", "") for block in page.tab("verdict"))


# ---- the verdict's reasons ----

SHOWS = {  # what a reason's story shows at the step that its link names
    "Banks": lambda frames, step: _steps_of(frames, step) == max(_steps_of(frames, n) for n in range(len(frames))),
    "Tiles": lambda frames, step: _moved(frames, step) == max(_moved(frames, n) for n in range(len(frames))),
    "In registers": lambda frames, step: frames[step]["phase"] == "scores",
    "Occupancy": lambda frames, step: "together" in frames[step]["title"],
    "Any kernel": lambda frames, step: frames[step]["launch"] == max(frame["launch"] for frame in frames),
}


def _steps_of(frames, step):
    return sum(frame["access"] == frames[step]["access"] for frame in frames)


def _moved(frames, step):
    so_far = [sum(frame["bytes"].values()) for frame in frames[: step + 1]]
    return so_far[-1] - (so_far[-2] if step else 0)


@pytest.mark.parametrize(
    "link", ["compare?a=paged_v1&b=paged_v2&backend=cpu", pytest.param("compare?backend=cpu", marks=pytest.mark.slow)]
)
def test_each_reason_leads_to_its_story_at_the_step_that_shows_it_with_the_builds_of_its_side(link):
    page = open_page(link)
    row = timed.of_page(*page.asked.subject)
    blocks, found = page.tab("verdict"), 0
    for reason in blocks:
        for way in reason.get("links", []):
            there = open_page(f"{way['story']}?{urlencode(way['query'])}")
            assert not there.asked.told and not there.asked.error, there.asked.told
            what = next(iter(asking.requests_in(there.asked.subject)), there.asked.subject)
            side = "AB".index(way["text"][0])
            assert what.kernel == page.asked.subject[side].kernel
            assert what.kernel.settings(what.settings) == pair_times.settings_of(row, side)
            assert SHOWS[there.story.title](there.stage.frames, int(way["query"]["step"]) - 1), way
            found += 1
    assert found >= 2


def test_the_weightiest_reasons_stand_under_the_verdict_in_a_line_each():
    page = open_page("compare?backend=cpu")
    lead = page.story.parts[page.stage.lead](page.asked.subject)
    told = [block for block in page.tab("verdict") if block.get("links")]
    problem, *lines = lead
    assert 1 <= len(lines) <= 2 and "tokens" in problem["text"] and "links" not in problem
    for short, full in zip(lines, told):
        assert short["links"] == full["links"] and len(short["text"]) <= 120 and len(short["text"]) < len(full["text"])
        assert short["text"].partition(":")[0] == full["text"].partition(":")[0]
    assert open_page("compare?b_RESCALE=0&backend=cpu").stage.lead == ""  # a wrong kernel has no time to explain

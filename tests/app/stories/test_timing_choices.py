"""The timing page's own choices: sources, sweep, baseline and hidden lines, from a link and by a press."""

import json

import pytest
from pages import open_page

from app.measured import measuring
from app.store import disk
from app.stories import STORIES
from app.web import asking
from explainers.stories.timing import sweeps as timed_sweeps
from kernels.catalog import current
from kernels.measure.flashinfer_calls import other_layout
from kernels.run import workers


def pressed(page, name, value):
    """The request of the page after a press of an option."""
    option = next(o for o in page.choices[name]["options"] if o["value"] == value)
    return asking.ask(STORIES["timing"], page.asked.link, workers.survey(), (name, option["to"]))


def test_the_page_begins_with_the_longest_sweep_and_torch_as_its_baseline(times):
    page = open_page("timing")
    assert not page.asked.told and page.choices["baseline"]["value"] == "sdpa_efficient"
    assert "seq_len 128 to 1024" in page.stage.headline and len(page.stage.frames) == 4
    assert page.asked.link == {} and "gpus" not in page.choices
    assert [o["label"] for o in page.choices["hide"]["options"]][-1] == "torch efficient"
    assert all(o["on"] for o in page.choices["hide"]["options"])
    frame = page.stage.frames[0]["sentence"]  # 10 µs for each place among the kernels, at 128
    assert frame.startswith(
        "128 tokens: 01_naive takes 10 µs, 7.0 times as fast as torch efficient (70 µs). 02_tiled takes 20 µs"
    )


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("gpus=nobody's GPU", 'gpus names "nobody\'s GPU". Here it can name NVIDIA Test.'),
        ("sweep=over the moon", "sweep is 'over the moon'. Here no sweep has this name."),
        ("baseline=99_magic", "baseline is '99_magic'. Here it can be one of sdpa_efficient"),
        ("hide=99_magic", "hide names '99_magic'"),
        (f"hide={'|'.join(current().of_family('dense'))}|sdpa_efficient", "One line must stay"),
    ],
)
def test_a_wrong_value_of_a_link_is_told_and_the_default_is_shown(times, link, words):
    page = open_page(f"timing?{link}")
    assert any(words in said for said in page.asked.told), page.asked.told
    assert page.asked.link == {} and page.asked.subject == open_page("timing").asked.subject


def test_a_press_hides_a_line_and_another_brings_it_back(times):
    page = open_page("timing")
    made = pressed(page, "hide", "02_tiled")
    assert made.link == {"hide": "02_tiled"} and not made.told
    page = open_page("timing?hide=02_tiled")
    assert "02_tiled" not in page.stage.frames[0]["sentence"]
    assert "02_tiled" not in [state["name"] for state in page.stage.state]
    assert pressed(page, "hide", "02_tiled").link == {}


def test_the_last_line_cannot_be_hidden(times):
    page = open_page(f"timing?hide={'|'.join(current().of_family('dense'))}")
    on = [o for o in page.choices["hide"]["options"] if o["on"]]
    assert [(o["value"], o["why"]) for o in on] == [("sdpa_efficient", "One line must stay.")]


def test_another_sweep_keeps_what_applies_to_it(times):
    page = open_page("timing?hide=02_tiled&baseline=03_flash")
    other = next(o["value"] for o in page.choices["along"]["options"] if o["value"].startswith("batch"))
    made = asking.ask(STORIES["timing"], page.asked.link, workers.survey(), ("along", other))
    assert made.link == {"sweep": other, "hide": "02_tiled", "baseline": "03_flash"} and not made.told


def test_a_baseline_is_what_the_sentence_says(times):
    page = open_page("timing?baseline=02_tiled")
    assert "03_flash takes 30 µs, 1.5 times as long" in page.stage.frames[0]["sentence"]
    assert "01_naive takes 10 µs, 2.0 times as fast as 02_tiled (20 µs)" in page.stage.frames[0]["sentence"]


def test_the_tabs_are_made_and_the_files_hold_the_rows(times, cache):
    page = open_page("timing")
    assert [tab["id"] for tab in page.stage.tabs] == ["figures", "duels", "choice", "missing", "take"]
    assert len(next(b for b in page.tab("figures") if b["kind"] == "table")["rows"]) == 28
    files = {b["file"]: disk.read(b["url"].split("/")[3]) for b in page.tab("take") if b["kind"] == "download"}
    made = json.loads(files["warpglass-times.json"])
    assert len(made["rows"]) == 28 and made["baseline"] == "sdpa_efficient"
    assert files["warpglass-times.csv"].decode().count("\n") == len(made["rows"]) + 1
    assert files["warpglass-report.md"].startswith(b"# Attention: seq_len 128 to 1024")
    assert files["warpglass-latency.png"].startswith(b"\x89PNG") and files["warpglass-roofline.svg"].startswith(b"<svg")


def test_known_times_are_kept_until_they_change(times):
    found = timed_sweeps.known((), measuring.times())
    assert timed_sweeps.known((), measuring.times()) is found


def test_a_link_to_a_layout_that_is_not_drawn_leads_to_the_one_that_is():
    """The next recording may have another faster layout of FlashInfer."""
    sweep = "seq_len batch=8 num_heads=32 num_kv_heads=8 head_dim=128 causal=False dtype=float16"
    plain = open_page(f"timing?sweep={sweep}")
    drawn = [o["value"] for o in plain.choices["hide"]["options"] if o["value"].startswith("flashinfer_")]
    assert len(drawn) == len({name.split("_", 2)[2] for name in drawn}) >= 4
    others = [other_layout(name) for name in drawn]
    assert not {*others} & {*drawn}
    page = open_page(f"timing?sweep={sweep}&baseline={others[0]}&hide={others[1]}")
    assert not page.asked.told and page.choices["baseline"]["value"] == drawn[0]
    assert [o["value"] for o in page.choices["hide"]["options"] if not o["on"]] == [drawn[1]]


def choices_of(asked):
    return {choice["name"]: choice for choice in asked.choices}


def after(asked, name, value):
    made = asking.ask(STORIES["timing"], asked.link, workers.survey(), (name, value))
    assert not made.refused and not made.told and set(made.link) <= {"sweep", "baseline", "hide"}
    return made


def test_a_sweep_is_chosen_by_its_kind_its_problem_and_what_varies():
    """The list had 33 sweeps of 100 letters each. 18 of them were of constants of the fp32 rungs."""
    asked = open_page("timing").asked
    seen, shown = set(), choices_of(asked)
    assert "sweep" not in shown and len(shown["kind"]["options"]) == 5
    for kind in shown["kind"]["options"]:
        of_kind = after(asked, "kind", kind["value"])
        problems = choices_of(of_kind).get("problem", {"options": [{"value": ""}]})["options"]
        for problem in problems:
            made = after(of_kind, "problem", problem["value"]) if problem["value"] else of_kind
            along = choices_of(made).get("along", {"options": [{"value": made.link.get("sweep", "")}]})["options"]
            assert all(len(option.get("label", "")) < 50 for option in along)
            seen |= {option["value"] for option in along}
            constants = choices_of(made).get("constant", {"options": [], "group": "build"})
            assert constants["group"] == "build"  # in sight only with everything, behind More
            seen |= {option["value"] for option in constants["options"][1:]}
    known = timed_sweeps.known((), measuring.times())
    assert seen == set(known.sweeps)
    assert sum(sweep.of_constant for sweep in known.sweeps.values()) == 18


def test_a_sweep_of_a_constant_is_chosen_and_left_again():
    asked = after(open_page("timing").asked, "kind", "Attention")
    (first, second, *_) = choices_of(asked)["constant"]["options"]
    assert (first["value"], first["label"]) == ("", "none")
    made = after(asked, "constant", second["value"])
    assert made.link["sweep"] == second["value"] and choices_of(made)["constant"]["value"] == second["value"]
    back = after(made, "constant", "")
    assert choices_of(back)["constant"]["value"] == "" and choices_of(back)["kind"]["value"] == "Attention"


@pytest.mark.parametrize(
    ("part", "value"), [("kind", "Cooking"), ("problem", "head_dim 3"), ("along", "over the moon")]
)
def test_an_unknown_part_of_a_sweeps_name_is_refused(part, value):
    asked = open_page("timing").asked
    made = asking.ask(STORIES["timing"], asked.link, workers.survey(), (part, value))
    assert "Here no sweep has this name." in made.refused[part] and made.link == asked.link

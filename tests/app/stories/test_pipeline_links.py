"""A link to Pipeline names its recording by kernel, problem and constants, and keeps it whatever is recorded later."""

import pytest
from pages import open_page, page_of

from app.choices.links import read_link
from app.stories import pipeline as pipelines
from app.stories.pipeline import STORY
from app.web import asking
from kernels.run import backends

SURVEY = backends.survey()
KERNELS = list(dict.fromkeys(entry.request.kernel.name for entry in pipelines.recorded()))


def asked(params, change=None):
    return asking.ask(STORY, {"backend": "recorded", **params}, SURVEY, change)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_link_has_the_problem_and_the_constants_that_the_page_shows(kernel):
    """It had `recorded=0` and fields of another problem."""
    for number, entry in enumerate(pipelines.of(kernel)):
        made = asked({"kernel": kernel, "recorded": str(number)})
        assert made.subject.requests[0] == entry.request and "recorded" not in made.link and not made.told
        shown = {**vars(entry.request.problem), **entry.request.constants}
        for name, choice in page_of("pipeline").choices(read_link(page_of("pipeline"), made.link)[0]).items():
            if name in shown and name not in getattr(entry.request.problem, "follows", ()):
                assert choice.read(name, made.link[name]) == shown[name], name
        again = asked(made.link)
        assert again.subject == made.subject and again.link == made.link and not again.told


def test_one_more_recording_changes_no_link(monkeypatch):
    every = pipelines.recorded()
    links = [asked({"kernel": "11_overlap", "recorded": str(n)}).link for n in range(len(pipelines.of("11_overlap")))]
    shown = [asked(link).subject for link in links]
    monkeypatch.setattr(pipelines, "recorded", lambda: tuple(reversed(every)))
    assert [asked(link).subject for link in links] == shown and len({str(look) for look in shown}) == len(links) > 1


def test_without_a_problem_a_link_begins_at_the_kernels_first_recording():
    for kernel in KERNELS:
        made = asked({"kernel": kernel})
        assert made.subject.requests[0] == pipelines.of(kernel)[0].request and not made.told


def test_a_problem_that_is_not_recorded_is_told_and_the_nearest_recording_is_shown():
    made = asked({"kernel": "11_overlap", "seq_len": "777", "causal": "true"})
    assert made.subject.requests[0].problem.causal
    assert made.told == ["No recording has seq_len 777. The nearest one has 4096."]


def test_an_index_that_is_none_is_told():
    for index in ("99", "first"):
        made = asked({"kernel": "11_overlap", "recorded": index})
        assert made.subject.requests[0] == pipelines.of("11_overlap")[0].request
        assert made.told == [f"recorded is {index}. The last of 11_overlap is 2."]
    refused = asked({"kernel": "11_overlap"}, ("recorded", "99"))
    assert refused.refused == {"recorded": "recorded is 99. The last of 11_overlap is 2."}


def test_a_press_changes_the_recording_and_another_kernel_keeps_the_problem():
    made = asked({"kernel": "11_overlap", "block": "3"}, ("recorded", "1"))
    assert made.subject.requests[0] == pipelines.of("11_overlap")[1].request and made.subject.block == 0
    chosen = next(choice for choice in made.choices if choice["name"] == "recorded")
    assert chosen["value"] == "1" and not made.told
    other = asked(made.link, ("kernel", "09_wgmma"))
    assert other.subject.requests[0].problem == made.subject.requests[0].problem and not other.told


def test_the_kernel_beneath_is_the_tuned_one_in_any_order(monkeypatch):
    made = asked({"kernel": "11_overlap", "beneath": "10_warp_roles"})
    below = made.subject.requests[1]
    assert below.constants == below.kernel.settings_for(below.problem)


def test_an_index_of_another_page_is_not_carried_here():
    """Occupancy's `recorded` counts timelines."""
    assert "recorded" not in asking.translated(page_of("pipeline"), {"kernel": "11_overlap", "recorded": "2"})


def test_the_page_opens_from_an_old_link():
    page = open_page("pipeline?kernel=11_overlap&recorded=1&seq_len=4096&num_heads=8&head_dim=64&backend=recorded")
    assert not page.asked.told and "causal" in page.choices["recorded"]["options"][1]["label"]
    assert page.choices["recorded"]["value"] == "1" and page.asked.link["num_heads"] == "16"

"""The gallery: each bug from a run of both kernels, with its first wrong step and its cure."""

from dataclasses import replace

import pytest
from pages import flat, open_page, texts_in

from app.parts import running
from app.stories import STORIES
from app.web import asking
from explainers.stories.gallery import story, twins
from explainers.stories.gallery.story import STEPS
from explainers.stories.gallery.twins import STEP
from kernels.run import workers

BUGS = story.bugs()


# tests/kernels/exercises/test_exercises.py asks the other bugs.
SOME = [pytest.param(name, marks=[] if n % 2 else pytest.mark.slow) for n, name in enumerate(BUGS)]


@pytest.fixture(scope="module", params=SOME)
def page(request):
    return request.param, open_page(f"gallery?bug={request.param}")


def test_a_bug_goes_from_its_symptom_to_its_cure_in_headlines(page):
    name, opened = page
    frames = opened.stage.frames
    assert [frame["title"] for frame in frames] == ["Symptom", "First wrong step", "Cause", "Cure"]
    sentences = [frame["sentence"] for frame in frames]
    assert sentences[0] == BUGS[name].bug.symptom and len(set(sentences)) == len(STEPS)
    assert all(3 <= len(sentence.split()) <= 12 for sentence in sentences[1:]), sentences
    assert len(sentences[0].split()) <= 20


def test_its_picture_has_the_values_of_both_runs_and_rings_the_first_wrong_one(page):
    name, _ = page
    data = story.data_of(BUGS[name], running)
    faulty, right = data["faulty"], data["right"]
    assert len(faulty.flat) == len(right.flat) == len(faulty.names) * len(faulty.cells[0])
    assert any(cell.wrong and cell.part == STEP for cell in faulty.flat)
    assert not any(cell.wrong for cell in right.flat)
    first, cured = (grid.flat[at] for grid, at in zip((faulty, right), data["first"]))
    assert first.wrong and first.part == STEP == cured.part and cured.cured
    assert all(cell.text or not cell.part for cell in faulty.flat)
    assert {cell.part for cell in right.flat} == {cell.part for cell in faulty.flat}


def test_a_twin_without_the_fault_has_no_wrong_value(page):
    name, _ = page
    exercise = replace(BUGS[name], start=BUGS[name].solution)
    grids = [story.data_of(exercise, running)[key] for key in ("faulty", "right")]
    assert grids[0] == grids[1]
    assert not any(cell.wrong or cell.cured for cell in (*grids[0].flat, *grids[1].flat))


def test_the_cure_is_the_difference_of_the_two_texts(page):
    name, opened = page
    (view,) = opened.stage.views
    listing = view["meta"]["lines"][1][0]
    changed = [row for row in listing["rows"] if row["changed"]]
    assert changed and listing["lit"] == ["", "left", "left", "both"]
    for row in listing["rows"]:
        for number, text, whole in zip(row["numbers"], row["texts"], (BUGS[name].start, BUGS[name].solution)):
            assert (number is None) == (text is None)
            assert text is None or whole.splitlines()[number - 1].strip() == text.strip()


def test_the_list_has_eight_bugs_with_public_threads_and_two_ways_out(page):
    name, opened = page
    (cards,) = flat(opened.stage.side)
    assert [card["query"]["bug"] for card in cards["entries"]] == list(BUGS) and len(BUGS) == 8
    (now,) = [card for card in cards["entries"] if card["now"]]
    assert now["query"] == {"bug": name} and len(now["sources"]) >= 2
    assert all(address.startswith("https://github.com/") for _, address in now["sources"])
    assert [link["text"] for link in now["links"]] == ["Mend it yourself", "Step through it"]
    for link in now["links"]:
        made = asking.ask(STORIES[link["story"]], link["query"], workers.survey(), carried=False)
        assert not made.error and not made.told, (link, made.error, made.told)


def test_the_workbench_opens_with_the_exercise_of_a_bug():
    name = next(iter(BUGS))
    (view,) = open_page(f"workbench?exercise={name}").stage.views
    assert view["meta"]["exercise"] == name
    assert open_page("workbench").stage.views[0]["meta"]["exercise"] == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(float("nan"), "NaN"), (float("-inf"), "−∞"), (0.0, "0"), (-0.214, "−0.21"), (-12345.0, "−12k"), (3.0, "3")],
)
def test_a_number_has_few_letters(value, text):
    assert twins.figure(value) == text


def test_a_page_names_no_unknown_value(page):
    texts = [*texts_in(vars(page[1].stage))]
    assert texts and not [text for text in texts if "None" in text or "undefined" in text]

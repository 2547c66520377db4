"""The skeleton of a page works as it is, so that its copy works from the start."""

from pathlib import Path

from pages import decoded

import app.stories
from app.stories import STORIES
from app.stories.skeleton import STORY
from app.web import asking
from kernels.run import workers

LINK = {"backend": "cpu", "seq_len": "40", "num_heads": "1"}


def test_the_skeleton_shows_a_run_with_its_tabs():
    answer = asking.ask(STORY, LINK, workers.survey())
    assert not answer.error and not answer.told
    stage, _ = decoded(STORY.make(answer.subject))
    assert stage["frames"] and {tab["id"] for tab in stage["tabs"]} == {"values", "builds", "data"} == set(STORY.parts)
    assert decoded(STORY.parts["values"](answer.subject))[0][0]["rows"]


def test_the_app_does_not_list_the_skeleton():
    assert STORY.path not in STORIES


def test_a_copy_of_the_skeleton_is_found_without_an_edit_of_a_list(monkeypatch, tmp_path):
    text = (Path(app.stories.__file__).parent / "skeleton.py").read_text()
    copy = text.replace('path="skeleton"', 'path="my_story"').replace(
        "    listed=False,  # remove this line in a copy\n", ""
    )
    (tmp_path / "my_story.py").write_text(copy)
    monkeypatch.setattr(app.stories, "__path__", [*app.stories.__path__, str(tmp_path)])
    found = app.stories.found()
    assert set(found) == {*STORIES, "my_story"}

"""The pages whole, through AppTest: Python only, no JavaScript. What only a browser shows is in tests/browser."""

import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from kernels import workers
from kernels.backends import Survey
from kernels.errors import BuildError, WorkerDied

MAIN = str(Path(__file__).parents[2] / "app" / "main.py")
PAGES = ("stories/tiling.py", "stories/online_softmax.py")
pytestmark = pytest.mark.xdist_group("pages")


def open_page(page="stories/tiling.py", **params):
    at = AppTest.from_file(MAIN, default_timeout=60)
    for name, value in params.items():
        at.query_params[name] = value
    at.run()
    if page:
        at.switch_page(page).run()
    while "is running" in texts(at.info):  # a cold worker takes longer than the page's patience
        time.sleep(0.5)
        at.run()
    assert not at.exception
    return at


def texts(elements):
    return " ".join(str(e.value) for e in elements)


@pytest.fixture(autouse=True)
def fresh_results():
    from app import runs

    runs._results.clear()


def test_the_start_page_says_where_runs_go_and_why():
    at = open_page(page=None)
    said = texts(at.markdown)
    assert "Runs go to:" in said
    survey = workers.survey()
    assert all(reason in said for reason in survey.reasons.values())


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("kernel", ["01_naive", "02_tiled", "03_flash"])
def test_a_story_shows_its_views_for_every_kernel(page, kernel):
    at = open_page(page, kernel=kernel, backend="cpu")
    assert len(at.get("bidi_component")) == 4  # clock, sentence, dense view, code
    assert "executed on" in texts(at.caption)
    assert at.selectbox(key="kernel").value == kernel
    assert not at.error and not at.warning


def test_a_recorded_run_says_the_gpu_and_the_date():
    at = open_page(backend="recorded")
    assert "recorded on NVIDIA H200, 2026-" in texts(at.caption)


def test_nonsense_in_the_url_is_told_and_the_page_stands():
    at = open_page(seq_len="-4", frob="1", kernel="x")
    assert at.selectbox(key="kernel").value == "03_flash"
    assert "frob is not a choice" in texts(at.warning) and "seq_len is -4" in texts(at.warning)


def test_an_impossible_problem_is_refused_with_the_reason():
    at = open_page(seq_len="16384", backend="cpu")
    assert "This problem cannot run." in texts(at.error) and "03_flash at seq_len 16384" in texts(at.error)


def test_a_whatif_build_is_labelled_and_told_where_it_goes_wrong():
    at = open_page("stories/online_softmax.py", what_if="RESCALE", backend="cpu")
    assert "Broken on purpose" in texts(at.caption)
    assert "goes wrong at step 9" in texts(at.error)


class Failing:
    """A job that ends as told."""

    def __init__(self, error):
        self.error = error

    def result(self, timeout=None):
        raise self.error

    def done(self):
        return True


@pytest.mark.parametrize("error", [WorkerDied("The worker process running 03_flash died (by signal 9)."), BuildError("03_flash.cu line 7: expected ;")])
def test_a_failed_run_becomes_a_message_and_can_be_run_again(monkeypatch, error):
    real = workers.submit
    monkeypatch.setattr(workers, "submit", lambda function, *args, **kw: Failing(error) if "(run)" in kw["what"] else real(function, *args, **kw))
    at = open_page(backend="cpu", seed="41")
    assert str(error) in texts(at.error)
    monkeypatch.setattr(workers, "submit", real)
    next(b for b in at.button if b.label == "Run again").click().run()
    assert not at.error and len(at.get("bidi_component")) == 4


def test_without_gpu_and_compiler_the_recordings_carry_the_page(monkeypatch):
    real = workers.survey()
    only = Survey({"recorded": real.devices["recorded"]}, {"gpu": "No GPU was found: told by the test.", "cpu": "No C++ compiler was found: told by the test."})
    monkeypatch.setattr(workers, "survey", lambda: only)
    at = open_page()
    assert "recorded on NVIDIA H200" in texts(at.caption)
    start = open_page(page=None)
    assert "No C++ compiler was found: told by the test." in texts(start.markdown)


def test_choices_survive_a_visit_to_another_page():
    at = open_page(seq_len="50", backend="cpu")
    at.switch_page("stories/start.py").run()
    at.switch_page("stories/online_softmax.py").run()
    assert at.number_input(key="seq_len").value == 50

"""Workbench: an editor for a kernel of one's own, its messages and the picture of its run."""

from pathlib import Path

from app.choices.choice import Choice
from app.choices.page import Page, State
from app.parts.explained import story_of
from explainers.stories.workbench import story
from explainers.stories.workbench.story import Bench
from kernels import exercises
from kernels.catalog import Catalog
from kernels.jail import setting

STARTER = Path(__file__).parents[1] / "workbench" / "starter.cu"


def subject(page: Page, state: State, backend: str) -> Bench:
    return Bench(setting.of_workbench(), bool(setting.why_no_workbench()), STARTER.read_text(), str(state["exercise"]))


def page(catalog: Catalog) -> Page:
    names = ("", *exercises.listed())
    own = {"exercise": Choice("", names, meaning="the exercise that the page opens with")}
    return Page(catalog, runs=False, own=own, describe=lambda page, state: {"exercise": {"hidden": True}})


STORY = story_of(
    story.STORY,
    path="workbench",
    title="Workbench",
    look="Write a kernel. The page compiles it, runs it on the CPU and marks each fault at its line.",
    page=page,
    subject=subject,
    order=170,
    request_tabs=False,
    made_on="cpu",
)

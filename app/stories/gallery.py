"""Gallery: eight public bugs, each with its first wrong step and its cure."""

from app.choices.choice import Choice
from app.choices.page import Page
from app.parts.explained import story_of
from explainers.stories.gallery import story
from explainers.stories.gallery.story import Look
from kernels.catalog import Catalog


def page(catalog: Catalog) -> Page:
    names = tuple(story.bugs())
    own = {"bug": Choice(names[0], names, meaning="the shown bug")}
    return Page(catalog, runs=False, own=own, describe=lambda page, state: {"bug": {"hidden": True}})


STORY = story_of(
    story.STORY,
    path="gallery",
    title="Gallery",
    look="Read a symptom as a user reported it. Then find its first wrong step, its cause and its cure.",
    page=page,
    subject=lambda page, state, backend: Look(str(state["bug"])),
    order=165,
    request_tabs=False,
    made_on="cpu",
)

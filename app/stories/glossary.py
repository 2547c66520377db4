"""Glossary: the terms of the pages, with their sources and places."""

from functools import lru_cache

from app.choices.page import Page, State
from app.parts.explained import story_of
from explainers.stories.glossary import story
from kernels.catalog import Catalog


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return Page(catalog, runs=False)


def subject(page: Page, state: State, backend: str) -> str:
    return "terms"


STORY = story_of(
    story.STORY,
    path="glossary",
    title="Glossary",
    look="Look up a term: its meaning, its source and its place in the app.",
    page=page,
    subject=subject,
    order=180,
    request_tabs=False,
    made_on="cpu",
)

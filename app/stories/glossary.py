"""Glossary: the terms of the pages, with their sources and places."""

from app.choices.page import Page
from app.parts.explained import story_of
from explainers.stories.glossary import story

STORY = story_of(
    story.STORY,
    path="glossary",
    title="Glossary",
    look="Look up a term: its meaning, its source and its place in the app.",
    page=lambda catalog: Page(catalog, runs=False),
    subject=lambda page, state, backend: "terms",
    order=180,
    request_tabs=False,
    made_on="cpu",
)

"""The stories: each module of this folder with a STORY is one. The stories declare their order."""

import pkgutil
from functools import cache, lru_cache
from importlib import import_module

from app.catalogue import Catalog
from app.choices.page import Page
from app.parts.story import Story
from kernels.core.fields import write_value


@cache
def _found() -> dict[str, Story]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [import_module(f"{__name__}.{name}") for name in names]
    stories = sorted((module.STORY for module in modules), key=lambda story: story.order)
    return {story.path: story for story in stories}


def listed(catalog: Catalog) -> dict[str, Story]:
    """path -> Story of the stories that have something to show, in the order of the rail."""
    return {path: story for path, story in STORIES.items() if not story.needs_kernels or story.page(catalog).kernels}


@lru_cache(maxsize=2)
def rail(catalog: Catalog) -> list[dict[str, object]]:
    """The facts that the browser needs of every story before the story is opened.

    begin: the default of each choice. Other values go along from story to story.
    """
    stories = listed(catalog).values()
    stops = [story for story in stories if story.stop]
    return [
        {
            "path": story.path,
            "title": story.title,
            "number": stops.index(story) + 1 if story.stop else 0,
            "look": story.look,
            "begin": _default_texts(story.page(catalog)),
        }
        for story in stories
    ]


def _default_texts(page: Page) -> dict[str, str]:
    return {name: write_value(value) for name, value in page.default_state().items()}


STORIES = _found()

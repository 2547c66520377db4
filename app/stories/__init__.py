"""The stories: each module of this folder with a STORY is one. The stories declare their order."""

import pkgutil
from dataclasses import asdict
from functools import cache, lru_cache
from importlib import import_module
from itertools import combinations

from app import course
from app.choices.page import Page
from app.course import gains
from app.parts.story import Story
from kernels.catalog import Catalog
from kernels.core.fields import fields_of, write_value


@cache
def _found() -> dict[str, Story]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [import_module(f"{__name__}.{name}") for name in names]
    stories = sorted((module.STORY for module in modules), key=lambda story: story.order)
    return {story.path: story for story in stories if story.listed}


def listed(catalog: Catalog) -> dict[str, Story]:
    """path -> Story of the stories that have something to show, in the order of the rail."""
    return {path: story for path, story in STORIES.items() if not story.needs_kernels or story.page(catalog).kernels}


@lru_cache(maxsize=2)
def rail(catalog: Catalog) -> list[dict[str, object]]:
    """The facts of every story for the browser, before the story is opened.

    begin: the default of each choice. Other values go along from story to story.
    own: the choices that stay in the story.
    """
    return [
        {
            "path": story.path,
            "title": story.title,
            "look": story.look,
            "begin": _default_texts(story.page(catalog)),
            "own": _own(story.page(catalog), catalog),
        }
        for story in listed(catalog).values()
    ]


@lru_cache(maxsize=2)
def stops(catalog: Catalog) -> list[dict[str, object]]:
    """The stops of the course for the browser, without those of a page that has nothing to show.

    wins, small: with the numbers of the recordings, or empty while a recording is missing.
    source: of these numbers.
    """
    known = listed(catalog)
    return [_for_browser(stop, catalog) for stop in course.stops() if stop.story in known]


def _for_browser(stop: course.Stop, catalog: Catalog) -> dict[str, object]:
    found = {name: value for name, value in asdict(stop).items() if name != "gain"}
    try:
        return found | asdict(gains.told(stop, catalog))
    except course.StopError:
        return found | asdict(gains.Told("", "", ""))


def _default_texts(page: Page) -> dict[str, str]:
    return {name: write_value(value) for name, value in page.default_state().items()}


def _own(page: Page, catalog: Catalog) -> list[str]:
    fields = {name for spec in page.kernels.values() for name in fields_of(spec.problem_type)}
    return sorted({name for name, choice in page.own.items() if choice.stays} | (fields & _ambiguous(catalog)))


@lru_cache(maxsize=2)
def _ambiguous(catalog: Catalog) -> set[str]:
    """Problem fields with other values in another family: no value is allowed in both."""
    found = set()
    for one, other in combinations({spec.problem_type for spec in catalog.kernels.values()}, 2):
        ours, theirs = fields_of(one), fields_of(other)
        for name in ours.keys() & theirs.keys():
            allowed, also = ours[name].metadata["allowed"], theirs[name].metadata["allowed"]
            if allowed and also and not set(allowed) & set(also):
                found.add(name)
    return found


STORIES = _found()

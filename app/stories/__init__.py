"""The stories: each module of this folder with a STORY is one. The stories declare their order."""

import pkgutil
from dataclasses import asdict
from functools import lru_cache
from importlib import import_module
from itertools import combinations

from app import course
from app.course import gains
from app.parts.story import Story
from kernels.catalog import Catalog
from kernels.core.fields import fields_of, write_value


def listed(catalog: Catalog) -> dict[str, Story]:
    """path -> Story of the stories that have something to show, in the order of the rail."""
    return {path: story for path, story in STORIES.items() if not story.needs_kernels or story.page(catalog).kernels}


@lru_cache(maxsize=2)
def rail(catalog: Catalog) -> list[dict[str, object]]:
    """The facts of every story for the browser, before the story is opened.

    begin: the default of each choice. Other values go along from story to story.
    own: the choices that stay in the story.
    runs: whether it runs a kernel. Other stories show recorded figures only.
    """
    kinds = {spec.problem_type for spec in catalog.kernels.values()}
    ambiguous: set[str] = set()  # fields of which no value is allowed in two families
    for one, other in combinations(map(fields_of, kinds), 2):
        for name in one.keys() & other.keys():
            allowed, also = one[name].metadata["allowed"], other[name].metadata["allowed"]
            if allowed and also and not set(allowed) & set(also):
                ambiguous.add(name)
    entries = []
    for story in listed(catalog).values():
        page = story.page(catalog)
        fields = {name for spec in page.kernels.values() for name in fields_of(spec.problem_type)}
        entry: dict[str, object] = {"path": story.path, "title": story.title, "look": story.look}
        entry["runs"] = not story.made_on
        entry["begin"] = {name: write_value(value) for name, value in page.default_state().items()}
        entry["own"] = sorted({name for name, choice in page.own.items() if choice.stays} | (fields & ambiguous))
        entries.append(entry)
    return entries


@lru_cache(maxsize=2)
def stops(catalog: Catalog) -> list[dict[str, object]]:
    """The stops of the course for the browser, without those of a page that has nothing to show.

    wins, small: with the numbers of the recordings, or empty while a recording is missing.
    source: of these numbers.
    """
    entries = []
    for stop in course.stops():
        if stop.story in listed(catalog):
            try:
                told = gains.told(stop, catalog)
            except course.StopError:
                told = gains.Told("", "", "")
            entries.append({name: value for name, value in asdict(stop).items() if name != "gain"} | asdict(told))
    return entries


def found() -> dict[str, Story]:
    """path -> Story of each module of this folder, without the skeleton, in the order of the rail."""
    modules = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    stories = sorted((module.STORY for module in modules), key=lambda story: story.order)
    return {story.path: story for story in stories if story.listed}


STORIES = found()

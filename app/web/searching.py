"""What the search finds: pages, stops, terms, kernels and settings, each with a link.

GET /wg/found -> JSON: a list of {kind, title, said, link}, for a setting also {set}
"""

from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app import course
from app.choices.labels import plain
from app.choices.page import Page
from app.stories import listed
from explainers.story.terms import TERMS
from kernels.catalog import Catalog, current

Found = dict[str, str]  # kind, title, said, link; set: the choice that the toolbar then shows


async def found(request: Request) -> Response:
    return JSONResponse(await run_in_threadpool(everything, current()))


@lru_cache(maxsize=2)
def everything(catalog: Catalog) -> list[Found]:
    """All that can be found, the ways of the course first."""
    return [*_stops(catalog), *_pages(catalog), *_terms(), *_kernels(catalog), *_settings(catalog)]


def _stops(catalog: Catalog) -> Iterator[Found]:
    for stop in course.stops():
        if stop.story in listed(catalog):
            picture = {"picture": stop.picture} if stop.picture else {}
            query = urlencode({"stop": stop.name, **stop.choices, **picture})
            yield {"kind": "stop", "title": stop.title, "said": stop.idea, "link": f"{stop.story}?{query}"}


def _pages(catalog: Catalog) -> Iterator[Found]:
    for story in listed(catalog).values():
        yield {"kind": "page", "title": story.title, "said": story.look, "link": story.path}


def _terms() -> Iterator[Found]:
    for name, term in TERMS.items():
        yield {"kind": "term", "title": name, "said": term.said, "link": term.place}


def _kernels(catalog: Catalog) -> Iterator[Found]:
    """Each kernel, on the first page that shows it."""
    pages = [(path, story.page(catalog)) for path, story in listed(catalog).items()]
    for name, kernel in catalog.kernels.items():
        path = next(
            (p for p, page in pages if page.sides == ("",) and (name in page.kernels or page.elsewhere(kernel))), ""
        )
        if path:
            title = f"{name} {kernel.title}"
            yield {"kind": "kernel", "title": title, "said": kernel.idea, "link": f"{path}?kernel={name}"}


def _settings(catalog: Catalog) -> Iterator[Found]:
    """Each choice, on the first page and for the first kernel that have it."""
    seen: set[str] = set()
    for path, story in listed(catalog).items():
        for link, name, meaning in _choices(path, story.page(catalog)):
            if name in seen or not meaning:
                continue
            seen.add(name)
            words = plain(name)
            title = name if words == name else f"{words} ({name})"
            yield {"kind": "setting", "title": title, "said": meaning, "link": link, "set": name}


def _choices(path: str, page: Page) -> Iterator[tuple[str, str, str]]:
    """(link, name, meaning) of the choices of a page with one kernel."""
    if page.sides != ("",):
        return
    for kernel in page.kernels or [""]:
        state = page.default_state()
        if kernel:
            page.take_kernel(state, "", kernel)
        link = f"{path}?kernel={kernel}&depth=everything" if kernel else f"{path}?depth=everything"
        for name, choice in page.choices(state).items():
            if not choice.late:
                yield link, name, choice.meaning

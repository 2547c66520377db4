"""What the search finds: pages, stops, terms, kernels and settings, each with a link.

GET /wg/found          -> JSON: a list of {kind, title, said, link}, for a setting also {set}
GET /wg/near?name=NAME -> JSON: {said, near: a list of {title, link}}, for an address without a page
"""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app import course
from app.choices.described import plain
from app.stories import listed
from explainers.story.terms import TERMS
from kernels.catalog import Catalog, current
from kernels.core.fields import quoted, shortened

MOST_NEAR, ALIKE = 4, 0.75  # places near an unknown address; how like its name must be, from 0 to 1
Found = dict[str, str]  # kind, title, said, link; set: the choice that the toolbar then shows


async def found(request: Request) -> Response:
    return JSONResponse(await run_in_threadpool(everything, current()))


async def near(request: Request) -> Response:
    name = request.query_params.get("name", "")
    places = await run_in_threadpool(places_near, current(), name)
    remedy = "Near it:" if places else "More pages and Search list all pages."
    return JSONResponse({"said": f"Warpglass has no page named {quoted(shortened(name))}. {remedy}", "near": places})


def places_near(catalog: Catalog, name: str) -> list[Found]:
    """The places with a name like an unknown address, the best first. Each has a title and a link."""
    known: dict[str, list[Found]] = {}
    for word, title, link in _named(catalog):
        known.setdefault(_plain(word), []).append({"title": title, "link": link})
    wanted = _plain(name)
    alike = [wanted] if wanted in known else get_close_matches(wanted, known, MOST_NEAR, ALIKE)
    found = {place["link"]: place for word in alike for place in known[word]}
    return list(found.values())[:MOST_NEAR]


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _named(catalog: Catalog) -> Iterator[tuple[str, str, str]]:
    """(name, title, link) of each page, picture, tab, stop, term and kernel."""
    for path, story in listed(catalog).items():
        pictures = dict.fromkeys(
            [*story.pictures, *(s.picture for s in course.stops() if s.story == path and s.picture)]
        )
        yield from ((word, story.title, path) for word in (path, story.title))
        yield from ((word, f"{story.title}, picture {word}", f"{path}?picture={word}") for word in pictures)
        yield from ((word, f"{story.title}, tab {word}", f"{path}?tab={word}") for word in story.parts)
    for entry in (*_stops(catalog), *_terms(), *_kernels(catalog)):
        words = entry["title"].split(" ")[:1] if entry["kind"] == "kernel" else [entry["title"]]
        yield from ((word, f"{entry['title']}, a {entry['kind']}", entry["link"]) for word in words)


@lru_cache(maxsize=2)
def everything(catalog: Catalog) -> list[Found]:
    """All that can be found, the ways of the course first."""
    pages = [
        {"kind": "page", "title": story.title, "said": story.look, "link": story.path}
        for story in listed(catalog).values()
    ]
    return [*_stops(catalog), *pages, *_terms(), *_kernels(catalog), *_settings(catalog)]


def _stops(catalog: Catalog) -> Iterator[Found]:
    for stop in course.stops():
        if stop.story in listed(catalog):
            picture = {"picture": stop.picture} if stop.picture else {}
            query = urlencode({"stop": stop.name, **stop.choices, **picture})
            yield {"kind": "stop", "title": stop.title, "said": stop.idea, "link": f"{stop.story}?{query}"}


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
    for path, page in ((path, story.page(catalog)) for path, story in listed(catalog).items()):
        for kernel in (page.kernels or [""]) if page.sides == ("",) else ():
            state = page.default_state()
            if kernel:
                page.take_kernel(state, "", kernel)
            link = f"{path}?kernel={kernel}&depth=everything" if kernel else f"{path}?depth=everything"
            for name, choice in page.choices(state).items():
                if choice.late or name in seen or not choice.meaning:
                    continue
                seen.add(name)
                words = plain(name)
                title = name if words == name else f"{words} ({name})"
                yield {"kind": "setting", "title": title, "said": choice.meaning, "link": link, "set": name}

"""The last stop: the way of the course in times, new checks of each act, the seven checks once more, a summary to keep
and the papers."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import cast

from app import course
from app.choices import recordings
from app.choices.links import read_link
from app.choices.page import Page, State
from app.parts.story import Story
from explainers.story.stage import Question, Stage, View
from kernels.catalog import Catalog, current

CHECK = "check_"  # begins the id of a knowledge check


@dataclass(frozen=True)
class Asked:
    """A stop with checks, and the subject of its page.

    path: of the page.
    subject: as the page makes it for the choices of the stop.
    """

    stop: str
    path: str
    subject: object


def with_checks() -> list[course.Stop]:
    """The stops that ask a check, in the order of the course."""
    return [stop for stop in course.stops() if any(id.startswith(CHECK) for id in stop.questions)]


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return Page(catalog)


def subject(page: Page, state: State, backend: str) -> tuple[Asked, ...]:
    from app.stories import STORIES

    found = []
    for stop in with_checks():
        story = STORIES[stop.story]
        theirs = story.page(current())
        chosen, _ = read_link(theirs, stop.choices)
        if backend == "recorded" and theirs.kernels and theirs.recorded:
            recordings.narrow(theirs, chosen)
        found.append(Asked(stop.name, story.path, story.subject(theirs, chosen, backend)))
    return tuple(found)


def make(subject: tuple[Asked, ...]) -> Stage:
    """The checks of the pages that ask them, in one view."""
    from app.stories import STORIES, stops

    checks = []
    for asked in subject:
        stop = next(stop for stop in with_checks() if stop.name == asked.stop)
        questions = {question.id: question for question in STORIES[asked.path].make(asked.subject).questions}
        checks += [_check(stop, questions[id]) for id in stop.questions if id.startswith(CHECK) and id in questions]
    way = course.journey(course.stops(), _problem(), current())
    meta = {
        "steps": [asdict(step) for step in way.steps],
        "said": _said(),
        "source": way.source,
        "checks": [*(_new(check) for check in course.checks()), *checks],
        "stops": [_kept(stop) for stop in stops(current()) if stop["questions"]],
        "papers": papers(),
    }
    said = "How the time fell, kernel by kernel. Below: a new question for each act, and seven questions again."
    return Stage("", [], [View("checks", "checks", "The checks", meta)], summary=said)


def _problem() -> Mapping[str, object]:
    """The problem of the closing picture: the one of this page's stop."""
    return next(gain.problem for stop in course.stops() if stop.story == STORY.path for gain in stop.gain)


def _said() -> str:
    """The gain of the whole course in a sentence. Empty while a recording is missing."""
    from app.stories import stops

    return next(str(stop["wins"]) for stop in stops(current()) if stop["story"] == STORY.path)


def _new(check: course.Check) -> dict[str, object]:
    """A check of its own file. Its options have the order of their texts, so the right one has no fixed place."""
    reasons = {**dict(check.wrong), check.right: ""}
    options = sorted(reasons, key=_by_number)
    return {
        "id": f"new_{check.name}",
        "act": check.act,
        "stop": check.stop,
        "text": check.text,
        "options": options,
        "answer": options.index(check.right),
        "why": check.why,
        "reasons": [reasons[option] for option in options],
    }


def _by_number(option: str) -> tuple[float, str]:
    """The key of an option: its first number, then its text."""
    number = re.search(r"[\d.,]*\d", option)
    return (float(number[0].replace(",", "")) if number else 0.0), option


def _check(stop: course.Stop, question: Question) -> dict[str, object]:
    return {
        "id": question.id,
        "act": "",
        "stop": stop.name,
        "text": question.text,
        "options": [*reversed(question.options)],  # another order than at the stop
        "answer": len(question.options) - 1 - cast(int, question.answer),
        "why": question.why,
        "reasons": [*reversed(question.reasons)],
    }


def _kept(stop: dict[str, object]) -> dict[str, object]:
    """A stop of the course's list in the summary."""
    names = ("name", "number", "title", "act", "idea", "wins", "story")
    choices = cast(dict[str, object], stop["choices"])
    return {**{name: stop[name] for name in names}, "query": {"stop": stop["name"], **choices}}


def papers() -> list[dict[str, str]]:
    """The papers of all stops, each once."""
    found: dict[str, str] = {}
    for stop in course.stops():
        if stop.paper:
            found.setdefault(stop.paper.link, stop.paper.label)
    return [{"label": label, "link": link} for link, label in found.items()]


STORY = Story(
    path="checks",
    title="Checks",
    look="Bars lead from the first kernel to the last one. New questions follow, then the seven checks.",
    order=145,
    page=page,
    subject=subject,
    make=make,
)

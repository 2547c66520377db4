"""The seven knowledge checks of the course with new numbers, a summary to keep and the papers."""

import re
from typing import cast

from app import course
from app.choices.page import Page, State
from app.parts.story import Story
from explainers.story.stage import Stage, View
from kernels.catalog import current

KEPT = ("name", "number", "title", "shelf", "idea", "wins", "source", "story")  # of a stop in the summary


def subject(page: Page, state: State, backend: str) -> str:
    return "checks"


def make(subject: str) -> Stage:
    from app.stories import stops

    meta = {
        "checks": [_check(check) for check in course.checks()],
        "stops": [
            {name: stop[name] for name in KEPT} | {"query": {"stop": stop["name"], **cast(dict, stop["choices"])}}
            for stop in stops(current())
            if stop["questions"]
        ],
        "papers": papers(),
    }
    return Stage(
        "",
        [],
        [View("checks", "checks", "The checks", meta)],
        summary="The seven questions of the course, with new numbers.",
    )


def _check(check: course.Check) -> dict[str, object]:
    """Its options go by their first number: the right one has no fixed place."""
    reasons = {**dict(check.wrong), check.right: ""}

    def by_number(option: str) -> tuple[float, str]:
        number = re.search(r"[\d.,]*\d", option)
        return (float(number[0].replace(",", "")) if number else 0.0), option

    options = sorted(reasons, key=by_number)
    found: dict[str, object] = {"id": check.name, "stop": check.stop, "text": check.text, "why": check.why}
    return found | {
        "options": options,
        "answer": options.index(check.right),
        "reasons": [reasons[option] for option in options],
    }


def papers() -> list[dict[str, str]]:
    found: dict[str, str] = {}
    for stop in course.stops():
        if stop.paper:
            found.setdefault(stop.paper.link, stop.paper.label)
    return [{"label": label, "link": link} for link, label in found.items()]


STORY = Story(
    path="checks",
    title="Checks",
    look="Seven questions of the course, each with new numbers. A summary to keep follows.",
    order=145,
    page=Page,
    subject=subject,
    make=make,
)

"""The last stop: the way of the course in times, new checks of each act, the seven checks once more, a summary to keep
and the papers."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import cast

from app import course
from app.choices import recordings
from app.choices.links import read_link
from app.choices.page import Page, State
from app.course import gains
from app.parts.story import Story
from explainers.story.glossary import short
from explainers.story.stage import Stage, View
from kernels.catalog import Catalog, current

CHECK = "check_"  # begins the id of a knowledge check
KEPT = ("name", "number", "title", "shelf", "idea", "wins", "story")  # of a stop in the summary
ONE_PROBLEM = "The stops use other sizes, heads and batches, so their factors differ"
ESTIMATED = "Striped: not recorded at this size, but taken from the factor of its stop"


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
    return [stop for stop in course.stops() if any(id.startswith(CHECK) for id in stop.questions)]


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
        for question in (questions[id] for id in stop.questions if id.startswith(CHECK) and id in questions):
            options, reasons = [*reversed(question.options)], [*reversed(question.reasons)]  # not the order of the stop
            answer = len(options) - 1 - cast(int, question.answer)
            checks.append(_check(question.id, stop.name, question.text, options, answer, question.why, reasons))
    # the problem of the closing picture is the one of this page's stop
    problem = next(gain.problem for stop in course.stops() if stop.story == STORY.path for gain in stop.gain)
    steps, source = journey(problem, current())
    meta = {
        "steps": [asdict(step) for step in steps],
        "said": next(stop["wins"] for stop in stops(current()) if stop["story"] == STORY.path),
        "source": source,
        "checks": [*(_new(check) for check in course.checks()), *checks],
        "stops": [
            {name: stop[name] for name in KEPT} | {"query": {"stop": stop["name"], **cast(dict, stop["choices"])}}
            for stop in stops(current())
            if stop["questions"]
        ],
        "papers": papers(),
    }
    said = "How the time fell, kernel by kernel. Below: new questions, and seven questions again."
    return Stage("", [], [View("checks", "checks", "The checks", meta)], summary=said)


def _new(check: course.Check) -> dict[str, object]:
    """A check of its own file. Its options go by their first number: the right one has no fixed place."""
    reasons = {**dict(check.wrong), check.right: ""}

    def by_number(option: str) -> tuple[float, str]:
        number = re.search(r"[\d.,]*\d", option)
        return (float(number[0].replace(",", "")) if number else 0.0), option

    options = sorted(reasons, key=by_number)
    answer, of_options = options.index(check.right), [reasons[option] for option in options]
    made = _check(f"new_{check.name}", check.stop, check.text, options, answer, check.why, of_options)
    return made | {"new": True}


def _check(
    id: str, stop: str, text: str, options: list[str], answer: int, why: str, reasons: list[str]
) -> dict[str, object]:
    check: dict[str, object] = {"id": id, "new": False, "stop": stop, "text": text, "options": options}
    return check | {"answer": answer, "why": why, "reasons": reasons}


def papers() -> list[dict[str, str]]:
    found: dict[str, str] = {}
    for stop in course.stops():
        if stop.paper:
            found.setdefault(stop.paper.link, stop.paper.label)
    return [{"label": label, "link": link} for link, label in found.items()]


# ---- the way of the course ----


@dataclass(frozen=True)
class Step:
    """A kernel of the course.

    stop: the name of its stop.
    label: the stop, and the idea within it if the stop has several kernels.
    kernel: its name.
    us: its median time in microseconds.
    said: the time in words.
    times: how many times less than the step before. Empty for the first one.
    bits: of its inputs.
    estimated: whether the time follows from the factor of the stop, at other sizes.
    """

    stop: str
    label: str
    kernel: str
    us: float
    said: str
    times: str
    bits: int
    estimated: bool = False


def journey(problem: Mapping[str, object], catalog: Catalog) -> tuple[list[Step], str]:
    """The steps in the order of the catalogue, and the source of their times in words.

    They are the kernels of the stops with a rested time for the problem in one table, the newest one with most of them.
    problem: its sizes, without the type of its numbers.
    """
    named: dict[str, tuple[str, str]] = {}  # kernel -> its first stop and its label
    changed: dict[str, tuple[course.Stop, float]] = {}  # kernel -> a stop that changes only its constants, its factor
    for stop in course.stops():
        if kernel := stop.choices.get("kernel"):
            named.setdefault(kernel, (stop.name, stop.title))
        for gain in (gain for gain in stop.gain if gain.kind == "time"):
            label = stop.title if gain.name == gain.kind else f"{stop.title}: {gain.name.replace('_', ' ')}"
            named.setdefault(gain.kernel, (stop.name, label))
            if gain.name == "time" and gain.before == gain.kernel and gain.settings:
                constants = catalog.kernels[gain.kernel].settings()
                if all(constants.get(name) == value for name, value in gain.before_settings.items()):
                    compared = gains.compared(gain, catalog)
                    changed.setdefault(gain.kernel, (stop, compared.value_before / compared.value))
    ways: list[tuple[list[Step], str]] = [([], "")]
    wanted = {"status": "ok", "causal": False, **problem}
    for rows, where in gains.recorded_rows("bench"):
        steps: list[Step] = []
        for name in (name for name in catalog.kernels if name in named):
            row = gains.row_of(rows, "name", name, wanted, {}, catalog)
            if row is None:
                continue
            us, bits = float(row["median_us"]), 16 if "16" in row["dtype"] else 32
            steps.append(_step(named[name], name, us, bits, steps))
            if name in changed:
                stop, factor = changed[name]
                steps.append(_step((stop.name, stop.title), name, us / factor, bits, steps, estimated=True))
        notes = [gains.place_of(where, "rested"), ONE_PROBLEM, *[ESTIMATED for step in steps if step.estimated][:1]]
        ways.append((steps, ". ".join(notes)))
    return max(ways, key=lambda way: len(way[0]))


def _step(
    named: tuple[str, str], kernel: str, us: float, bits: int, before: list[Step], estimated: bool = False
) -> Step:
    """A step after others. named: its stop and its label."""
    about = "about " if estimated or (before and before[-1].estimated) else ""
    times = f"{about}{short(before[-1].us / us, 3)}" if before else ""
    return Step(*named, kernel, us, f"{'about ' * estimated}{gains.amount(us, 'us')}", times, bits, estimated)


STORY = Story(
    path="checks",
    title="Checks",
    look="Bars lead from the first kernel to the last one. New questions follow, then the seven checks.",
    order=145,
    page=Page,
    subject=subject,
    make=make,
)

"""From a link or a click to a subject: choices, refusals, and the value for a bundle.

The browser holds the choices, and each answer comes from its question. Answers depend neither on the page nor on the
progress of jobs. `ask_once` keeps them for a moment: a class opens one link a hundred times, and a waiting page repeats
its question each second.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from app.choices import described, places, recordings
from app.choices.choice import Choice, broken_value
from app.choices.estimates import SHARE, fits, requests_in, run
from app.choices.links import read_link
from app.choices.page import NONE, Page, State, constant_name, kernel_name
from app.measured import measuring
from app.parts.story import Story
from app.stories import any_kernel, compare, tiling
from app.workbench import drafts
from explainers.models.tiling import accepts
from explainers.story import stage
from kernels.catalog import Catalog, current
from kernels.core.fields import quoted, shortened, write_value
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable, CannotRun, ProblemError, TooLargeError, WarpglassError
from kernels.run import execute, workers
from kernels.run.backends import Survey

# A choice of a place -> a page that has it.
PLACES = {"at_tile": tiling.STORY, "at_query": compare.STORY, "at_item": any_kernel.STORY}


def translated(page: Page, chosen: Mapping[str, str]) -> dict[str, str]:
    """The choices of any stories, in the words of a page.

    chosen: the newest choices come last. A kernel and its constants go to the first side. A what-if is one choice or a
    constant. A tile, a query and an item are places of the same rows."""
    if not page.kernels:
        return dict(chosen)
    if "recorded" in page.own and page.own["recorded"].late:  # another page counts other recordings
        chosen = {name: text for name, text in chosen.items() if name != "recorded"}
    found = _sides(page, chosen)
    found = _what_ifs(page, page.kernel_of(read_link(page, found)[0]), found)
    return _places(page, found)


def _newest(entries: list[tuple[str, str]]) -> dict[str, str]:
    """The last value of each name, in the order of the last values."""
    found: dict[str, str] = {}
    for name, text in entries:
        found.pop(name, None)
        found[name] = text
    return found


def _sides(page: Page, chosen: Mapping[str, str]) -> dict[str, str]:
    """One kernel becomes the first of two, and the first of two becomes the one kernel."""
    first = page.sides[0]
    constants = page.catalog.constant_names
    entries = []
    for name, text in chosen.items():
        plain = name[2:] if name[:2] in ("a_", "b_") and name[2:] in constants else name
        side = name[0] if plain != name else ""
        if not first and (name == "b" or side == "b"):
            continue  # a page of one kernel drops the second kernel
        if name == kernel_name("") or name == "a":
            name = kernel_name(first)
        elif plain in constants:
            name = constant_name(side if first and side else first, plain)
        entries.append((name, text))
    return _newest(entries)


def _what_ifs(page: Page, kernel: KernelSpec, chosen: Mapping[str, str]) -> dict[str, str]:
    """The what-if build of the first side, as one choice or as its constant."""
    by_name = {constant_name(page.sides[0], constant.name): constant for constant in kernel.what_ifs}
    entries: list[tuple[str, str]] = []
    what_if = NONE
    for name, text in chosen.items():
        if page.one_what_if and name in by_name:
            if text != str(by_name[name].default):
                what_if = name
            elif what_if == name:
                what_if = NONE
            entries.append(("what_if", what_if))
        elif name == "what_if" and page.one_what_if:
            what_if = text
            entries.append((name, text))
        elif name == "what_if":
            for own_name, constant in by_name.items():
                value = broken_value(constant) if constant.name == text else constant.default
                entries.append((own_name, str(value)))
        else:
            entries.append((name, text))
    return _newest(entries)


def _places(page: Page, chosen: dict[str, str]) -> dict[str, str]:
    """The newest place, as this page names the tile of that head with the same query."""
    named = [name for name in chosen if name in PLACES]
    if not named:
        return chosen
    newest, rest = named[-1], {name: text for name, text in chosen.items() if name not in PLACES}
    own = next((name for name in PLACES if name in page.own), newest)
    source = PLACES[newest].page(page.catalog)
    try:
        state, _ = read_link(source, {**translated(source, rest), newest: chosen[newest]})
        request = page.request_of(read_link(page, rest)[0])
        if own == newest or not accepts(source.kernel_of(state)) or not accepts(request.kernel):
            return rest | {newest: chosen[newest]}  # the same number
        size, (batch, head, query) = places.room(request), places.traced(source, state)
    except ProblemError:
        return rest  # the page reports the error of the problem
    tile = query // size.rows
    if own == "at_item":
        return rest | {own: str((batch * size.heads + head) * size.tiles + tile)}
    return rest | {"at_batch": str(batch), "at_head": str(head), own: str(tile if own == "at_tile" else query)}


CLIENT = {"stop", "step", "tab", "picture", "depth", "nopage"}  # the parameters of a link that only the browser reads
OF_RECORDINGS = ("preset", "problem", "build", "what_if")  # groups of choices that a choice of recordings replaces
Change = tuple[str, str]  # a choice and its new value, as text
SECONDS = 10.0  # for a kept answer, because recordings may change
MOST = 256  # kept answers. The oldest go first
MOST_CHARACTERS = 4096  # in the question of a kept answer
QUICK = 1.0  # seconds that a proposal may take on the CPU. A slower one is the second choice
MOST_TRIED = 80  # states that are tried for a proposal


@dataclass
class Asking:
    """The answer to a question about a story.

    choices: their descriptions.
    link: every choice as text.
    told: sentences on the refused parts of a link.
    refused: choice -> the reason against its new value.
    offer: a change that shows more, or that can run after an error: {text, label, set: (choice, value)}.
    headline: the kernel in one sentence.
    problem: the subject's problem in words, or "" for a subject without one.
    backend: the place to run.
    subject: the value to show; None after an error.
    seconds: its estimated time.
    error: the reason why nothing can be shown, or ""."""

    choices: list[described.Description] = field(default_factory=list)
    link: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    offer: dict[str, object] | None = None
    headline: str = ""
    problem: str = ""
    backend: str = "cpu"
    subject: object = None
    seconds: float = 0.0
    error: str = ""


_kept: OrderedDict[Hashable, tuple[float, "Future[Asking]"]] = OrderedDict()
_lock = threading.Lock()


def ask_once(
    story: Story, params: Mapping[str, str], survey: Survey, change: Change | None, carried: bool, part: str
) -> Asking:
    """`ask`. Callers must not change the result. For equal questions, one thread finds the answer."""
    if sum(map(len, (*params, *params.values(), *(change or ()), part))) > MOST_CHARACTERS:
        return ask(story, params, survey, change, carried, part)
    # the content of the survey: the id of an object that is gone may be another's
    found_here = tuple(survey.devices.items()), tuple(survey.reasons.items()), survey.gpus
    question = (story.path, tuple(params.items()), change, carried, part)
    key = (*question, current(), found_here, measuring.progress().version)
    now = time.monotonic()
    with _lock:
        when, answer = _kept.get(key, (0.0, None))
        own: Future[Asking] | None = None
        if not answer or now - when > SECONDS:
            answer = own = Future()
            _kept[key] = now, own
            _kept.move_to_end(key)
            while len(_kept) > MOST:
                _kept.popitem(last=False)
    if own:
        try:
            own.set_result(ask(story, params, survey, change, carried, part))
        except BaseException as error:
            with _lock:
                _kept.pop(key, None)
            own.set_exception(error)
    return answer.result()


ask_once.cache_clear = _kept.clear  # type: ignore[attr-defined]  # for tests, as lru_cache has it


def ask(
    story: Story,
    params: Mapping[str, str],
    survey: Survey,
    change: Change | None = None,
    carried: bool = False,
    part: str = "",
    catalog: Catalog | None = None,
) -> Asking:
    """The answer to a link or a click.

    params: of the link.
    change: a choice and its new value, if the reader chose one.
    carried: whether the choices come from other stories, the newest last. They are translated, without a note.
    part: a tab, or "" for the stage.
    catalog: of the kernels, in place of the current one."""
    known = drafts.with_drafts(catalog or current(), [*params.values(), change[1] if change else ""])
    page, answer = story.page(known), Asking()
    given = {name: text for name, text in params.items() if name not in CLIENT}
    state, refusals = read_link(page, translated(page, given) if carried else given)
    answer.told = [] if carried else refusals
    if change:
        before = dict(state)
        try:
            _set(page, state, *change)
            page.adapt(page, state, change[0])
        except ProblemError as error:  # a refused value changes nothing
            state.clear()
            state.update(before)
            answer.refused[change[0]] = str(error)
        answer.told += _correct(page, state, [] if carried else answer.told, change[0])
    answer.backend = _backend(page, state, survey, answer)
    of_recordings = []
    try:
        if answer.backend == "recorded" and page.kernels and page.recorded:
            before = dict(state)
            of_recordings = recordings.narrow(page, state, change)
            _correct(page, state)
            if not carried:
                answer.told += [
                    f"{name} is {write_value(before[name])}. Recorded is {write_value(state[name])}."
                    for name in (given if change is None or change[0] == "backend" else ())
                    if name in before and before[name] != state.get(name)
                ]
        answer.subject, answer.seconds = _subject(story, page, state, answer.backend, survey, part)
        # of the last shown request, else of the subject's own or first one. A build has no request
        own = [getattr(answer.subject, "request", None), *requests_in(answer.subject)]
        requests = [one for one in (*getattr(answer.subject, "requests", ())[-1:], *own) if one is not None]
        problem = requests[0].problem if requests else getattr(answer.subject, "problem", None)
        answer.problem = stage.problem_said(problem) if problem is not None else ""
    except WarpglassError as error:
        automatic = answer.backend == "gpu" and state.get("backend", "auto") == "auto"
        others = {name: device for name, device in survey.devices.items() if name != "gpu"}
        if isinstance(error, CannotRun) and automatic and others:
            left = Survey(others, {**survey.reasons, "gpu": str(error)})
            place = {"backend": left.pick().backend} if "backend" in state else {}
            other_change = None if change and change[0] == "backend" else change
            other = ask(story, {**params, **place}, left, other_change, carried, part, catalog)
            other.told.insert(0, f"{error} This page therefore does not use the GPU.")
            if "backend" in other.link:  # the choice stays automatic
                other.link["backend"] = "auto"
            for entry in other.choices:
                if entry["name"] == "backend":
                    entry["value"] = "auto"
            return other
        answer.subject, answer.error = None, str(error)
    answer.choices = of_recordings + _descriptions(page, state, survey, answer.backend)
    answer.link = {  # without late choices that nobody made
        name: write_value(state[name])
        for name, choice in page.choices(state).items()
        if not (choice.late and state[name] == "")
    }
    if page.kernels:
        answer.link[kernel_name(page.sides[0])] = page.shown_kernel(state).name
    if not answer.error:
        answer.offer = _offer(page, state)
    elif answer.backend != "recorded":
        answer.offer = nearest_offer(
            page, state, lambda other: _subject(story, page, other, answer.backend, survey, part)[1]
        )
    if page.kernels:
        answer.headline = stage.headline(page.shown_kernel(state))
    return answer


def _subject(story: Story, page: Page, state: State, backend: str, survey: Survey, part: str) -> tuple[object, float]:
    """The value to show, and its estimated seconds. Raises WarpglassError if it cannot run."""
    subject = story.subject(page, state, backend)
    try:
        for request in requests_in(subject):
            execute.check_possible(request, survey.pick(request.backend))
        return subject, check_time(story, part, subject)
    except TooLargeError as error:
        raise TooLargeError(f"{error} {story.instead(subject)}".strip()) from None


def check_time(story: Story, part: str, subject: object) -> float:
    """The estimated seconds of a stage (no part) or a tab. Raises TooLargeError, with the estimate and the remedy."""
    launched = run(requests_in(subject))
    if more := story.launches.get(part):
        launched += more(subject)
    seconds, limit = sum(each.seconds for each in launched), SHARE * workers.TIME_LIMIT
    if fits(launched):
        return seconds
    longest = max(launched, key=lambda each: each.seconds).request
    kernels = len({each.request.kernel.name for each in launched})
    of = f"{kernels} kernels" if kernels > 1 else longest.kernel.name
    raise TooLargeError(
        f"{story.title}{f' ({part})' if part else ''} launches {of} {sum(each.times for each in launched)} times at "
        f"{longest.problem.size}, which would take about {seconds:,.0f} s on the CPU (estimated); the limit is "
        f"{limit:g} s. {longest.problem.remedy[:-1]}, or a machine with a GPU."
    )


def _set(page: Page, state: State, name: str, text: str) -> None:
    sides = {kernel_name(side): side for side in page.sides} if page.kernels else {}
    if name in sides:
        chosen = page.catalog.kernels.get(text)
        views = page.elsewhere(chosen) if chosen else {}
        if not views and text not in page.kernels_of(sides[name], state):
            raise ProblemError(f"{name} is {quoted(text)}. There is no such kernel here.")
        left = {other: page.own[other].default for other in page.elsewhere(page.shown_kernel(state))}
        state |= {**left, **views}
        if not views:
            page.take_kernel(state, sides[name], text)
        for other in {**left, **views}:
            page.adapt(page, state, other)
        return
    fields_of_preset = described.presets(page, state).get(text) if name == "preset" and page.kernels else None
    choices = page.choices(state)
    if fields_of_preset is not None:
        state.update(fields_of_preset)
    elif name in choices:
        state[name] = choices[name].read(name, text)
    elif not name.startswith("recorded_"):
        raise ProblemError(f"{shortened(name)} is not a choice of this page.")


def _correct(page: Page, state: State, reported: Collection[str] = (), changed: str = "") -> list[str]:
    """Corrects the state, in place. Returns the sentences to report that are not in `reported`. A problem's field with
    its default was chosen by nobody, so its correction is not reported, unless it was just changed. The maker of the
    problem reports its errors."""
    sides = page.sides if page.kernels else ()
    fields = {name: choice for side in sides for name, choice in page.fields(state, side).items()}
    silent = {name for name, choice in fields.items() if state[name] == choice.default and name != changed}
    try:
        corrections = page.correct(page, state)
    except WarpglassError:
        return []
    sentences = dict.fromkeys(correction.sentence for correction in corrections if correction.name not in silent)
    return [sentence for sentence in sentences if sentence not in reported]


def _offer(page: Page, state: State) -> dict[str, object] | None:
    """The scale of the scores at which a what-if build shows its effect, if it shows none now. Only for pages with a
    place in the output."""
    if "score_scale" not in state or not any(name.startswith("at_") for name in page.own):
        return None
    for side in page.sides:
        settings = page.settings_of(state, side)
        for constant in page.kernel_of(state, side).what_ifs:
            if settings[constant.name] != constant.default and state["score_scale"] < constant.shows_at:
                scale = f"{constant.shows_at:g}"
                text = f"{constant.what_if} shows from score_scale {scale} on. Here it is {state['score_scale']:g}."
                return {"text": text, "label": f"Set score_scale to {scale}", "set": ("score_scale", scale)}
    return None


def _backend(page: Page, state: State, survey: Survey, answer: Asking) -> str:
    name, plain = state.get("backend", "auto"), bool(page.kernels) and page.kernel_of(state).plain
    if plain and name == "gpu":
        answer.told.append("backend is gpu. Only the CPU traces a kernel in CUDA's own names, so this page runs there.")
        state["backend"] = name = "auto"
    try:
        return survey.pick(name, plain).backend
    except BackendUnavailable as error:
        answer.told.append(f"backend is {name}. This machine has no usable {name} backend: {error}")
        state["backend"] = "auto"
        return survey.pick("auto", plain).backend


def _descriptions(page: Page, state: State, survey: Survey, backend: str) -> list[described.Description]:
    try:
        own = page.describe(page, state)
    except ProblemError:
        own = {}  # the error reports the fault of the problem
    found = described.describe(page, state, survey, own)
    if backend != "recorded" or not page.kernels or not page.runs:
        return found
    constants = {name for side in page.sides for name in page.constants(state, side)}
    return [entry for entry in found if entry["group"] not in OF_RECORDINGS and entry["name"] not in constants]


# ---- the nearest choice that can run ----


def nearest_offer(page: Page, state: State, seconds: Callable[[State], float]) -> dict[str, object] | None:
    """A change of one choice with which the page can run: {text, label, set: (choice, value)}, or None.

    seconds: of a state, estimated. Raises WarpglassError if the state cannot run."""
    slower, tried = None, 0
    for name, value in _candidates(page, state):
        tried += 1
        if tried > MOST_TRIED:
            break
        other = {**state, name: value}
        try:
            page.correct(page, other)
            takes = seconds(other)
        except WarpglassError:
            continue
        if other[name] != value:
            continue
        if takes <= QUICK:
            return _proposal(name, value)
        slower = slower or _proposal(name, value)
    return slower


def _proposal(name: str, value: object) -> dict[str, object]:
    text = write_value(value)
    return {"text": f"{name} {text} can run here.", "label": f"Use {name} {text}", "set": (name, text)}


def _candidates(page: Page, state: State) -> Iterator[tuple[str, object]]:
    """(choice, value) with the choices of the reader first, and for each the nearest value first."""
    if not page.kernels:
        return
    choices = {
        name: choice
        for side in page.sides
        for name, choice in {**page.fields(state, side), **page.constants(state, side)}.items()
        if name in state
    }
    chosen = [name for name, choice in choices.items() if state[name] != choice.default]
    for name in [*chosen, *(name for name in choices if name not in chosen)]:
        for value in _near(choices[name], state[name]):
            yield name, value


def _near(choice: Choice, value: object) -> list[object]:
    """Other values of a choice, the nearest first: the allowed ones, or halves down to the default."""
    if choice.allowed is not None:
        others = [other for other in choice.allowed if other != value]
        if isinstance(value, (int, float)):
            others.sort(key=lambda other: abs(other - value))
        return others
    if isinstance(value, bool) or not isinstance(value, int):
        return [choice.default] if value != choice.default else []
    least = max(1, int(choice.low or 1))
    halves: list[object] = []
    while value // 2 >= least:
        value //= 2
        halves.append(value)
    return halves

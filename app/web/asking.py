"""From a link or a click to a subject: choices, refusals, and the value for a bundle.

This module computes nothing and keeps nothing. The browser holds the choices, and each answer comes from its
question.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from app.choices import described, presets, recordings
from app.choices.estimates import requests_in
from app.choices.links import read_link
from app.choices.page import Page, State, kernel_name
from app.parts.story import Story
from app.web import limits, nearest
from app.web.carried import translated
from app.workbench import drafts
from explainers.story import stage
from kernels import catalog
from kernels.core.fields import quoted, shortened, write_value
from kernels.errors import BackendUnavailable, CannotRun, ProblemError, WarpglassError
from kernels.run import execute
from kernels.run.backends import Survey

CLIENT = {"stop", "step", "tab", "picture", "depth"}  # the parameters of a link that only the browser reads
OF_RECORDINGS = ("preset", "problem", "build", "what_if")  # groups of choices that a choice of recordings replaces
Change = tuple[str, str]  # a choice and its new value, as text


@dataclass
class Asking:
    """The answer to a question about a story.

    choices: their descriptions.
    link: every choice as text.
    told: sentences on the refused parts of a link.
    refused: choice -> the reason against its new value.
    offer: a change that shows more, or that can run after an error: {text, label, set: (choice, value)}.
    headline: the kernel in one sentence.
    backend: the place to run.
    subject: the value to show; None after an error.
    seconds: its estimated time.
    error: the reason why nothing can be shown, or "".
    """

    choices: list[described.Description] = field(default_factory=list)
    link: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    offer: dict[str, object] | None = None
    headline: str = ""
    backend: str = "cpu"
    subject: object = None
    seconds: float = 0.0
    error: str = ""


def ask(
    story: Story,
    params: Mapping[str, str],
    survey: Survey,
    change: Change | None = None,
    carried: bool = False,
    part: str = "",
) -> Asking:
    """The answer to a link or a click.

    params: of the link.
    change: a choice and its new value, if the reader chose one.
    carried: whether the choices come from other stories, the newest last. They are translated, without a note.
    part: a tab, or "" for the stage.
    """
    known = drafts.with_drafts(catalog.current(), [*params.values(), change[1] if change else ""])
    page, answer = story.page(known), Asking()
    given = {name: text for name, text in params.items() if name not in CLIENT}
    state, refusals = read_link(page, translated(page, given) if carried else given)
    answer.told = [] if carried else refusals
    if change:
        _change(page, state, change, answer)
        answer.told += _correct(page, state, [] if carried else answer.told, change[0])
    answer.backend = _backend(page, state, survey, answer)
    of_recordings = []
    try:
        if answer.backend == "recorded" and page.kernels and page.recorded:
            before = dict(state)
            of_recordings = recordings.narrow(page, state, change)
            _correct(page, state)
            if not carried:
                compared = given if change is None or change[0] == "backend" else {}
                answer.told += _differences(before, state, compared)
        answer.subject, answer.seconds = _subject(story, page, state, answer.backend, survey, part)
    except WarpglassError as error:
        automatic = answer.backend == "gpu" and state.get("backend", "auto") == "auto"
        others = {name: device for name, device in survey.devices.items() if name != "gpu"}
        if isinstance(error, CannotRun) and automatic and others:
            left = Survey(others, {**survey.reasons, "gpu": str(error)})
            place = {"backend": left.pick().backend} if "backend" in state else {}
            other_change = None if change and change[0] == "backend" else change
            return _without_gpu(ask(story, {**params, **place}, left, other_change, carried, part), str(error))
        answer.subject, answer.error = None, str(error)
    answer.choices = of_recordings + _descriptions(page, state, survey, answer.backend)
    answer.link = _link(page, state)
    if not answer.error:
        answer.offer = _offer(page, state)
    elif answer.backend != "recorded":
        answer.offer = nearest.offer(
            page, state, lambda other: _subject(story, page, other, answer.backend, survey, part)[1]
        )
    if page.kernels:
        answer.headline = stage.headline(page.kernel_of(state))
    return answer


def _without_gpu(answer: Asking, reason: str) -> Asking:
    """The answer of the other backends, with the reason against the GPU. The choice of the backend stays automatic."""
    answer.told.insert(0, f"{reason} This page therefore does not use the GPU.")
    if "backend" in answer.link:
        answer.link["backend"] = "auto"
    for entry in answer.choices:
        if entry["name"] == "backend":
            entry["value"] = "auto"
    return answer


def _subject(story: Story, page: Page, state: State, backend: str, survey: Survey, part: str) -> tuple[object, float]:
    """The value to show, and its estimated seconds. Raises WarpglassError if it cannot run."""
    subject = story.subject(page, state, backend)
    for request in requests_in(subject):
        execute.check_possible(request, survey.pick(request.backend))
    return subject, limits.check(story, part, subject)


def _change(page: Page, state: State, change: Change, answer: Asking) -> None:
    """Takes a new value into the state, in place. A refused value changes nothing and is reported."""
    (name, text), before = change, dict(state)
    try:
        _set(page, state, name, text)
        page.adapt(page, state, name)
    except ProblemError as error:
        state.clear()
        state.update(before)
        answer.refused[name] = str(error)


def _set(page: Page, state: State, name: str, text: str) -> None:
    """Sets one choice, in place. Raises ProblemError."""
    sides = {kernel_name(side): side for side in page.sides} if page.kernels else {}
    if name in sides:
        if text not in page.kernels_of(sides[name], state):
            raise ProblemError(f"{name} is {quoted(text)}. There is no such kernel here.")
        page.take_kernel(state, sides[name], text)
        return
    fields_of_preset = presets.named(page, state).get(text) if name == "preset" and page.kernels else None
    choices = page.choices(state)
    if fields_of_preset is not None:
        state.update(fields_of_preset)
    elif name in choices:
        state[name] = choices[name].read(name, text)
    elif not name.startswith("recorded_"):
        raise ProblemError(f"{shortened(name)} is not a choice of this page.")


def _correct(page: Page, state: State, reported: Collection[str] = (), changed: str = "") -> list[str]:
    """Corrects the state, in place. Returns the sentences to report that are not in `reported`.

    A problem's field with its default was chosen by nobody, so its correction is not reported, unless it was just
    changed. The maker of the problem reports its errors.
    """
    sides = page.sides if page.kernels else ()
    fields = {name: choice for side in sides for name, choice in page.fields(state, side).items()}
    silent = {name for name, choice in fields.items() if state[name] == choice.default and name != changed}
    try:
        corrections = page.correct(page, state)
    except WarpglassError:
        return []
    sentences = dict.fromkeys(correction.sentence for correction in corrections if correction.name not in silent)
    return [sentence for sentence in sentences if sentence not in reported]


def _differences(before: State, state: State, given: Mapping[str, str]) -> list[str]:
    """A sentence for each choice of a link that the recording has with another value."""
    return [
        f"{name} is {write_value(before[name])}. Recorded is {write_value(state[name])}."
        for name in given
        if name in before and before[name] != state.get(name)
    ]


def _link(page: Page, state: State) -> dict[str, str]:
    """Every choice as text, without late choices that nobody made."""
    choices = page.choices(state)
    chosen = [name for name, choice in choices.items() if not (choice.late and state[name] == "")]
    return {name: write_value(state[name]) for name in chosen}


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

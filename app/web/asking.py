"""From what a link says, or a click, to what is to be shown: choices, refusals, and what a bundle is made of.

Nothing is computed here and nothing is kept: the browser holds the choices, every answer is made from the question.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.choices import described, presets, recordings
from app.choices.asked import Asked, State, kernel_name
from app.choices.carried import translated
from app.choices.estimates import requests_in
from app.parts.story import Story
from app.web import limits
from explainers.story import stage
from kernels.core.fields import quoted, shortened, write_value
from kernels.errors import BackendUnavailable, ProblemError, WarpglassError
from kernels.run import execute
from kernels.run.backends import Survey

CLIENT = {"step", "tab", "picture"}  # of a link: the browser's own


@dataclass
class Asking:
    """What a story is asked for. what: to be shown, None where `error` says why not. link: every choice as text.
    told: sentences on what was not taken. refused: choice -> why its new value was not taken. offer: a change that
    would show more: {text, label, set: (choice, value)}."""

    choices: list[described.Described] = field(default_factory=list)
    link: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    offer: dict[str, Any] | None = None
    headline: str = ""
    backend: str = "cpu"
    what: Any = None
    error: str = ""


def ask(
    story: Story,
    params: Mapping[str, str],
    survey: Survey,
    change: tuple[str, str] | None = None,
    carried: bool = False,
    part: str = "",
) -> Asking:
    """params: of a link. change: a choice and its new value, as text. carried: the choices were made in other stories,
    the newest last; they are translated, and what does not apply here is not told. part: a tab, none for the stage."""
    asked, made = story.asked, Asking()
    given = {name: text for name, text in params.items() if name not in CLIENT}
    state, ignored = asked.read_link(translated(asked, given) if carried else given)
    made.told = [] if carried else ignored
    if change:
        _change(story, state, change, made)
        made.told += _settle(asked, state, [] if carried else made.told, change[0])
    made.backend = _backend(state, survey, made)
    narrowed = []
    try:
        if made.backend == "recorded" and asked.kernels and asked.recorded:
            before = dict(state)
            narrowed = recordings.narrow(asked, state, change)
            _settle(asked, state)
            if not carried:
                made.told += _moved(before, state, given if change is None or change[0] == "backend" else {})
        made.what = story.what(state, made.backend)
        for request in requests_in(made.what):
            execute.check_possible(request, survey.pick(request.backend))
        limits.check(story, part, made.what)
    except WarpglassError as error:
        made.what, made.error = None, str(error)
    made.choices = narrowed + _described(story, state, survey, made)
    made.link = {
        name: write_value(state[name])
        for name, choice in asked.known(state).items()
        if not (choice.late and state[name] == "")
    }
    made.offer = _offer(asked, state)
    if asked.kernels:
        made.headline = stage.headline(asked.spec_of(state))
    return made


def _change(story: Story, state: State, change: tuple[str, str], made: Asking) -> None:
    """Takes a new value into the state, or says why not; what is refused changes nothing."""
    asked, (name, text) = story.asked, change
    sides = {kernel_name(side): side for side in asked.sides} if asked.kernels else {}
    known, before = asked.known(state), dict(state)
    try:
        if name in sides:
            if text not in asked.kernels_of(sides[name], state):
                raise ProblemError(f"{name} is {quoted(text)}; there is no such kernel here.")
            asked.take_kernel(state, sides[name], text)
        elif name == "preset" and asked.kernels and text in (found := presets.named(asked, state)):
            state.update(found[text])
        elif name in known:
            state[name] = known[name].read(name, text)
        elif not name.startswith("recorded_"):
            raise ProblemError(f"{shortened(name)} is not a choice of this page.")
        story.changed(asked, state, name)
    except ProblemError as error:
        state.clear()
        state.update(before)
        made.refused[name] = str(error)


def _moved(before: State, state: State, given: Mapping[str, str]) -> list[str]:
    """A sentence for each choice of a link that a recording has otherwise."""
    return [
        f"{name} is {write_value(before[name])}; recorded is {write_value(state[name])}."
        for name in given
        if name in before and before[name] != state.get(name)
    ]


def _offer(asked: Asked, state: State) -> dict[str, Any] | None:
    """A what-if build that shows nothing at the chosen scale of the scores offers the scale at which it does: where
    values are shown, of a place in the output."""
    if "score_scale" not in state or not any(name.startswith("at_") for name in asked.own):
        return None
    for side in asked.sides:
        settings = asked.settings_of(state, side)
        for constant in asked.spec_of(state, side).what_ifs:
            if settings[constant.name] != constant.default and state["score_scale"] < constant.shows_at:
                scale = f"{constant.shows_at:g}"
                text = f"{constant.what_if} shows from score_scale {scale} on; here it is {state['score_scale']:g}."
                return {"text": text, "label": f"Set score_scale to {scale}", "set": ("score_scale", scale)}
    return None


def _settle(asked: Asked, state: State, said: Collection[str] = (), changed: str = "") -> list[str]:
    """What had to be moved, and was not said before. A field of the problem that stood at its beginning is taken as
    chosen by nobody: that it moved is not said, unless it is what was just changed. Errors of the problem are told by
    who makes it."""
    sides = asked.sides if asked.kernels else ()
    fields = {name: choice for side in sides for name, choice in asked.fields(state, side).items()}
    unchosen = {name for name, choice in fields.items() if state[name] == choice.begin and name != changed}
    try:
        moved = asked.settle(asked, state)
    except WarpglassError:
        return []
    return [s for s in dict.fromkeys(s for name, s in moved if name not in unchosen) if s not in said]


def _backend(state: State, survey: Survey, made: Asking) -> str:
    name = state.get("backend", "auto")
    try:
        return survey.pick(name).backend
    except BackendUnavailable as error:
        made.told.append(f"backend is {name}; this machine has no usable {name} backend: {error}")
        state["backend"] = "auto"
        return survey.pick().backend


def _described(story: Story, state: State, survey: Survey, made: Asking) -> list[described.Described]:
    try:
        narrowed = story.narrowed(story.asked, state)
    except ProblemError:
        narrowed = {}  # the error says what is wrong with the problem
    found = described.describe(story.asked, state, survey, narrowed)
    if made.backend == "recorded" and story.asked.kernels and story.asked.runs:  # a recording stands for these
        asked = story.asked
        given = {name for side in asked.sides for name in asked.constants(state, side)}
        groups = ("preset", "problem", "build", "what_if")
        found = [entry for entry in found if entry["group"] not in groups and entry["name"] not in given]
    return found

"""In place of a problem's fields and a kernel's constants: a choice among what is recorded of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.choices.choice import Choice, difference
from kernels.core.fields import write_value
from kernels.core.spec import KernelSpec
from kernels.run.backends import recorded

if TYPE_CHECKING:
    from app.choices.page import Page

MOST = 40  # characters of a value in a label


def choose(page: "Page") -> None:
    """A problem that every side is recorded on, and of each side one of its builds there; the page's state is then
    that."""
    state = page.state
    found = {side: recorded.of(page.spec(side)) for side in page.sides}
    fields = page.fields(state)
    problems = {side: [_read(r.problem, fields) for r in found[side]] for side in page.sides}
    common = [p for p in problems[page.sides[0]] if all(p in others for others in problems.values())]
    common = [p for n, p in enumerate(common) if p not in common[:n]]
    if not common:
        names = " and ".join(dict.fromkeys(page.spec(side).name for side in page.sides))
        st.warning(
            f"Nothing is recorded of the present code of {names}. Choose another backend, or record it on a GPU: "
            f"python -m kernels record."
        )
        return
    before = {name: value for name, value in state.items() if name not in page.own}
    begin = {name: choice.begin for name, choice in fields.items()}
    common.sort(key=lambda p: len(difference(p, begin)))
    # a what-if that was asked for is found where it is recorded
    wanted = [p for p in common if _builds(page, found, problems, p, page.sides[0], asked=True)] or common
    problem = _pick("Recorded problem", common, wanted, state, lambda p: _said(p, begin) or "the default problem")
    state.update(problem)
    for side in page.sides:
        builds = _builds(page, found, problems, problem, side, asked=False)
        asked = _builds(page, found, problems, problem, side, asked=True)
        label = f"Recorded build of {side.upper()}" if side else "Recorded build"
        state.update(
            _pick(label, builds, asked or builds, state, lambda build, side=side: _build_said(page, build, side))
        )
    if page.one_what_if:
        page.say_what_if()
    if before != {name: value for name, value in state.items() if name not in page.own}:
        moved = [name for name in page.own if name.startswith("at_")]  # the traced place: a recording has its own
        state.update({name: page.own[name].begin for name in moved})
        page.forget([*state])


def _builds(page: "Page", found: dict, problems: dict, problem: dict, side: str, asked: bool) -> list[dict[str, Any]]:
    """The choices that the recorded builds of a side on this problem stand for; asked: only those of the what-if build
    that is chosen."""
    made = [_state_of(page, r.settings, side) for r, p in zip(found[side], problems[side]) if p == problem]
    if asked and page.one_what_if:
        made = [build for build in made if build["what_if"] == page.state["what_if"]]
    return [build for n, build in enumerate(made) if build not in made[:n]]


def _state_of(page: "Page", settings: Mapping[str, int], side: str) -> dict[str, Any]:
    """The choices that a recording's constants stand for."""
    constants, spec = page.constants(page.state, side), page.spec(side)
    settings = {**spec.settings(), **settings}
    found: dict[str, Any] = {f"{side}_{name}" if side else name: value for name, value in settings.items()}
    found = {name: value for name, value in found.items() if name in constants}
    if page.one_what_if:
        found["what_if"] = next((c.name for c in spec.what_ifs if settings[c.name] != c.default), "none")
    return found


def _read(values: Mapping[str, Any], choices: Mapping[str, Choice]) -> dict[str, Any]:
    """A recorded problem's fields as choices hold them."""
    return {name: choices[name].read(name, value) for name, value in values.items() if name in choices}


def _pick(label: str, options: list[dict], wanted: list[dict], state: dict, said: Any) -> dict[str, Any]:
    """A select box that stands at what the state says, or else at the wanted option that is nearest to it."""
    at = next((option for option in wanted if option == {name: state[name] for name in option}), None)
    at = at or min(wanted, key=lambda option: len(difference(option, state)))
    return options[
        st.selectbox(label, range(len(options)), index=options.index(at), format_func=lambda n: said(options[n]))
    ]


def _said(values: Mapping[str, Any], common: Mapping[str, Any]) -> str:
    """Those that differ from the common ones, in words."""
    texts = {name: write_value(values[name]) for name in difference(values, common)}
    return ", ".join(
        f"{name} {text if len(text) <= MOST else text[: MOST - 4] + ' ...'}" for name, text in texts.items()
    )


def _build_said(page: "Page", build: dict[str, Any], side: str) -> str:
    """How a build differs from that kernel's own defaults."""
    spec: KernelSpec = page.spec(side)
    own = {f"{side}_{c.name}" if side else c.name: c.default for c in spec.constants}
    said = _said({name: value for name, value in build.items() if name != "what_if"}, own)
    broken = next((c.what_if for c in spec.what_ifs if c.name == build.get("what_if")), "")
    return ", ".join(part for part in (broken, said) if part) or "as written"

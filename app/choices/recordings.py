"""The choice of a recording, in place of a problem's fields and a kernel's constants."""

from collections.abc import Mapping
from typing import Any

from app.choices.choice import difference
from app.choices.described import option, select
from app.choices.page import NONE, Description, Page, State, constant_name
from kernels.core.fields import write_value
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable, ProblemError
from kernels.recordings import run_index
from kernels.run import workers

MOST = 40  # characters of a value in a label
PROBLEM = "recorded_problem"  # the choice of a problem. A build is recorded_build, or recorded_build_a


def is_recorded(state: State) -> bool:
    """Whether recordings answer the choices, as they do without another backend."""
    try:
        return workers.survey().pick(state["backend"]).backend == "recorded"
    except BackendUnavailable:
        return False


def has(request: Request) -> bool:
    try:
        return bool(run_index.find(request))
    except ProblemError:
        return False


def narrow(page: Page, state: State, change: tuple[str, str] | None = None) -> list[Description]:
    """Puts the state at recordings, in place: a problem that every side has, and one recorded build of each side.

    It takes the recordings of `change` (a choice, and a number in its list), or the nearest ones. Returns the
    descriptions of these choices. Raises BackendUnavailable without a recording."""
    found = {side: run_index.of(page.kernel_of(state, side)) for side in page.sides}
    fields = page.fields(state)
    problems = {  # a recorded problem's fields as choices hold them
        side: [
            {name: fields[name].read(name, value) for name, value in recording.problem.items() if name in fields}
            for recording in found[side]
        ]
        for side in page.sides
    }
    common = [p for p in problems[page.sides[0]] if all(p in others for others in problems.values())]
    common = [p for n, p in enumerate(common) if p not in common[:n]]
    if not common:
        names = " and ".join(dict.fromkeys(page.kernel_of(state, side).name for side in page.sides))
        raise BackendUnavailable(
            f"Nothing is recorded of the present code of {names}. Choose another backend, or record it on a GPU: "
            "python -m kernels record."
        )
    before = {name: value for name, value in state.items() if name not in page.own}
    defaults = {name: choice.default for name, choice in fields.items()}
    common.sort(key=lambda p: len(difference(p, defaults)))

    def builds_on(problem: State, side: str, asked_for: bool = False) -> list[State]:
        """The choices of a side's recorded builds on a problem. asked_for: only builds with the chosen what-if."""
        pairs = zip(found[side], problems[side])
        choices = [_state_of(page, state, recording.settings, side) for recording, p in pairs if p == problem]
        if asked_for and page.one_what_if:
            choices = [build for build in choices if build["what_if"] == state["what_if"]]
        return [build for n, build in enumerate(choices) if build not in choices[:n]]

    # prefer a chosen what-if build
    wanted = [p for p in common if builds_on(p, page.sides[0], asked_for=True)] or common
    problem = _pick(common, wanted, state, PROBLEM, change)
    state.update(problem)
    descriptions = [
        _described(PROBLEM, "Recorded problem", common, problem, lambda p: _said(p, defaults) or "the default problem")
    ]
    kernels = {page.kernel_of(state, side).name for side in page.sides}
    broken = [said for said in run_index.left_out() if any(f"/{name}-" in said for name in kernels)]
    descriptions[0]["options"] += [option("", "not readable", why=said) for said in broken]
    for side in page.sides:
        builds, exact = builds_on(problem, side), builds_on(problem, side, asked_for=True)
        name = f"recorded_build{'_' if side else ''}{side}"
        build = _pick(builds, exact or builds, state, name, change)
        state.update(build)
        label = f"Recorded build of {side.upper()}" if side else "Recorded build"
        if len(builds) > 1:
            descriptions.append(
                _described(name, label, builds, build, lambda b, side=side: _build_said(page, state, b, side))
            )
    if before != {name: value for name, value in state.items() if name not in page.own}:
        state.update({n: page.own[n].default for n in page.own if n.startswith("at_")})  # a recording has its own place
    return descriptions


def _state_of(page: Page, state: State, settings: Mapping[str, int], side: str) -> State:
    """The choices that equal a recording's constants."""
    constants, spec = page.constants(state, side), page.kernel_of(state, side)
    settings = {**spec.settings(), **settings}
    found: State = {constant_name(side, name): value for name, value in settings.items()}
    found = {name: value for name, value in found.items() if name in constants}
    if page.one_what_if:
        found["what_if"] = next((c.name for c in spec.what_ifs if settings[c.name] != c.default), NONE)
    return found


def _pick(options: list[State], wanted: list[State], state: State, name: str, change: tuple[str, str] | None) -> State:
    """The option that the change names, else the state's option, else the nearest of the wanted options."""
    if change and change[0] == name and change[1].isdecimal() and int(change[1]) < len(options):
        return options[int(change[1])]
    at = next((option for option in wanted if option == {n: state[n] for n in option}), None)
    return at or min(wanted, key=lambda option: len(difference(option, state)))


def _described(name: str, label: str, options: list[State], now: State, said: Any) -> Description:
    listed = {str(n): said(option) for n, option in enumerate(options)}
    return select(name, label, str(options.index(now)), listed, "preset")


def _said(values: Mapping[str, object], common: Mapping[str, object]) -> str:
    texts = {name: write_value(values[name]) for name in difference(values, common)}
    return ", ".join(
        f"{name} {text if len(text) <= MOST else text[: MOST - 4] + ' ...'}" for name, text in texts.items()
    )


def _build_said(page: Page, state: State, build: State, side: str) -> str:
    """How a build differs from that kernel's own defaults."""
    spec: KernelSpec = page.kernel_of(state, side)
    own = {constant_name(side, c.name): c.default for c in spec.constants}
    said = _said({name: value for name, value in build.items() if name != "what_if"}, own)
    broken = next((c.what_if for c in spec.what_ifs if c.name == build.get("what_if")), "")
    return ", ".join(part for part in (broken, said) if part) or "as written"

"""The choices of a page that shows two kernels side by side: which of their items is traced, which of their builds is
broken on purpose, and both as they were timed."""

import json
from contextlib import suppress
from functools import lru_cache
from itertools import product
from typing import Any

import pandas as pd

from app.choices import estimates, items, places
from app.choices.asked import NONE, Asked, State, constant_name
from app.choices.choice import Choice
from explainers.stories.bank_conflicts import padding
from explainers.stories.compare import pair_times, time_verdict
from explainers.stories.tiling import tiling
from explainers.stories.timing import sweep_search
from explainers.story import probed
from kernels.core.fields import fields_of, quoted
from kernels.core.remembered import of_recordings, remembered
from kernels.core.request import Request, Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError, TooLargeError
from kernels.measure import bench, rows
from kernels.run import execute, workers
from kernels.run.backends import Device

AS_TIMED = "as_timed"
WHAT_IFS = {"a": "a_what_if", "b": "b_what_if"}
TIMED = "timed"
LEAST_TIMED = 128  # tokens; the constants begin at the kernels' own, which are timed too
TILED = probed.accepting(tiling)  # the kernels that are shown by their matrices
OWN = {
    **places.QUERY,
    **items.OWN,
    AS_TIMED: Choice("", late=True, meaning="the constants and the problem that were timed"),
    **{name: Choice("", late=True) for name in WHAT_IFS.values()},
}  # the late ones hold nothing: a click on them sets constants


def dense(asked: Asked, state: State) -> bool:
    """Whether both kernels are shown by their matrices, so that a query says what is traced."""
    return all(state[side] in TILED for side in asked.sides)


def requests(asked: Asked, state: State, backend: str) -> tuple[Request, Request]:
    """What is shown. ProblemError."""
    if dense(asked, state):
        a, b = (places.request(asked, state, backend, side) for side in asked.sides)
        return a, b
    a, b = (asked.request_of(state, side, backend, Scope(state["at_item"])) for side in asked.sides)
    return a, b


def beginning(spec: KernelSpec) -> dict[str, Any]:
    """Where two kernels that are shown by their matrices begin: with what is timed. Others begin where their problem
    does."""
    return {"seq_len": max(LEAST_TIMED, spec.problem_type().seq_len)} if spec.name in TILED else {}


def another(spec: KernelSpec) -> dict[str, Any]:
    """Where the second of two builds of the only kernel that solves its problem begins: with the least remedy for bank
    conflicts, or on the problem's next preset that it takes, or one field away."""
    kind: Any = spec.problem_type
    begin = Request(spec, kind())
    plain, *remedied = padding.before_and_after(begin)
    if remedied:
        return {name: value for name, value in remedied[0].constants.items() if value != plain.constants[name]}
    for preset in list(kind.presets().values())[1:]:
        with suppress(ProblemError):
            Request(spec, kind(**preset)).plan  # noqa: B018
            return dict(preset)
    for name, field in fields_of(kind).items():
        if field.metadata["allowed"]:
            return {name: next(value for value in field.metadata["allowed"] if value != field.default)}
    name = next(n for n, f in fields_of(kind).items() if isinstance(f.default, int))
    return {name: 2 * begin.problem.values()[name]}


def settle(asked: Asked, state: State) -> list[tuple[str, str]]:
    """Takes what a link says for several constants at once, and puts a place that is out of range at its beginning, in
    place; (name, sentence) of each that was not taken."""
    moved = []
    for name in (AS_TIMED, *WHAT_IFS.values()):
        try:
            _take(asked, state, name)
        except ProblemError as error:
            moved.append((name, str(error)))
            state[name] = ""
    return moved + _settle_place(asked, state)


def _settle_place(asked: Asked, state: State) -> list[tuple[str, str]]:
    if dense(asked, state):
        return places.settle(asked, state)
    return items.settle(asked, state, _last_item)


def changed(asked: Asked, state: State, name: str) -> None:
    """Another problem brings a second kernel that solves it; a what-if sets the constant it stands for, `as timed` the
    problem and all constants."""
    other = asked.first_of("b", asked.kernels_of("b", state), state)
    if name == "a" and state["a"] == state["b"] != other:
        asked.take_kernel(state, "b", other)
    _take(asked, state, name)


def _take(asked: Asked, state: State, name: str) -> None:
    """Sets what a what-if, or `as timed`, stands for, in place; then it holds nothing. ProblemError if it stands for
    nothing."""
    value = state.get(name, "")
    if not value or name not in (AS_TIMED, *WHAT_IFS.values()):
        return
    if name == AS_TIMED:
        if value != TIMED:
            raise ProblemError(f"{name} is {quoted(value)}; it can only be {TIMED}.")
        _as_timed(asked, state)
    else:
        side = name[0]
        given = {c.name: c for c in asked.spec_of(state, side).what_ifs}
        if value not in (NONE, *given):
            raise ProblemError(f"{name} is {quoted(value)}; it must be one of {', '.join((NONE, *given))}.")
        for constant in given.values():
            broken = next(v for v in constant.values if v != constant.default)
            state[constant_name(side, constant.name)] = broken if value == constant.name else constant.default
    state[name] = ""


def narrowed(asked: Asked, state: State) -> dict[str, dict[str, Any]]:
    """The places that these kernels have, a what-if of each side, and whether what is chosen was timed."""
    found: dict[str, dict[str, Any]] = {}
    if dense(asked, state):
        found |= places.narrowed(asked, state)
        found["at_item"] = {"hidden": True}
    else:
        item, high = asked.request_of(state, "a").plan.item, _last_item(asked, state)
        found |= {name: {"hidden": True} for name in places.QUERY}
        found["at_item"] = {"high": high, "label": item, "disabled": "" if high else f"there is only one {item}"}
    for side in asked.sides:
        found |= _constants(asked, state, side)
    if asked.alone(state):
        for name in asked.fields(state):
            found[name] = {"label": f"A {name}"}
            found[constant_name("b", name)] = {"label": f"B {name}", "group": "problem"}
        found["preset"] = {"label": "Problem of A"}
    row, why = _timed(asked, state)
    found[AS_TIMED] = {
        "hidden": asked.alone(state),
        "group": "preset",
        "label": "Both",
        "kind": "select",
        "options": {TIMED: "As timed"},
        "value": TIMED if row is not None and _is(asked, state, row) else "",
        "disabled": why,
    }
    return found


def _constants(asked: Asked, state: State, side: str) -> dict[str, dict[str, Any]]:
    """A side's constants by its own letter; its what-ifs as one choice in front."""
    spec, found = asked.spec_of(state, side), {}
    for constant in spec.constants:
        name = constant_name(side, constant.name)
        found[name] = {"label": f"{side.upper()} {constant.name}", "hidden": constant.what_if != ""}
    if spec.what_ifs:
        broken = next((c.name for c in spec.what_ifs if state[constant_name(side, c.name)] != c.default), NONE)
        options = {NONE: "as written", **{c.name: c.what_if for c in spec.what_ifs}}
        found[WHAT_IFS[side]] = {
            "hidden": False,
            "group": "what_if",
            "label": side.upper(),
            "kind": "select",
            "options": options,
            "value": broken,
        }
    return found


# ---- times ----


def times(a: Request, b: Request) -> pd.DataFrame:
    """compare_times.times of two requests, from all recorded tables."""
    return _times(_builds(a, b), a.kernel.problem_type)


def absent(a: Request, b: Request) -> str:
    """Which of them has no recorded time, in sentences."""
    return time_verdict.absent(_recorded(), (a, b))


def nearest(a: Request, b: Request) -> Any:
    """The row of their `times` whose problem is nearest to theirs; None if there is none."""
    return _nearest(_builds(a, b), a.problem)


Settings = tuple[tuple[str, int], ...]
Builds = tuple[tuple[KernelSpec, Settings], ...]


def _builds(*requests: Request) -> Builds:
    """What the recorded times of requests depend on: constants that were never timed are all alike."""
    return tuple((r.kernel, _timed_like(r.kernel, tuple(r.constants.items()))) for r in requests)


def _timed_like(kernel: KernelSpec, settings: Settings) -> Settings:
    timed, untimed = _timed_with(kernel)
    return settings if untimed is None or rows.settings_text(settings) in timed else untimed


@of_recordings(lru_cache(maxsize=64))
def _timed_with(kernel: KernelSpec) -> tuple[frozenset[str], Settings | None]:
    """The constants with which a kernel was timed, as its table writes them; and one choice of others, if there is."""
    timed = frozenset(_recorded()[lambda table: table.name == kernel.name].settings)
    names = [c.name for c in kernel.constants]
    every = (tuple(zip(names, values)) for values in product(*(c.values for c in kernel.constants)))
    return timed, next((settings for settings in every if rows.settings_text(settings) not in timed), None)


@of_recordings(remembered(256))
def _nearest(builds: Builds, problem: Any) -> Any:
    return pair_times.nearest(_times(builds, problem.problem_type), problem)


@of_recordings(lru_cache(maxsize=256))
def _times(builds: Builds, kind: Any) -> pd.DataFrame:
    return pair_times.times(_recorded(), [Request(kernel, kind(), settings) for kernel, settings in builds])


@of_recordings(lru_cache(maxsize=1))
def _recorded() -> pd.DataFrame:
    tables = [sweep_search.prepared(table, where, "recorded") for table, where in bench.recorded().values()]
    return pd.concat(tables, ignore_index=True) if tables else bench.table([]).assign(device="", date="", source="")


def timed_problems(request: Request) -> list[Any]:
    """The problems of a request's kind on which its kernel has a time, with whatever constants."""
    mine = _recorded()[lambda table: (table.name == request.kernel.name) & (table.status == "ok")]
    return [request.kernel.problem_type(**json.loads(text)) for text in mine.problem.drop_duplicates()]


def _timed(asked: Asked, state: State) -> tuple[Any, str]:
    """`settable` of what is chosen."""
    a, b = (asked.request_of(state, side) for side in asked.sides)
    return settable(a, b, state["backend"])


def settable(a: Request, b: Request, backend: str) -> tuple[Any, str]:
    """The row that As timed sets: of a time of both whose problem can run on the backend and is nearest to theirs. Or
    None and why there is none."""
    both = times(a, b)
    if both.empty:
        return None, "no problem has a time of both"
    device = workers.survey().pick(backend)
    if not _runs(row := nearest(a, b), a, b, device):
        there = [_runs(each, a, b, device) for each in both.itertuples()]
        row = pair_times.nearest(both[there], a.problem)
    return row, "" if row is not None else "no problem that has a time of both can run here"


def _runs(row: Any, a: Request, b: Request, device: Device) -> bool:
    """Whether what a row's times are of can run on a device, both of them for one stage."""
    problem = pair_times.problem_of(row, a.kernel.problem_type)
    requests = [
        Request(request.kernel, problem, tuple(pair_times.settings_of(row, number).items()), backend=device.backend)
        for number, request in enumerate((a, b))
    ]
    return all(_possible(request, device) for request in requests) and estimates.fits(estimates.run(requests))


@lru_cache(maxsize=1024)
def _possible(request: Request, device: Device) -> bool:
    """Of a build that was timed."""
    try:
        execute.check_possible(request, device)
    except (ProblemError, TooLargeError):
        return False
    return True


def _is(asked: Asked, state: State, row: Any) -> bool:
    """Whether what is chosen is what a row's times are of."""
    return row.asked and pair_times.problem_of(row, asked.spec_of(state).problem_type) == asked.problem_of(state)


def _as_timed(asked: Asked, state: State) -> None:
    row, why = _timed(asked, state)
    if row is None:
        raise ProblemError(f"{why[0].upper()}{why[1:]}.")
    problem = pair_times.problem_of(row, asked.spec_of(state).problem_type)
    state.update({name: problem.values()[name] for name in asked.fields(state)})
    for number, side in enumerate(asked.sides):
        settings = pair_times.settings_of(row, number)
        state.update({constant_name(side, name): value for name, value in settings.items()})


# ---- items ----


def _last_item(asked: Asked, state: State) -> int:
    return min(asked.request_of(state, side).plan.items for side in asked.sides) - 1

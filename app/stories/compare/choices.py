"""The choices of Compare: two kernels, the traced item, a what-if of each side, and both builds as timed."""

from contextlib import suppress
from functools import lru_cache

from app.choices import items, pages, places
from app.choices.choice import Choice, broken_value
from app.choices.page import NONE, Correction, Descriptions, Page, State, constant_name
from app.stories.compare import timed
from explainers.models import tiling
from explainers.stories.bank_conflicts import padding
from explainers.stories.compare import pair_times, two_kernels
from explainers.stories.compare.pair_times import PairRow
from explainers.story import probed
from kernels.catalog import Catalog
from kernels.core.fields import fields_of, quoted
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError

AS_TIMED = "as_timed"
WHAT_IFS = {"a": "a_what_if", "b": "b_what_if"}
TIMED = "timed"
LEAST_TIMED = 128  # tokens by default. The default constants are timed too
OWN = {
    **places.QUERY,
    **items.OWN,
    AS_TIMED: Choice("", late=True, meaning="the constants and the problem that were timed"),
    **{name: Choice("", late=True) for name in WHAT_IFS.values()},
}  # the late choices hold no value: a click on them sets constants


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return Page(
        catalog,
        probed.accepting(two_kernels, catalog.kernels),
        first=pages.two_rungs(catalog),
        sides=("a", "b"),
        own=OWN,
        defaults_of=defaults_of,
        second=second_defaults,
        correct=correct,
        adapt=adapt,
        describe=describe,
    )


def by_matrices(page: Page, state: State) -> bool:
    """Whether both kernels have matrices in their pictures. A query then names the traced tile."""
    return all(tiling.accepts(page.kernel_of(state, side)) for side in page.sides)


def requests(page: Page, state: State, backend: str) -> tuple[Request, Request]:
    """The two requests. Raises ProblemError."""
    if by_matrices(page, state):
        a, b = (places.request(page, state, backend, side) for side in page.sides)
    else:
        a, b = (page.request_of(state, side, backend, Scope(state["at_item"])) for side in page.sides)
    return a, b


def defaults_of(kernel: KernelSpec) -> dict[str, object]:
    """The default seq_len of a kernel with matrices: a timed length."""
    if not tiling.accepts(kernel):
        return {}
    return {"seq_len": max(LEAST_TIMED, kernel.problem_type().seq_len)}


def second_defaults(kernel: KernelSpec) -> dict[str, object]:
    """The defaults of the second build, if no other kernel has its problem: with or without a remedy for bank
    conflicts, unlike the default, the next preset that the kernel takes, or another value of one field."""
    kind = kernel.problem_type
    usual = Request(kernel, kind())
    for build in padding.before_and_after(usual):
        if build.constants != usual.constants:
            return {name: value for name, value in build.constants.items() if value != usual.constants[name]}
    for preset in list(kind.presets().values())[1:]:
        with suppress(ProblemError):
            Request(kernel, kind(**preset)).plan  # noqa: B018
            return dict(preset)
    for name, field in fields_of(kind).items():
        if field.metadata["allowed"]:
            return {name: next(value for value in field.metadata["allowed"] if value != field.default)}
    number = next(name for name, field in fields_of(kind).items() if isinstance(field.default, int))
    return {number: 2 * kind().values()[number]}


# ---- corrections ----


def correct(page: Page, state: State) -> list[Correction]:
    """Takes the constants of `as timed` and of what-ifs, and replaces places out of range, in place."""
    corrections = []
    for name in (AS_TIMED, *WHAT_IFS.values()):
        try:
            _take(page, state, name)
        except ProblemError as error:
            corrections.append(Correction(name, str(error)))
            state[name] = ""
    if by_matrices(page, state):
        return corrections + places.correct(page, state)
    return corrections + places.correct(page, state, lambda page, state: {"at_item": _last_item(page, state)})


def adapt(page: Page, state: State, name: str) -> None:
    """Takes a second kernel for another problem, the constants of a what-if, or the problem and the constants of `as
    timed`, in place. Raises ProblemError."""
    other = page.first_of("b", page.kernels_of("b", state), state)
    if name == "a" and state["a"] == state["b"] != other:
        page.take_kernel(state, "b", other)
    _take(page, state, name)


def _take(page: Page, state: State, name: str) -> None:
    """Takes the constants of a what-if, or the problem and the constants of `as timed`, in place. The choice then holds
    no value. Raises ProblemError."""
    value = state.get(name, "")
    if not value or name not in (AS_TIMED, *WHAT_IFS.values()):
        return
    what_ifs = {} if name == AS_TIMED else {c.name: c for c in page.kernel_of(state, name[0]).what_ifs}
    allowed = [TIMED] if name == AS_TIMED else [NONE, *what_ifs]
    if value not in allowed:
        raise ProblemError(f"{name} is {quoted(value)}. It must be one of {', '.join(allowed)}.")
    for constant in what_ifs.values():
        broken = value == constant.name
        state[constant_name(name[0], constant.name)] = broken_value(constant) if broken else constant.default
    if name == AS_TIMED:
        row, reason = _timed(page, state)
        if row is None:
            raise ProblemError(f"{reason[0].upper()}{reason[1:]}.")
        values = pair_times.problem_of(row, page.kernel_of(state).problem_type).values()
        state.update({field: values[field] for field in page.fields(state)})
        for number, side in enumerate(page.sides):
            settings = pair_times.settings_of(row, number)
            state.update({constant_name(side, constant): chosen for constant, chosen in settings.items()})
    state[name] = ""


def _timed(page: Page, state: State) -> tuple[PairRow | None, str]:
    """`timed.settable` of the chosen builds."""
    a, b = (page.request_of(state, side) for side in page.sides)
    return timed.settable(a, b, state["backend"])


def _last_item(page: Page, state: State) -> int:
    return min(page.request_of(state, side).plan.items for side in page.sides) - 1


# ---- descriptions ----


def describe(page: Page, state: State) -> Descriptions:
    """The places of these kernels, a what-if of each side, and the choice As timed."""
    if by_matrices(page, state):
        found = places.describe(page, state) | {"at_item": {"hidden": True}}
    else:
        item, high = page.request_of(state, "a").plan.item, _last_item(page, state)
        found = {name: {"hidden": True} for name in places.QUERY}
        found["at_item"] = {"high": high, "label": item, "disabled": "" if high else f"there is only one {item}"}
    for side in page.sides:
        kernel = page.kernel_of(state, side)
        for constant in kernel.constants:
            label = f"{side.upper()} {constant.name}"
            found[constant_name(side, constant.name)] = {"label": label, "hidden": constant.what_if != ""}
        if kernel.what_ifs:
            broken = [c.name for c in kernel.what_ifs if state[constant_name(side, c.name)] != c.default]
            options = {NONE: "as written", **{constant.name: constant.what_if for constant in kernel.what_ifs}}
            what_if = {"group": "what_if", "label": side.upper(), "kind": "select", "hidden": False}
            found[WHAT_IFS[side]] = what_if | {"options": options, "value": next(iter(broken), NONE)}
    alone = page.alone(state)
    if alone:
        for name in page.fields(state):
            found[name] = {"label": f"A {name}"}
            found[constant_name("b", name)] = {"label": f"B {name}", "group": "problem"}
        found["preset"] = {"label": "Problem of A"}
    (row, reason), kind = _timed(page, state), page.kernel_of(state).problem_type
    shown = row is not None and row.asked and pair_times.problem_of(row, kind) == page.problem_of(state)
    as_timed = {"hidden": alone, "group": "preset", "label": "Both", "kind": "select", "disabled": reason}
    found[AS_TIMED] = as_timed | {"options": {TIMED: "As timed"}, "value": TIMED if shown else ""}
    return found

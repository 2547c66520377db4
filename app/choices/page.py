"""The choices of one page, derived from kernels. Nothing here draws."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from app.choices.choice import Choice, broken_value, of_constant, of_field
from kernels.catalog import Catalog
from kernels.core.fields import fields_of, write_value
from kernels.core.launch import Constant, ConstantRole
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.run import backends

NONE = "none"  # the what-if build without a break
MOST_PAIRS = 1 << 28  # pairs of a query and a key in the masks of one answer
BACKEND = Choice("auto", ("auto", *backends.NAMES))
State = dict[str, Any]  # name of a choice -> its value
Description = dict[str, Any]  # a choice as the toolbar draws it: label, options, low, high, disabled, group, hidden ...
Descriptions = dict[str, Description]


class Correction(NamedTuple):
    """A choice with a new value, because the old one does not go with the others.

    name: of the choice.
    sentence: its old value, and the allowed values."""

    name: str
    sentence: str


def put(state: State, name: str, value: object, rule: str) -> Correction:
    """Corrects a choice, in place. rule: a sentence with the allowed values."""
    said = f"{name} is {write_value(state[name])}. {rule}"
    state[name] = value
    return Correction(name, said)


@dataclass(frozen=True, eq=False)
class Page:
    """The choices of one page. A page holds no values: each link makes a new `state`, name -> value.

    catalog: the kernels of this moment.
    kernels: the kernels that can be chosen.
    first: the default kernel of each side.
    sides: "" for one kernel. "a" and "b" for two kernels on one problem, with the constants a_NAME and b_NAME. If only
        one kernel solves the problem, b has its own problem with the fields b_NAME.
    own: the choices that belong to the page.
    defaults: the default of a field, if it is not the problem's default.
    sizes: role of a constant -> its default, such as the rows of a tile. A constant takes the next larger value it has.
    defaults_of: the defaults that depend on the kernel.
    second: the defaults of b, if b has its own problem.
    without: the fields of the problem that the page sets.
    one_what_if: the what-if builds are one choice, `what_if`, and not one constant each.
    every_constant: constants of all kernels that solve the problem can be chosen.
    recorded: with recorded runs, the page offers a choice of recordings instead of the problem.
    runs: the page runs the kernel, so the place to run is a choice.
    refusal: a sentence with the reason why the page cannot show a kernel, or "".
    elsewhere: the choices with which the page shows a kernel that is not among `kernels`, such as a view of its own.
    instead: the kernel that the page shows in place of one that it cannot show, or "" for its default.
    correct: changes choices that do not go together, in place. Returns the corrections.
    adapt: after a new value of `name`, changes the choices that depend on it, in place. Raises ProblemError.
    describe: the parts of a description that differ from the Choice. Raises ProblemError."""

    catalog: Catalog
    kernels: Mapping[str, KernelSpec] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    sides: tuple[str, ...] = ("",)
    own: Mapping[str, Choice] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    sizes: Mapping[ConstantRole, int] = field(default_factory=dict)
    defaults_of: Callable[[KernelSpec], Mapping[str, object]] = lambda kernel: {}
    second: Callable[[KernelSpec], Mapping[str, object]] = lambda kernel: {}
    without: tuple[str, ...] = ()
    one_what_if: bool = False
    every_constant: bool = False
    recorded: bool = True
    runs: bool = True
    refusal: Callable[[KernelSpec], str] = lambda kernel: ""
    elsewhere: Callable[[KernelSpec], Mapping[str, object]] = lambda kernel: {}
    instead: Callable[[KernelSpec], str] = lambda kernel: ""
    correct: "Callable[[Page, State], list[Correction]]" = lambda page, state: []
    adapt: "Callable[[Page, State, str], None]" = lambda page, state, name: None
    describe: "Callable[[Page, State], Descriptions]" = lambda page, state: {}

    # ---- the choices ----

    def kernels_of(self, side: str, state: State) -> dict[str, KernelSpec]:
        """The kernels of a side. The second side has the kernels with the first side's problem."""
        if side == self.sides[0]:
            return dict(self.kernels)
        return self.solving(self.kernels[state[kernel_name(self.sides[0])]])

    def solving(self, kernel: KernelSpec) -> dict[str, KernelSpec]:
        return {name: spec for name, spec in self.kernels.items() if spec.same_problems(kernel)}

    def alone(self, state: State) -> bool:
        """Whether the page has two sides and only the first kernel solves its problem. Each side has a problem then."""
        return len(self.sides) > 1 and len(self.kernels_of(self.sides[1], state)) == 1

    def fields(self, state: State, side: str | None = None) -> dict[str, Choice]:
        """name on this page -> Choice of each field of a side's problem, by default of the first side's."""
        kernel, own = self.kernel_of(state, side), self._own_fields(state, side)
        second = self.second(kernel) if own else {}
        defaults = {**self.defaults, **self.defaults_of(self.kernel_of(state)), **second}
        return {
            constant_name(own, name): of_field(f).with_default(defaults.get(name))
            for name, f in fields_of(self.kernel_of(state).problem_type).items()
            if name not in self.without
        }

    def constants(self, state: State, side: str = "") -> dict[str, Choice]:
        """name on this page -> Choice of each constant of a side. A page with one choice of what-ifs has none of their
        constants."""
        kernel = self.kernel_of(state, side)
        kernels = [kernel, *(self.solving(kernel).values() if self.every_constant else ())]
        defaults = self.second(kernel) if self._own_fields(state, side) else {}
        found: dict[str, Choice] = {}
        for spec in kernels:
            for constant in spec.constants:
                name = constant_name(side, constant.name)
                if name in found or constant.what_if and self.one_what_if:
                    continue
                found[name] = self.choice_of(constant).with_default(defaults.get(constant.name))
        return found

    def choices(self, state: State) -> dict[str, Choice]:
        """name -> Choice of everything that can be chosen with the kernels of this state."""
        if not self.kernels:
            return dict(self.own)
        found: dict[str, Choice] = {}
        for side in self.sides:
            options = self.kernels_of(side, state)
            found[kernel_name(side)] = Choice(self.first_of(side, options, state), tuple(options))
        if self.runs:
            found["backend"] = BACKEND
        found |= self.own
        for side in self.sides:
            found |= self.fields(state, side)
        if self.one_what_if:
            what_ifs = (constant.name for constant in self.kernel_of(state).what_ifs)
            found["what_if"] = Choice(NONE, (NONE, *what_ifs))
        for side in self.sides:
            found |= self.constants(state, side)
        return found

    def default_state(self) -> State:
        """The default of every choice, without corrections."""
        state: State = {}
        for side in self.sides if self.kernels else ():
            state[kernel_name(side)] = self.first_of(side, self.kernels_of(side, state), state)
        return {name: choice.default for name, choice in self.choices(state).items()} | state

    def first_of(self, side: str, options: Mapping[str, KernelSpec], state: State) -> str:
        """The default kernel of a side. The second side takes another kernel than the first side, if it can: the page's
        default, the rung before the first kernel, or the next one."""
        taken = state.get(kernel_name(self.sides[0]), "") if side != self.sides[0] else ""
        default = dict(zip(self.sides, self.first)).get(side, "")
        rung_before = options[taken].changed_from if taken in options else ""
        candidates = [name for name in (default, rung_before, *options) if name in options]
        return next((name for name in candidates if name != taken), candidates[0])

    def best_first(self, names: Iterable[str], side: str, options: Mapping[str, KernelSpec], state: State) -> str:
        """The default kernel for a link without a kernel: a kernel with the most of the fields and constants that the
        link names."""
        first = self.first_of(side, options, state)
        if self.every_constant:
            return first
        named = set(names)

        def matches(kernel: str) -> int:
            kind, constants = options[kernel].problem_type, options[kernel].constants
            known = {*fields_of(kind), *(constant_name(side, c.name) for c in constants)}
            return len(known & named)

        return max((first, *options), key=matches)

    # ---- the meaning of a state ----

    def kernel_of(self, state: State, side: str | None = None) -> KernelSpec:
        """The kernel of a side, by default of the first side."""
        return self.kernels[state[kernel_name(self.sides[0] if side is None else side)]]

    def shown_kernel(self, state: State) -> KernelSpec:
        """The kernel that the page shows: the one of the choices, by default that of the first side."""
        for kernel in self.catalog.kernels.values():
            choices = self.elsewhere(kernel)
            if choices and all(state[name] == value for name, value in choices.items()):
                return kernel
        return self.kernel_of(state)

    def problem_of(self, state: State, side: str | None = None, **changes: object) -> Problem:
        """The problem of a side, by default of the first side. Raises ProblemError if the fields do not go together,
        or if the masks are too long for an answer."""
        own, kind = self._own_fields(state, side), self.kernel_of(state).problem_type
        values = {name: state[constant_name(own, name)] for name in fields_of(kind) if name not in self.without}
        problem = kind(**values | changes)
        if problem.listed_pairs > MOST_PAIRS:
            raise ProblemError(
                f"The masks have {problem.listed_pairs:,} pairs of a query and a key at {problem.size}; a page goes "
                f"through {MOST_PAIRS:,} at most. Choose a smaller seq_len."
            )
        return problem

    def settings_of(self, state: State, side: str | None = None, kernel: KernelSpec | None = None) -> dict[str, int]:
        """name -> value of every constant of a side's kernel, or of another kernel."""
        side = self.sides[0] if side is None else side
        kernel = kernel or self.kernel_of(state, side)
        settings: dict[str, int] = {}
        for constant in kernel.constants:
            if constant.what_if and self.one_what_if:
                broken = state["what_if"] == constant.name
                settings[constant.name] = broken_value(constant) if broken else constant.default
            else:
                chosen = state.get(constant_name(side, constant.name))
                settings[constant.name] = self.choice_of(constant).with_default(chosen).default
        return settings

    def request_of(
        self, state: State, side: str | None = None, backend: str = "cpu", scope: Scope | None = None, **changes: object
    ) -> Request:
        """The Request of a side, with changed fields. ProblemError if the fields do not go together."""
        settings = tuple(self.settings_of(state, side).items())
        problem = self.problem_of(state, side, **changes)
        return Request(self.kernel_of(state, side), problem, settings, scope or Scope(), backend)

    def others_on(self, request: Request) -> list[Request]:
        """The request for every kernel of this page with its problem. Each kernel takes the constants that it has and
        allows."""
        chosen, found = dict(request.settings), []
        for spec in self.solving(request.kernel).values():
            choices = {c.name: self.choice_of(c).with_default(chosen.get(c.name)) for c in spec.constants}
            settings = tuple((name, choice.default) for name, choice in choices.items())
            found.append(request if spec == request.kernel else replace(request, kernel=spec, settings=settings))
        return found

    def take_kernel(self, state: State, side: str, kernel: str) -> None:
        """Puts another kernel into a state, in place. Chosen values stay if the kernel has and allows them. All others
        take the new kernel's defaults."""
        before = self.choices(state)
        same_problem = self.kernel_of(state, side).same_problems(self.kernels[kernel])
        chosen = {name: state[name] for name in before if state[name] != before[name].default}
        state[kernel_name(side)] = kernel
        for other in self.sides:
            options = self.kernels_of(other, state)
            if state[kernel_name(other)] not in options:
                state[kernel_name(other)] = self.first_of(other, options, state)
        unchanged = {"backend", *self.own, *map(kernel_name, self.sides)}
        after = self.choices(state)
        for name, choice in after.items():
            stays = same_problem and name in chosen and choice.takes(chosen[name])
            if name not in unchanged:
                state[name] = chosen[name] if stays else choice.default
        for name in set(state) - set(after):
            del state[name]

    def choice_of(self, constant: Constant) -> Choice:
        size = self.sizes.get(constant.role) if constant.role else None
        larger = [value for value in constant.values if size is not None and value >= size]
        return of_constant(constant).with_default(min(larger, default=None))

    def _own_fields(self, state: State, side: str | None) -> str:
        """The name of the second side, if it has its own problem."""
        return side if side and side != self.sides[0] and self.alone(state) else ""


def kernel_name(side: str) -> str:
    return side or "kernel"


def constant_name(side: str, name: str) -> str:
    return f"{side}_{name}" if side else name

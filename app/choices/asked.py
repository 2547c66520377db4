"""What one page asks: its choices, derived from kernels, and what a link says of them. Nothing here draws."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.choices.choice import Choice, of_constant, of_field
from kernels.catalog import KERNELS, present_name
from kernels.core.fields import fields_of, former_names, nearest, quoted, shortened, show_value
from kernels.core.launch import Constant, ConstantRole
from kernels.core.request import Request, Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.run import backends

NONE = "none"  # the what-if build that is none
MOST_PAIRS = 1 << 28  # of masks, that are gone through for an answer
BACKEND = Choice("auto", ("auto", *backends.NAMES))
State = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Asked:
    """What one page asks. It holds no values: those are a `state`, name -> value, made anew from each link.

    kernels: those that can be chosen. sides: "" for one kernel; "a" and "b" for two, whose constants are called a_NAME
    and b_NAME and whose problem is the same; a problem that one kernel alone solves is each side's own, b's fields
    being called b_NAME. second: where b's fields and constants then begin, so that there is something to compare.
    first: the kernel of each side to begin with. own: choices of the page's own. begin: where a field or a constant
    begins, if not at its default; begin_of: where a kernel's fields do. without: problem fields that the page sets
    itself. one_what_if: the what-if builds
    are one choice, `what_if`, and not a constant each. every_constant: those of all kernels that solve the problem can
    be chosen, not only the chosen kernel's. recorded: where runs are recorded ones, what is recorded is a choice in
    place of the problem; a story that says no finds its own. runs: what is chosen is run, so that where is a choice;
    else the story has that choice among its own, or none. former: a name that links once had -> the name now.
    refusal: a sentence that says why the page cannot show a kernel of the catalogue, or "".
    settle: puts choices that do not go together right, in place, and returns (name, sentence) of each that it moved.
    """

    kernels: Mapping[str, KernelSpec] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    sides: tuple[str, ...] = ("",)
    own: Mapping[str, Choice] = field(default_factory=dict)
    begin: Mapping[str, Any] = field(default_factory=dict)
    begin_of: Callable[[KernelSpec], Mapping[str, Any]] | None = None
    begin_of_role: Mapping[ConstantRole, int] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    one_what_if: bool = False
    every_constant: bool = False
    recorded: bool = True
    runs: bool = True
    former: Mapping[str, str] = field(default_factory=dict)
    second: Callable[[KernelSpec], Mapping[str, Any]] = lambda spec: {}
    refusal: Callable[[KernelSpec], str] = lambda spec: ""
    settle: "Callable[[Asked, State], list[tuple[str, str]]]" = lambda asked, state: []

    # ---- what can be chosen ----

    def kernels_of(self, side: str, state: State) -> dict[str, KernelSpec]:
        """The kernels of a side: on the second side those that solve the first one's problem."""
        if side == self.sides[0]:
            return dict(self.kernels)
        return self.rivals(self.kernels[state[kernel_name(self.sides[0])]])

    def rivals(self, kernel: KernelSpec) -> dict[str, KernelSpec]:
        """The kernels of this page that solve the kernel's problems, the kernel among them."""
        return {name: spec for name, spec in self.kernels.items() if spec.same_problems(kernel)}

    def alone(self, state: State) -> bool:
        """Whether the first kernel is the only one here that solves its problem, so that each side has its own."""
        return len(self.sides) > 1 and len(self.kernels_of(self.sides[1], state)) == 1

    def fields(self, state: State, side: str | None = None) -> dict[str, Choice]:
        """name on this page -> Choice of the problem's fields: of a side, of the first where none is said."""
        own = self._own_fields(state, side)
        first = self.begin_of(self.spec_of(state)) if self.begin_of else {}
        begin = {**self.begin, **first, **(self.second(self.spec_of(state, side)) if own else {})}
        return {
            constant_name(own, name): of_field(f).beginning_at(begin.get(name))
            for name, f in fields_of(self.spec_of(state).problem_type).items()
            if name not in self.without
        }

    def constants(self, state: State, side: str = "") -> dict[str, Choice]:
        """name on this page -> Choice of a side's constants, without the what-ifs where those are one choice."""
        kernel = self.spec_of(state, side)
        own: dict[str, Constant] = {}
        others = self.rivals(kernel).values() if self.every_constant else ()
        for c in (c for spec in (kernel, *others) for c in spec.constants):
            own.setdefault(c.name, c)
        begin = self.second(kernel) if self._own_fields(state, side) else {}
        plain = [c for c in own.values() if not (c.what_if and self.one_what_if)]
        return {constant_name(side, c.name): self._choice_of(c).beginning_at(begin.get(c.name)) for c in plain}

    def _own_fields(self, state: State, side: str | None) -> str:
        """The side, if it is not the first and has a problem of its own; else nothing."""
        return side if side and side != self.sides[0] and self.alone(state) else ""

    def known(self, state: State) -> dict[str, Choice]:
        """name -> Choice of everything that can be chosen with the kernels of this state."""
        if not self.kernels:
            return dict(self.own)
        found: dict[str, Choice] = {}
        for side in self.sides:
            options = self.kernels_of(side, state)
            found[kernel_name(side)] = Choice(self.first_of(side, options, state), tuple(options))
        found |= {**({"backend": BACKEND} if self.runs else {}), **self.own}
        for side in self.sides:
            found |= self.fields(state, side)
        if self.one_what_if:
            found["what_if"] = Choice(NONE, (NONE, *(c.name for c in self.spec_of(state).what_ifs)))
        for side in self.sides:
            found |= self.constants(state, side)
        return found

    def beginning(self) -> State:
        """The choices before anything is chosen; nothing is settled yet."""
        state: State = {}
        for side in self.sides if self.kernels else ():
            state[kernel_name(side)] = self.first_of(side, self.kernels_of(side, state), state)
        return {name: choice.begin for name, choice in self.known(state).items()} | state

    def read_link(self, params: Mapping[str, str]) -> tuple[State, list[str]]:
        """(state, ignored): the choices that a link's parameters describe, and a sentence for each that is not
        taken."""
        state: State = {}
        ignored: list[str] = []
        for side in self.sides if self.kernels else ():
            name, options = kernel_name(side), self.kernels_of(side, state)
            asked = params.get(name)
            state[name] = self._first_that_has(params, side, options, state) if asked is None else present_name(asked)
            if state[name] not in options:
                other = KERNELS.get(state[name])
                refusal = self.refusal(other) if other else ""
                said = f" {refusal}" if refusal else nearest(state[name], options)
                ignored.append(f"{name} is {quoted(state[name])}; it must be one of {', '.join(options)}.{said}")
                state[name] = self.first_of(side, options, state)
        kernels, known = dict(state), self.known(state)
        state = {name: choice.begin for name, choice in known.items()} | kernels
        former = {**(former_names(self.spec_of(state).problem_type) if self.kernels else {}), **self.former}
        given = {
            name if name in known else former.get(name, name): text
            for name, text in params.items()
            if name not in kernels
        }
        taken = [name for name in kernels if name in params]
        for name, text in given.items():
            try:
                if name in known:
                    state[name] = known[name].read(name, text)
                    taken.append(name)
                elif not self._asks_for_nothing(name, text):
                    raise ProblemError(f"{shortened(name)} is not a choice of this page.{nearest(name, known)}")
            except ProblemError as error:
                ignored.append(str(error))
        ignored += dict.fromkeys(sentence for name, sentence in self.settle(self, state) if name in taken)
        return state, ignored

    def first_of(self, side: str, options: Mapping[str, KernelSpec], state: State) -> str:
        """The kernel that a side begins with, among these: of two the second is not the first, where another solves its
        problem, but the rung before it or the next one listed."""
        other = state.get(kernel_name(self.sides[0]), "") if side != self.sides[0] else ""
        wanted = dict(zip(self.sides, self.first)).get(side, "")
        before = options[other].changed_from if other in options else ""
        listed = [name for name in (wanted, before, *options) if name in options]
        return next((name for name in listed if name != other), listed[0])

    def _first_that_has(self, names: Iterable[str], side: str, options: Mapping[str, KernelSpec], state: State) -> str:
        """The kernel that a link begins with if it names none: the one to begin with, or one that has more of the
        fields and constants that the link names."""

        def has(name: str) -> int:
            fields, constants = fields_of(options[name].problem_type), (c.name for c in options[name].constants)
            known = {*fields, *former_names(options[name].problem_type), *(constant_name(side, c) for c in constants)}
            return len(known & {self.former.get(n, n) for n in names})

        first = self.first_of(side, options, state)
        return first if self.every_constant else max((first, *options), key=has)

    def _asks_for_nothing(self, name: str, text: str) -> bool:
        """Whether another kernel of this page has such a constant and the link leaves it where it begins, as links of
        old did."""
        others = [
            c
            for spec in self.kernels.values()
            for c in spec.constants
            if name in (constant_name(side, c.name) for side in self.sides)
        ]
        return any(text == show_value(self._choice_of(c).begin) for c in others)

    # ---- what a state stands for ----

    def spec_of(self, state: State, side: str | None = None) -> KernelSpec:
        """The KernelSpec of a side, the first where none is said."""
        return self.kernels[state[kernel_name(self.sides[0] if side is None else side)]]

    def problem_of(self, state: State, side: str | None = None, **changes: Any) -> Any:
        """The problem of a side, of the first where none is said. ProblemError where the fields do not go together, or
        its lists would take longer to make than an answer may."""
        own, kind = self._own_fields(state, side), self.spec_of(state).problem_type
        given = {name: state[constant_name(own, name)] for name in fields_of(kind) if name not in self.without}
        made = kind(**given | changes)
        if made.listed_pairs > MOST_PAIRS:
            raise ProblemError(
                f"The masks have {made.listed_pairs:,} pairs of a query and a key at {made.size}; a page goes through "
                f"{MOST_PAIRS:,} at most. Choose a smaller seq_len."
            )
        return made

    def settings_of(self, state: State, side: str | None = None, kernel: KernelSpec | None = None) -> dict[str, int]:
        """Every constant of a side's kernel, or of another kernel, name -> value."""
        side, chosen = self.sides[0] if side is None else side, {}
        for c in (kernel or self.spec_of(state, side)).constants:
            if c.what_if and self.one_what_if:
                broken = next(v for v in c.values if v != c.default)
                chosen[c.name] = broken if state["what_if"] == c.name else c.default
            else:
                chosen[c.name] = self._choice_of(c).beginning_at(state.get(constant_name(side, c.name))).begin
        return chosen

    def request_of(
        self, state: State, side: str | None = None, backend: str = "cpu", scope: Scope | None = None, **changes: Any
    ) -> Request:
        """The Request of a side. ProblemError where the fields, with these changes, do not go together."""
        settings = tuple(self.settings_of(state, side).items())
        return Request(
            self.spec_of(state, side), self.problem_of(state, side, **changes), settings, scope or Scope(), backend
        )

    def others_on(self, request: Request) -> list[Request]:
        """The same for every kernel of this page that solves the request's problem, with its constants as far as the
        kernel has and allows them."""
        given, found = dict(request.settings), []
        for spec in self.rivals(request.kernel).values():
            settings = tuple((c.name, self._choice_of(c).beginning_at(given.get(c.name)).begin) for c in spec.constants)
            found.append(request if spec == request.kernel else replace(request, kernel=spec, settings=settings))
        return found

    def take_kernel(self, state: State, side: str, kernel: str) -> None:
        """Another kernel in a state, in place: what was chosen stays where the kernel has and allows that; what stood
        at its beginning begins anew."""
        before, same = self.known(state), self.spec_of(state, side).same_problems(self.kernels[kernel])
        chosen = {name: state[name] for name in before if state[name] != before[name].begin}
        state[kernel_name(side)] = kernel
        for other in self.sides:
            options = self.kernels_of(other, state)
            if state[kernel_name(other)] not in options:
                state[kernel_name(other)] = self.first_of(other, options, state)
        always = {"backend", *self.own, *map(kernel_name, self.sides)}
        now = self.known(state)
        for name, choice in now.items():
            stays = same and name in chosen and choice.takes(chosen[name])
            if name not in always:
                state[name] = chosen[name] if stays else choice.begin
        for name in set(state) - set(now):
            del state[name]

    def _choice_of(self, constant: Constant) -> Choice:
        """It begins at the page's beginning, or at the next larger value that it has."""
        begin = self.begin_of_role.get(constant.role) if constant.role else self.begin.get(constant.name)
        near = None if begin is None else min((v for v in constant.values if v >= begin), default=None)
        return of_constant(constant).beginning_at(near)


def kernel_name(side: str) -> str:
    """What the choice of a side's kernel is called."""
    return side or "kernel"


def constant_name(side: str, name: str) -> str:
    """What the choice of a side's constant is called."""
    return f"{side}_{name}" if side else name

"""The launches in the host's functions of a .cu, with the kernels behind them.

A macro with a launch is expanded first. A function pointer, a template's parameter and an argument of a function become
the kernel behind them. Launches in two arms of a branch, or in functions that do not call each other, exclude each
other (versions.py).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from kernels.build.plain.device import is_of_cuda, without_host_functions
from kernels.build.plain.macros import active, arguments, expanded, macros_of, with_launches
from kernels.build.plain.tokens import Function, closing, functions, items, line_of, tokens
from kernels.core.sources import function_of
from kernels.opening.sites import HostLaunch, between, folded, kernel_of, parameter_names, sites
from kernels.opening.values import value as value_of

_CONSTANT = re.compile(
    r"\b(?:const|constexpr)\s++(?:static\s++)?+(?:unsigned\s++int|int|unsigned|size_t|auto|uint32_t|uint)\s++(\w++)\s*+="
    r"([-\w ()+*/<]{1,60})[;,]"
)
_NEXT = re.compile(r"\s*+(\w++)\s*+=([-\w ()+*/<]{1,60})[;,]")
MOST_LAUNCHES = 1024  # of a file, with all arms
MOST_CALLS = 8  # from main() down to a launch
MOST_STEPS = 6  # from a constant to the constants of its declaration
FLOAT = "float"  # the type of a template's parameter that the text leaves open
OPEN = "?"  # an argument of a template that only a run of the host gives
SCALAR = "scalar_t"  # of AT_DISPATCH_FLOATING_TYPES
_BINDINGS = re.compile(r"[A-Z0-9_]*(?:MODULE|LIBRARY)[A-Z0-9_]*")  # of Python: they name functions, and call none


@lru_cache(maxsize=64)
def host_text(text: str, outside: frozenset[str] = frozenset()) -> str:
    """The text with the expansion of each macro that has a launch or a kernel, and without inactive parts.

    No line moves. outside: names of macros of other files. Raises ProblemError."""
    known = macros_of(text)
    return expanded(active(text, outside), known, with_launches(known))


def host_launches(text: str) -> list[HostLaunch]:
    """The launches of the text, each with its arms, in the order of a run. Raises ProblemError."""
    return list(_launches(text))


@lru_cache(maxsize=64)
def _launches(text: str) -> tuple[HostLaunch, ...]:
    return tuple(_Host(host_text(text)).launches())


def constants_of(text: str) -> dict[str, int]:
    """The named whole numbers of a text: macros, and constants outside functions of the host."""
    code, said = without_host_functions(text), dict[str, str]()
    for one in _CONSTANT.finditer(code):
        more: re.Match[str] | None = one
        while more:  # constexpr int A = 1, B = 2 * A;
            said[more[1]] = more[2]
            more = _NEXT.match(code, more.end()) if more[0].endswith(",") else None
    said |= {name: one.body for name, one in macros_of(text).items() if one.parameters is None and len(one.body) <= 60}
    named, before = dict[str, int](), -1
    while len(named) > before:  # a constant may stand on others
        before = len(named)
        for name in said.keys() - named.keys():
            value = folded(re.sub(r"\b[A-Za-z_]\w*", lambda word: str(named.get(word[0], word[0])), said[name]))
            if re.fullmatch(r"-?\d+", value):
                named[name] = int(value)
    return {name: named[name] for name in said if name in named}


def variable(text: str, name: str, before: int) -> str:
    """The C expression of a variable's declaration before a line, such as that of `dim3 grid(...)`, or ""."""
    found, last = tokens(text), ""
    for at in range(1, len(found) - 1):
        if found[at].text != name or line_of(text, found[at].start) > before:
            continue
        follows = found[at - 1].text == "," and found[at + 1].text == "="  # int a = 1, b = 2;
        if not (follows or re.match(r"[A-Za-z_]\w*$|>$", found[at - 1].text)) or found[at - 1].text == "return":
            continue
        if found[at + 1].text in ("(", "{"):
            last = f"dim3({between(text, found, at + 1, closing(found, at + 1))})"
        elif found[at + 1].text == "=":
            end = at + 1  # then the next , or ; outside brackets
            while end < len(found) - 1 and found[end].text not in (";", ","):
                end = closing(found, end) + 1 if found[end].text in ("(", "[", "{") else end + 1
            last = between(text, found, at + 1, end)
    return last


@dataclass(frozen=True)
class _Place:
    """The arms and values around a statement."""

    arms: tuple[tuple[str, str], ...] = ()
    values: tuple[tuple[str, str], ...] = ()

    def within(self, branch: str, arm: str, *values: tuple[str, str]) -> "_Place":
        return _Place((*self.arms, (branch, arm)), (*self.values, *values))


@dataclass
class _Body:
    """A function of the host: its launches and calls in order, and the kernels that its variables hold."""

    name: str
    events: list[tuple[int, _Place]] = field(default_factory=list)  # of a launch's sign, or of the called name
    kernels: dict[str, list[tuple[str, _Place]]] = field(default_factory=dict)


class _Host:
    """The functions of the host in a text."""

    def __init__(self, text: str) -> None:
        self.text, self.found = text, tokens(text)
        listed = functions(text, self.found)
        self.kernels = {one.name for one in listed if one.is_kernel}
        self.names = {name for item in items(text, self.found) for name in item.names if not item.function}
        self.names |= {one.name for one in listed if one.on_device} | {*macros_of(text)}
        self.constants = constants_of(text)
        self.types = {FLOAT, "half", "__half", "__nv_bfloat16", "double", "int"}
        self.functions = {one.name: one for one in listed if not one.on_device and not _BINDINGS.fullmatch(one.name)}
        self.sites = dict(sites(text, self.found))
        self.openers = dict[int, int]()  # the number of a closing bracket -> that of its opening one
        opened = list[int]()
        for number, token in enumerate(self.found):
            if token.text in ("(", "[", "{"):
                opened.append(number)
            elif token.text in (")", "]", "}") and opened:
                self.openers[number] = opened.pop()
        self.bodies = {name: self._body(one) for name, one in self.functions.items()}
        launching = set[str]()  # the functions with a launch, or with a call of one of them
        while more := {name for name in self.bodies if name not in launching and self._launches(name, launching)}:
            launching |= more
        for body in self.bodies.values():
            body.events = [one for one in body.events if one[0] in self.sites or self._word(one[0]) in launching]

    def _launches(self, name: str, launching: set[str]) -> bool:
        return any(at in self.sites or self._word(at) in launching for at, _ in self.bodies[name].events)

    def launches(self) -> Iterator[HostLaunch]:
        called = {
            self._word(at) for name, body in self.bodies.items() for at, _ in body.events if self._word(at) != name
        }
        roots = [name for name in self.functions if name not in called]
        made = 0
        for name in ["main"] * ("main" in roots) + [name for name in roots if name != "main"]:
            for launch in self._run(name, _Place((("function", name),)), {}, 0):
                yield launch
                made += 1
                if made == MOST_LAUNCHES:
                    return

    def _word(self, at: int) -> str:
        return self.found[at].text if at < len(self.found) else ""

    def _run(self, name: str, place: _Place, given: Mapping[str, str], depth: int) -> Iterator[HostLaunch]:
        """The launches of a function and of the functions that it calls. given: a parameter -> its value."""
        function = self.functions[name]
        types = {
            one: given.get(one) or self._type(name, number) for number, one in enumerate(self._typenames(function))
        }
        body = self.bodies[name]
        for at, inner in body.events:
            here = _Place((*place.arms, *inner.arms), (*place.values, *inner.values))
            if at in self.sites:
                site = self.sites[at]
                grid, block = (self._sizes(said, at, function.body) for said in (site.grid, site.block))
                shared = self._declared(site.shared, at, function.body)[0] or site.shared
                for one, kind in types.items():
                    shared = re.sub(rf"\bsizeof\s*\(\s*{one}\s*\)", f"sizeof({kind})", shared)
                site = replace(site, function=name, grid=grid, block=block, shared=shared)
                yield from self._resolved(site, body, {**given, **types}, here)
            elif depth < MOST_CALLS and self._word(at) != name:
                yield from self._run(self._word(at), here, self._given(at), depth + 1)

    def _resolved(
        self, launch: HostLaunch, body: _Body, known: Mapping[str, str], place: _Place
    ) -> Iterator[HostLaunch]:
        """The launch with the kernel behind its entry: once, or once for each kernel that a variable may hold."""
        name, numbers = function_of(launch.entry), {one: said for one, said in known.items() if said.isdigit()}
        array = name.partition("[")[0]
        choices = [(launch.entry, _Place())]
        if name not in self.kernels:
            choices = body.kernels.get(array, []) or [(kernel_of(known.get(array, "")) or launch.entry, _Place())]
        for number, (entry, inner) in enumerate(choices):
            arms = (*place.arms, *inner.arms)
            if len(choices) > 1:
                arms = (*arms, (f"kernel of {array}", str(number)))
            args = tuple(self._words(one, known) if one in known else one for one in launch.args)
            used = set[str]()
            instance = kernel_of(self._instance(entry, known, launch.line, used))
            values = (*place.values, *inner.values, *(numbers.items() if used else ()))
            values += tuple((one, said) for one, said in known.items() if said in self.types)
            yield replace(launch, entry=instance, args=args, arms=arms, values=values, derived=bool(used))

    def _sizes(self, text: str, at: int, first: int) -> str:
        """The dim3 behind a variable, else the text."""
        said, before = self._declared(text, at, first)
        if said.startswith(("(", "{")) and before in ("dim3", ",") or said.startswith("dim3"):
            return "dim3" + said.removeprefix("dim3").strip()
        return text

    def _declared(self, text: str, at: int, first: int) -> tuple[str, str]:
        """The expression of a variable, and the word before its name: of the last declaration or assignment above a
        launch whose block holds the launch."""
        number = at
        while number > first and re.fullmatch(r"[A-Za-z_]\w*", text):
            number -= 1
            if self._word(number) in (")", "]", "}"):
                number = self.openers.get(number, number)
            elif self._word(number) == text and self._word(number + 1) in ("(", "{", "="):
                end = number + 1
                while self._word(end) not in (";", ",", ""):
                    end = closing(self.found, end) + 1 if self._word(end) in ("(", "[", "{") else end + 1
                said = self.text[self.found[number].end : self.found[end].start].lstrip("= ").strip()
                return said, self._word(number - 1)
        return "", ""

    def _instance(self, entry: str, known: Mapping[str, str], line: int, used: set[str]) -> str:
        """The entry with the values of the host's names in its brackets. A macro stays.

        used: takes the names of `known` from whose numbers another one follows."""
        name, sign, rest = entry.partition("<")
        if not sign:
            return entry

        def value(word: re.Match[str]) -> str:
            if word[0] in known:
                return known[word[0]] or word[0]
            if word[0] == SCALAR:
                return FLOAT
            declared = variable(self.text, word[0], line)
            number = self._number(declared, known, line, used, MOST_STEPS)
            return declared if re.fullmatch(r"\d+", declared) else word[0] if number is None else str(number)

        said = re.sub(r"[A-Za-z_]\w*", value, rest)
        return (
            f"{name}<{', '.join(one if self._is_known(one) else OPEN for one in arguments(said.rpartition('>')[0]))}>"
        )

    def _number(self, text: str, known: Mapping[str, str], line: int, used: set[str], steps: int) -> int | None:
        """The number of an expression of the host's constants, such as (D < 128) ? 8 : 2."""

        def meaning(name: str) -> int | None:
            if known.get(name, "").isdigit():
                used.add(name)
                return int(known[name])
            if name in self.constants:
                return self.constants[name]
            declared = variable(self.text, name, line) if steps else ""
            return self._number(declared, known, line, used, steps - 1) if name not in declared else None

        return value_of(text, meaning)

    def _is_known(self, argument: str) -> bool:
        """Whether the names of a template's argument have a meaning outside of the host's functions."""
        words = re.findall(r"[A-Za-z_]\w*", re.sub(r"\b\d\w*", "", argument))
        return all(word in self.names or is_of_cuda(word) for word in words)

    def _words(self, text: str, known: Mapping[str, str]) -> str:
        return known[text] if re.fullmatch(r"[\d.]+", known[text]) else text

    def _typenames(self, function: Function) -> list[str]:
        head = self.text[self.found[function.first].start : self.found[function.body].start]
        found = re.match(r"\s*template\s*<([^<>]*)>", head)
        return [re.findall(r"\w+", one.partition("=")[0])[-1] for one in arguments(found[1])] if found else []

    def _type(self, name: str, number: int) -> str:
        """The argument of a template of the host: of an instance or a call in the text, float first, else float."""
        calls = re.findall(rf"\b{re.escape(name)}\s*<([^<>;(){{}}]*)>\s*\(", self.text)
        given = [listed[number].strip() for one in calls if len(listed := arguments(one)) > number]
        given = [one for one in given if one not in self._typenames(self.functions[name])]  # in a macro of calls
        return FLOAT if FLOAT in given or not given else given[0]

    def _given(self, at: int) -> dict[str, str]:
        """A parameter of the called function -> its argument, if that is a number or a kernel."""
        function = self.functions[self._word(at)]
        names = parameter_names(self.text, self.found, function)
        follows = at + 1
        if self._word(follows) == "<":
            follows = next((n for n in range(at, len(self.found)) if self._word(n) == "("), at)
        if self._word(follows) != "(":
            return {}
        args = arguments(between(self.text, self.found, follows, closing(self.found, follows)))
        given = {
            name: kernel_of(one)
            for name, one in zip(names, args)
            if re.fullmatch(r"\d+", one) or function_of(kernel_of(one)) in self.kernels
        }
        values = arguments(between(self.text, self.found, at + 1, follows - 1)) if follows > at + 2 else []
        return given | {name: one for name, one in zip(self._typenames(function), values) if one.isdigit()}

    def _body(self, function: Function) -> _Body:
        body = _Body(function.name)
        self._block(body, function.body + 1, function.last, _Place())
        return body

    def _block(self, body: _Body, at: int, end: int, place: _Place) -> None:
        while at < end:
            word = self._word(at)
            if word == "if" and self._word(at + 1) in ("(", "constexpr"):
                at, place = self._if(body, at, place)
            elif word == "switch" and self._word(at + 1) == "(":
                at = self._switch(body, at, place)
            elif word == "{":
                last = closing(self.found, at)
                self._block(body, at + 1, last, place)
                at = last + 1
            else:
                if at in self.sites or word in self.functions and self._word(at - 1) not in (".", "->"):
                    body.events.append((at, place))
                elif word == "=":
                    self._assigned(body, at, place)
                at += 1

    def _if(self, body: _Body, at: int, place: _Place) -> tuple[int, _Place]:
        """Reads an if statement. Returns the next token, and the place of the statements after it."""
        opener = at + 1 + (self._word(at + 1) == "constexpr")
        close = closing(self.found, opener)
        self._block(body, opener + 1, close, place)
        said = " ".join(between(self.text, self.found, opener, close).split())
        equal = re.fullmatch(r"\(?(\w+) == (\d+|true|false)\)?", said)
        branch, values = f"{body.name}: if ({said})", [(equal[1], equal[2])] if equal else []
        last = self._end(close + 1)
        has_else, leaves = self._word(last + 1) == "else", self._leaves(close + 1, last)
        self._block(body, close + 1, last + 1, place.within(branch, "", *values) if has_else or leaves else place)
        if not has_else:
            return last + 1, place.within(branch, "else") if leaves else place
        end = self._end(last + 2)
        self._block(body, last + 2, end + 1, place.within(branch, "else"))
        return end + 1, place

    def _leaves(self, first: int, last: int) -> bool:
        """Whether the last statement of a block is a return."""
        at = last - 1 if self._word(last) == "}" else last
        while at > first and self._word(at - 1) not in (";", "{", "}"):
            at -= 1
        return self._word(at) in ("return", "throw")

    def _switch(self, body: _Body, at: int, place: _Place) -> int:
        close = closing(self.found, at + 1)
        subject = " ".join(between(self.text, self.found, at + 1, close).split()).strip("()")
        last = closing(self.found, close + 1)
        here, start, number = place, close + 2, close + 2
        while number < last:
            word = self._word(number)
            if word in ("case", "default"):
                self._block(body, start, number, here)
                colon = next(n for n in range(number, last + 1) if self._word(n) in (":", "}"))
                value = between(self.text, self.found, number, colon) if word == "case" else word
                is_empty = start == number and here is not place  # case 1: case 2:
                here = here if is_empty else place.within(f"{body.name}: switch ({subject})", value, (subject, value))
                start = number = colon + 1
            else:
                number = closing(self.found, number) + 1 if word in ("(", "[", "{") else number + 1
        self._block(body, start, last, here)
        return last + 1

    def _end(self, at: int) -> int:
        """The number of the last token of a statement."""
        word = self._word(at)
        if word == "{":
            return closing(self.found, at)
        if word in ("if", "for", "while", "switch"):
            opener = at + 1 + (self._word(at + 1) == "constexpr")
            last = self._end(closing(self.found, opener) + 1)
            return self._end(last + 2) if word == "if" and self._word(last + 1) == "else" else last
        while at < len(self.found) - 1 and self._word(at) not in (";", "}"):
            at = closing(self.found, at) + 1 if self._word(at) in ("(", "[", "{") else at + 1
        return at

    def _assigned(self, body: _Body, at: int, place: _Place) -> None:
        """Notes the kernels behind a variable: k = &f, auto k = f<64>, void (*k)(...) = f, k[] = {f, g}, c ? f : g."""
        end, angles = at + 1, 0
        while end < len(self.found) - 1 and (angles > 0 or self._word(end) != ",") and self._word(end) not in ";)}":
            angles += (self._word(end) == "<") - (self._word(end) == ">")
            end = closing(self.found, end) + 1 if self._word(end) in ("(", "[", "{") else end + 1
        said = between(self.text, self.found, at, end)
        kinds = arguments(said[1:-1]) if said.startswith("{") else re.split(r"[?:](?!:)", said)
        listed = [kernel_of(one) for one in kinds if function_of(kernel_of(one)) in self.kernels]
        before = self._word(at - 1)
        name = before if re.match(r"[A-Za-z_]", before) else ""
        for number in range(at - 1, max(0, at - 200), -1):
            if name or self._word(number) in (";", "{", "}"):
                break
            if self._word(number) == ")" and self._word(number - 2) == "*" or self._word(number) == "[":
                name = self._word(number - 1)
        if name:
            body.kernels.setdefault(name, []).extend((one, place) for one in listed)

"""Choices of the memory lab's pages: any kernel with the fields of its problem and its constants, and what else a page asks; kept in the URL."""

from dataclasses import dataclass, fields

import streamlit as st

from app import kept
from app.choices import choose_backend, write_url
from kernels import backends
from kernels.backends import recorded
from kernels.catalog import KERNELS
from kernels.errors import ProblemError
from kernels.execute import Request, Scope
from kernels.problem import check_value


@dataclass(frozen=True)
class Choice:
    """One thing a page asks: its default and what it may be (`allowed`, or `low` and `high`), as check_value takes them."""

    default: object
    allowed: tuple | None = None
    low: float | None = None
    high: float | None = None


class Page:
    """A page's choices. Kernel, backend, problem fields and constants are those of the chosen kernel; `more` are the page's own.

    `begin` holds defaults of problem fields that suit the page better than the problem's own. Widget keys begin with the page's name, as
    pages have choices of the same names.
    """

    def __init__(self, name, kernels, first=None, begin=(), **more):
        self.name, self.kernels, self.begin = name, tuple(kernels), dict(begin)
        self.more = {"kernel": Choice(first or self.kernels[0], self.kernels), "backend": Choice("auto", ("auto", *backends.NAMES)), **more}
        if f"{name}_state" not in st.session_state:
            state, ignored, step = self._from_url(st.query_params.to_dict())
            st.session_state[f"{name}_state"], st.session_state.ignored, st.session_state.first_step = state, ignored, step
        self.state = st.session_state[f"{name}_state"]
        kept.restore("backend", self.state["backend"])

    def choices_of(self, kernel):
        """Name -> Choice of everything that can be chosen for that kernel."""
        spec = KERNELS[kernel]
        problem = {f.name: Choice(self.begin.get(f.name, f.default), **{name: f.metadata[name] for name in ("allowed", "low", "high")})
                   for f in fields(spec.problem_type)}
        return {**self.more, **problem, **{c.name: Choice(c.default, c.values) for c in spec.constants}}

    def _from_url(self, params):
        """(state, ignored, step) that a URL's parameters describe."""
        ignored, step = [], 0
        kernel = params.get("kernel", self.more["kernel"].default)
        if kernel not in self.kernels:
            ignored.append(f"kernel is {kernel!r}; here it must be one of {', '.join(self.kernels)}.")
            kernel = self.more["kernel"].default
        known = self.choices_of(kernel)
        state = {name: choice.default for name, choice in known.items()} | {"kernel": kernel}
        for name, text in params.items():
            try:
                if name == "step":
                    step = check_value(name, text, 0, {"low": 0, "high": 10**6})
                elif name not in known:
                    raise ProblemError(f"{name} is not a choice of this page.")
                elif name != "kernel":
                    state[name] = _read(name, text, known[name], KERNELS[kernel])
            except ProblemError as error:
                ignored.append(str(error))
        return state, ignored, step

    def __getitem__(self, name):
        return self.state[name]

    def key(self, name):
        """The key of a choice's widget; it begins at what was chosen before."""
        return kept.restore(f"{self.name}_{name}", self.state[name])

    def keep(self, name):
        """Takes what the widget of that name holds."""
        self.state[name] = st.session_state[f"{self.name}_{name}"]
        return self.state[name]

    def change(self, **values):
        """New values, some of widgets that are already drawn: applied in the next run."""
        if "kernel" in values:
            self._new_kernel(values["kernel"])
        self.state.update(values)
        for name in values:
            st.session_state.pop(f"{self.name}_{name}", None)
        st.rerun()

    def _new_kernel(self, kernel):
        """Another kernel begins with its own defaults."""
        for name, choice in self.choices_of(kernel).items():
            if name not in self.more:
                self.state[name] = choice.default
                st.session_state.pop(f"{self.name}_{name}", None)
        self.state["kernel"] = kernel

    def choose_kernel(self, label="Kernel"):
        """Draws the choice of kernel."""
        chosen = st.selectbox(label, self.kernels, key=self.key("kernel"), format_func=lambda name: f"{name} · {KERNELS[name].title}")
        if chosen != self.state["kernel"]:
            self._new_kernel(chosen)
        return KERNELS[chosen]

    def choose_backend(self, survey):
        backend = choose_backend(survey)
        self.state["backend"] = st.session_state.backend
        return backend

    def widgets(self, names, columns=2):
        """A widget for each of these choices, by what it may be."""
        spec = KERNELS[self.state["kernel"]]
        known, places = self.choices_of(spec.name), st.columns(columns)
        help_of = {f.name: f.metadata["meaning"] for f in fields(spec.problem_type)} | {c.name: c.meaning for c in spec.constants}
        for number, name in enumerate(names):
            choice, where, key = known[name], places[number % columns], self.key(name)
            if isinstance(choice.default, bool):
                where.toggle(name, key=key, help=help_of.get(name))
            elif choice.allowed:
                where.selectbox(name, choice.allowed, key=key, help=help_of.get(name))
            elif isinstance(choice.default, tuple):
                self._text(name, where, help_of.get(name), spec)
                continue
            else:
                where.number_input(name, choice.low, choice.high, key=key, help=help_of.get(name))
            self.keep(name)

    def _text(self, name, where, text_help, spec):
        """A tuple's text; what cannot be read is told, and the last good one stays."""
        key = kept.restore(f"{self.name}_{name}_text", _write(self.state[name]))
        try:
            self.state[name] = _read(name, where.text_input(name, key=key, help=text_help), self.choices_of(spec.name)[name], spec)
        except ProblemError as error:
            where.error(str(error).replace("`", "'"), icon=":material/block:")

    def problem(self, **changes):
        """The problem of the chosen kernel. ProblemError where the fields do not go together."""
        spec = KERNELS[self.state["kernel"]]
        return spec.problem_type(**{f.name: changes.get(f.name, self.state[f.name]) for f in fields(spec.problem_type)})

    def settings(self, **changes):
        """The chosen kernel's constants, as pairs."""
        return tuple((c.name, changes.get(c.name, self.state[c.name])) for c in KERNELS[self.state["kernel"]].constants)

    def request(self, backend, scope=None):
        return Request(KERNELS[self.state["kernel"]], self.problem(), self.settings(), scope or Scope(), backend)

    def choose_line(self, request, lines, first):
        """Which of the probes on these lines is looked at; `first` until one is chosen."""
        source, sites = request.kernel.source.splitlines(), request.sites
        if self.state["line"] not in lines:
            self.state["line"] = st.session_state[self.key("line")] = first
        code = {line: sites[line].code_line for line in lines}
        return st.selectbox("Source line", lines, key=self.key("line"), format_func=lambda line: f"line {code[line]}: {source[code[line] - 1].strip()}",
                            on_change=lambda: self.keep("line"))

    def choose_recorded(self, label="Recorded run"):
        """A choice among the kernel's recordings of its present source, in place of the problem's and the constants' widgets."""
        spec = KERNELS[self.state["kernel"]]
        entries = recorded.of(spec)
        if not entries:
            st.warning(f"No recording of {spec.name} fits its present source.")
            return
        default = {**{f.name: f.default for f in fields(spec.problem_type)}, **spec.settings()}
        states = [{**{name: tuple(v) if isinstance(v, list) else v for name, v in e["problem"].items()}, **e["settings"]} for e in entries]
        states.sort(key=lambda state: sum(state[name] != default[name] for name in state))
        names = [", ".join(f"{k} {v}" for k, v in state.items() if v != default[k]) or "the defaults" for state in states]
        at = next((n for n, state in enumerate(states) if all(self.state[k] == v for k, v in state.items())), None)
        chosen = st.selectbox(label, range(len(states)), index=at or 0, format_func=names.__getitem__)
        if chosen != at:
            self.change(**states[chosen])

    def write_url(self):
        write_url({name: _write(value) for name, value in self.state.items() if name in self.choices_of(self.state["kernel"])})


def _read(name, text, choice, spec):
    """A choice's value from a URL's text."""
    field = {f.name: f for f in fields(spec.problem_type)}.get(name)
    if isinstance(choice.default, str):
        if text not in choice.allowed:
            raise ProblemError(f"{name} is {text!r}; it must be one of {', '.join(choice.allowed)}.")
        return text
    return check_value(name, text, choice.default, field.metadata if field else {"allowed": choice.allowed, "low": choice.low, "high": choice.high})


def _write(value):
    """A value as a URL and a text field hold it."""
    if isinstance(value, tuple):
        return ";".join(",".join(map(str, row)) for row in value) if value and isinstance(value[0], tuple) else ",".join(map(str, value))
    return value

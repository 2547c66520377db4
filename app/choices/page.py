"""A page's choices in a session: drawn as widgets, kept while other pages are visited, written into the link."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from app import kept
from app.choices import link, recordings
from app.choices.asked import NONE, Asked, State, kernel_name
from kernels.core.fields import write_value
from kernels.core.request import Request, Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError

Narrowing = Mapping[str, Callable[[State], Iterable[Any]]]


@dataclass(frozen=True, eq=False)
class Page(Asked):
    """What one page asks, and what was chosen in this session: `state`, name -> value."""

    @property
    def prefix(self) -> str:
        return f"{self.name}_" if self.name else ""

    @property
    def state(self) -> State:
        """This session's choices: from the link the first time, kept afterwards."""
        pages = st.session_state.setdefault("choices", {})
        if self.name not in pages:
            pages[self.name], ignored, st.session_state.first_step = self.read_link(st.query_params.to_dict())
            link.ignore(*ignored)
        state = pages[self.name]
        for side in self.sides if self.kernels else ():  # chosen on another page of that name, which has other kernels
            options = self.kernels_of(side, state)
            if state[kernel_name(side)] not in options:
                self._take(state, side, self.first_of(side, options))
        return state

    def __getitem__(self, name: str) -> Any:
        return self.state[name]

    def spec(self, side: str | None = None) -> KernelSpec:
        """The KernelSpec of a side, the first where none is said."""
        return self.spec_of(self.state, side)

    def problem(self, **changes: Any) -> Any:
        """The problem. ProblemError where the fields do not go together."""
        return self.problem_of(self.state, **changes)

    def settings(self, side: str | None = None, kernel: KernelSpec | None = None) -> dict[str, int]:
        """Every constant of a side's kernel, or of another kernel, name -> value."""
        return self.settings_of(self.state, side, kernel)

    def request(self, backend: str, scope: Scope | None = None, side: str | None = None) -> Request:
        """The Request of a side. ProblemError where the fields do not go together."""
        settings = tuple(self.settings(side).items())
        return Request(self.spec(side), self.problem(), settings, scope or Scope(), backend)

    def among(self, name: str, options: Iterable[Any], first: Any) -> Any:
        """The value of a late choice, or `first` if it is none of the options; what a link said is then told."""
        state, wrong = self.state, self[name] not in options
        self.tell_lost(name, [write_value(state[name])] if wrong and state[name] != self.own[name].begin else [])
        if wrong:
            state[name] = first
            self.forget([name])
        return state[name]

    def tell_lost(self, name: str, lost: list[str]) -> None:
        """Tells, the first time, what a link said of a late choice that is not there."""
        seen = st.session_state.setdefault("late_choices_seen", set())
        if lost and self.key(name) not in seen:
            link.ignore(f"{name} is {', '.join(map(repr, lost))}; there is no such choice here.")
        seen.add(self.key(name))

    def change(self, **values: Any) -> None:
        """New values, some perhaps of widgets that are already drawn: applied in the next run, which begins at once."""
        state = self.state
        for side in self.sides:
            if kernel_name(side) in values:
                self._take(state, side, values[kernel_name(side)])
        state.update(values)
        self.forget(values)
        st.rerun()

    def _take(self, state: State, side: str, kernel: str) -> None:
        self.forget(self.take_kernel(state, side, kernel))

    # ---- widgets ----

    def key(self, name: str) -> str:
        return f"{self.prefix}{name}"

    def forget(self, names: Iterable[str]) -> None:
        """The widgets of these choices begin anew at the state."""
        kept.forget(*(self.key(name) for name in names), *(f"{self.key(name)}_text" for name in names))

    def widget(self, name: str, where: Any = st, label: str = "", **more: Any) -> Any:
        """A widget by what the choice may be, and its value. more: of the widget, such as help; options, low and high
        narrow the choice."""
        state, choice = self.state, self.known(self.state)[name]
        options, label = more.pop("options", choice.allowed), label or name
        low, high = (more.pop(end, getattr(choice, end)) for end in ("low", "high"))
        more.setdefault("help", choice.meaning or None)
        if isinstance(choice.begin, tuple) or isinstance(choice.begin, str) and options is None:
            return self._text(name, where, label, more)
        key = kept.restore(self.key(name), state[name])
        if isinstance(choice.begin, bool):
            state[name] = where.toggle(label, key=key, **more)
        elif options is not None:
            options = list(options)
            if state[name] not in options:
                state[name] = choice.begin if choice.begin in options else options[0]
            if st.session_state[key] not in options:
                st.session_state[key] = state[name]
            state[name] = where.selectbox(label, options, key=key, **more)
        else:
            low, high = (end if end is None else type(choice.begin)(end) for end in (low, high))
            if high is not None and st.session_state[key] > high:
                st.session_state[key] = min(choice.begin, high)
            state[name] = where.number_input(label, low, high, key=key, **more)
        return state[name]

    def _text(self, name: str, where: Any, label: str, more: dict[str, Any]) -> Any:
        """A tuple or a text as text; what cannot be read is told, and the last good one stays."""
        state, key = self.state, kept.restore(f"{self.key(name)}_text", write_value(self.state[name]))
        try:
            state[name] = self.known(state)[name].read(name, where.text_input(label, key=key, **more))
        except ProblemError as error:
            where.error(str(error).replace("`", "'"), icon=":material/block:")
        return state[name]

    def segments(self, name: str, titles: Mapping[str, str], label: str = "Section", **more: Any) -> str:
        """A row of buttons for a choice among a few."""
        key = kept.restore(self.key(name), self.state[name])
        if st.session_state[key] not in titles:
            st.session_state[key] = next(iter(titles))
        more = {"label_visibility": "collapsed", **more}
        self.state[name] = st.segmented_control(
            label, list(titles), key=key, format_func=titles.__getitem__, required=True, **more
        )
        return self.state[name]

    def choose_kernel(self, side: str = "", kernels: Collection[str] | None = None) -> KernelSpec:
        """The choice of a side's kernel; kernels: of those only. ProblemError if there is none."""
        name, state = kernel_name(side), self.state
        options = [n for n in self.kernels_of(side, state) if kernels is None or n in kernels]
        if not options:
            raise ProblemError("No kernel has what this part of the page shows.")
        if state[name] not in options:
            self._take(state, side, self.first_of(side, dict.fromkeys(options)))
        key = kept.restore(self.key(name), state[name])
        if st.session_state[key] not in options:
            st.session_state[key] = state[name]
        label = f"Kernel {side.upper()}".strip()
        chosen = st.selectbox(label, options, key=key, format_func=lambda n: f"{n} · {self.kernels[n].title}")
        if chosen != state[name]:
            self._take(state, side, chosen)
        return self.spec(side)

    def choose_backend(self, survey: Any) -> str:
        """The choice of where runs go; the name of that backend."""
        state, usable = self.state, ["auto", *survey.devices]
        if state["backend"] not in usable:
            reason = survey.reasons.get(state["backend"], "")
            st.warning(f"This machine has no usable {state['backend']} backend: {reason}")
        titles = {"gpu": "This GPU", "cpu": "The CPU", "recorded": "Recorded"}
        labels = {name: f"{titles[name]}: {device.name}" for name, device in survey.devices.items()}
        labels["auto"] = f"Automatic: {labels[survey.pick().backend]}"
        return survey.pick(
            self.widget("backend", label="Run on", options=usable, format_func=labels.__getitem__)
        ).backend

    def widgets(self, hidden: Iterable[str] = (), options: Narrowing | None = None) -> None:
        """A widget for every field and every constant, however many there are. options: name -> what narrows that
        choice."""
        state, options = self.state, options or {}
        if self.one_what_if:
            self._what_if()
        if len(self.sides) > 1:
            for column, side in zip(st.columns(len(self.sides)), self.sides):
                for name in self.constants(state, side):
                    self.widget(name, column, name.replace(f"{side}_", f"{side.upper()} ", 1))
        single = self.constants(state) if len(self.sides) == 1 else {}
        columns = st.columns(2)
        for number, name in enumerate(n for n in (*self.fields(state), *single) if n not in hidden):
            more: dict[str, Any] = {"options": options[name](state)} if name in options else {}
            self.widget(name, columns[number % 2], **more)

    def _what_if(self) -> None:
        breaks = {c.name: c for c in self.spec().what_ifs}
        names = {NONE: "As written", **{name: c.what_if for name, c in breaks.items()}}
        self.widget("what_if", label="What-if build", format_func=names.__getitem__)
        self.say_what_if()

    def say_what_if(self) -> None:
        """What the chosen what-if build breaks."""
        chosen = next((c for c in self.spec().what_ifs if c.name == self.state["what_if"]), None)
        if chosen:
            shows = f" It shows from score_scale {chosen.shows_at:g} on." if chosen.shows_at > 1 else ""
            st.caption(f"Broken on purpose: {chosen.effect}{shows}")

    def sidebar(self, survey: Any, hidden: Iterable[str] = (), kernels: Collection[str] | None = None) -> str:
        """The whole sidebar: kernels, backend, and fields and constants or in their place the recordings. Returns the
        backend's name."""
        with st.sidebar:
            for side in self.sides:
                self.choose_kernel(side, kernels)
            backend = self.choose_backend(survey)
            if backend == "recorded":
                recordings.choose(self)
            else:
                self.widgets(hidden)
        return backend

    def write_link(self, without: Iterable[str] = ()) -> None:
        """Every choice into the page's link, but for those that say nothing now: `without`, and late ones that are
        empty."""
        link.write(
            {
                name: self.state[name]
                for name, choice in self.known(self.state).items()
                if name not in without and not (choice.late and self.state[name] == "")
            }
        )

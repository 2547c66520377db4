"""The texts and questions of a story, in `words.toml` next to it. A teacher can edit them without reading Python.

    [texts]
    summary = "In one kernel, {{ stays | listed }} {{ place }}."

    [[step]]                      # a step has the first entry with a true condition
    when = "kind == 'store'"
    title = "{{ entry }} writes {{ tensor }}"
    head = "{{ entry }} writes {{ tensor }}."    # at most 12 words, where the reader is guided
    say = "{{ entry }} writes {{ tensor }}: {{ bytes | n }} bytes."
    more = "on hover"

    [[question]]
    id = "fewer_bytes"
    when = "before > after"       # without a true condition, the question is left out
    ask = "How many bytes fewer does the fused kernel move?"
    right = "before - after"      # an expression, as wrong is. If wrong is a list of texts, a text, too
    wrong = "[after, before]"     # or a list of texts, or a table: text -> the reason against it. "" is no option
    rising = true                 # options that begin with a number are in its order
    each = "It takes {{ reason }} bytes."   # the reason against an option, if wrong is an expression of a dict
    unit = "bytes"
    why = "The sums are {{ before | n }} and {{ after | n }} bytes."
    hint = "..."                  # to a wrong number, where the answer is `number = "before - after"`
    covers = [{ total = "fused" }]

    [question.others]             # in place of wrong: an option for each row of a table
    of = "gaps"
    text = "{{ one.ns | us }}"
    reason = "That is the gap before {{ one.name }}."

A text is a Jinja template over the story's tables. A list of {when, say} gives the first text with a true condition.
Jinja's sandbox renders it, and an unknown name is an error. Filters give numbers their one form.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from importlib.resources import files
from typing import Any

from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from explainers.story import questions
from explainers.story.frames import Frame
from explainers.story.glossary import count, figure, listed, logged, short, us
from explainers.story.stage import Question

Names = Mapping[str, Any]  # the tables and values that texts use
Row = dict[str, Any]  # a row of a table, or the tables of a story by name


class _Sandbox(ImmutableSandboxedEnvironment):
    """`row.bytes` is an item of a row, never an attribute of a Python object."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        return False


_SANDBOX = _Sandbox(undefined=StrictUndefined, autoescape=False)
_SANDBOX.filters |= {
    "n": lambda value: f"{value:,}",
    "whole": lambda value: f"{value:,.0f}",
    "two": lambda value: f"{value:.2f}",
    "one": lambda value: f"{value:,.1f}",
    "percent": lambda share: f"{share:.0%}",
    "count": count,
    "listed": lambda parts: listed([*parts]),
    "short": short,
    "figure": figure,
    "logged": logged,
    "us": us,  # of ns
    "s": lambda parts: "s" if len(parts) == 1 else "",  # of a verb: stay{{ tensors | s }}
}


class Words:
    """The words of one story."""

    def __init__(self, text: str, file: str) -> None:
        """text: in TOML. file: for messages."""
        self._toml, self._file = tomllib.loads(text), file

    @classmethod
    def of(cls, package: str, file: str = "words.toml") -> "Words":
        """The words of a story, or of a model. package: the __package__ of one of its modules."""
        return cls(files(package).joinpath(file).read_text(), f"{package}/{file}")

    def say(self, name: str, names: Names) -> str:
        """A text of [texts]."""
        return _said(self._toml["texts"][name], names)

    def parts(self, name: str, names: Names) -> list[str]:
        """Every text with a true condition in a list of [texts]. An empty text is left out."""
        texts = "\0".join(
            f"{{% if {t.get('when', 'true')} %}}{t['say']}{{% endif %}}" for t in self._toml["texts"][name]
        )
        return list(filter(None, (" ".join(text.split()) for text in _template(texts).render(names).split("\0"))))

    def table(self, name: str) -> dict[str, str]:
        """A table of plain texts, each in one line."""
        return {key: " ".join(text.split()) for key, text in self._toml[name].items()}

    def frames(self, steps: Iterable[Names], names: Names) -> list[Any]:
        """The frames of a story: for each step its row, with title, sentence and details of the first [[step]] with a
        true condition. LookupError without one.

        steps: a row for each step. Its columns of Frame, and those that end with "lines", are the frame's own.
        names: the tables that every text can use.
        """
        return [self._frame(row, {**names, **row}) for row in steps]

    def _frame(self, row: Names, names: Names) -> dict[str, Any]:
        entry = next((e for e in self._toml["step"] if _true(e.get("when"), names)), None)
        if entry is None:
            raise LookupError(f"{self._file}: no [[step]] has a true condition for {dict(row)}.")
        frame = {key: value for key, value in row.items() if key in Frame.__annotations__ or key.endswith("lines")}
        keys = {"title": "title", "sentence": "say", "head": "head", "details": "more"}
        return frame | {key: _said(entry[of], names) for key, of in keys.items() if of in entry}

    def questions(self, names: Names, last: int) -> list[Question]:
        """Every [[question]] with a true condition. last: the step with the answer, if the entry names none."""
        asked = (entry for entry in self._toml.get("question", []) if _true(entry.get("when"), names))
        return [question for entry in asked for question in _question(entry, names, last)]


def _question(entry: Mapping[str, Any], names: Names, last: int) -> list[Question]:
    """A list of one Question, or an empty list without a wrong option."""
    id, ask, why = (_said(entry[key], names) for key in ("id", "ask", "why"))
    more: dict[str, Any] = {key: _value(entry[key], names) for key in ("covers", "shows", "hides") if key in entry}
    more |= {key: entry[key] for key in ("veils", "tolerance") if key in entry}
    more |= {"view": _said(entry["view"], names)} if "view" in entry else {}
    more["step"] = _value(entry.get("step", last), names)
    if "click" in entry or "number" in entry:
        kind = "click" if "click" in entry else "number"
        more |= {"hint": _said(entry.get("hint", ""), names), "unit": entry.get("unit", "")}
        return [Question(id, ask, kind, _value(entry[kind], names), why, **more)]
    wrong = entry.get("wrong")
    if not isinstance(wrong, str):
        right = _said(entry["right"], names)
        others = _others(entry, names, right)
        order = [_said(text, names) for text in entry.get("order", ())]
        if entry.get("rising"):
            order = sorted([right, *others], key=lambda text: float(text.split()[0].replace(",", "")))
        if isinstance(wrong, Sequence):
            return questions.options(id, ask, right, others, why, order, **more)
        return [questions.idea(id, ask, right, others, why, order, **more)] if others else []
    others, order = _value(wrong, names), _value(entry.get("order", ()), names)
    if isinstance(others, Mapping):
        reasons = {text: _said(entry["each"], {**names, "reason": reason}) for text, reason in others.items()}
        return [questions.idea(id, ask, _said(entry["right"], names), reasons, why, order, **more)]
    right = _value(entry["right"], names)
    if isinstance(right, str):
        return questions.options(id, ask, right, others, why, order, **more)
    return questions.amounts(id, ask, right, others, why, unit=entry.get("unit", ""), **more)


def _others(entry: Mapping[str, Any], names: Names, right: str) -> dict[str, str]:
    """The wrong options of a question in texts -> the reason against each. Of `others`, the first ones."""
    if others := entry.get("others"):
        rows = ({**names, "one": one} for one in _value(others["of"], names))
        reasons = {_said(others["text"], row): _said(others["reason"], row) for row in rows}
    else:
        wrong = entry["wrong"]
        reasons = {
            _said(text, names): _said(wrong[text], names) if isinstance(wrong, Mapping) else "" for text in wrong
        }
    wrong_ones = [(text, reason) for text, reason in reasons.items() if text not in ("", right)]
    return dict(wrong_ones[: questions.MOST - 1] if others else wrong_ones)


def _said(text: str | Sequence[Mapping[str, str]], names: Names) -> str:
    """A rendered text in one line. A list gives the first text with a true condition, or an empty text."""
    if not isinstance(text, str):  # one template, as each one takes as long as many conditions
        choices = "{% el".join(f"if {t.get('when', 'true')} %}}{t['say']}" for t in text)
        text = f"{{% {choices}{{% endif %}}" if text else ""
    return " ".join(_template(text).render(names).split())


def _value(value: Any, names: Names) -> Any:
    """The value of an expression. Other values of TOML are themselves. UndefinedError for an unknown name."""
    if not isinstance(value, str):
        return value
    found = _expression(value)(names)
    return str(found) if isinstance(found, StrictUndefined) else found  # str raises the error


def _true(condition: str | None, names: Names) -> bool:
    return condition is None or bool(_value(condition, names))


_template = lru_cache(maxsize=None)(_SANDBOX.from_string)
_expression = lru_cache(maxsize=None)(partial(_SANDBOX.compile_expression, undefined_to_none=False))

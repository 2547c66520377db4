"""Expressions of a .cu's front matter, over a problem's fields and a kernel's constants.

Jinja's sandbox evaluates them, never eval. torch and Altair bring Jinja. A .cu may come from anybody, so each
evaluation ends at once: expressions are short, without powers and attributes, and numbers have at most 64 bits.
"""

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from numbers import Real
from typing import Any, TypeAlias

from jinja2 import StrictUndefined, TemplateError
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from kernels.core.fields import shortened
from kernels.errors import FrontMatterError


def ceil_div(n: int, d: int) -> int:
    """n / d, rounded up."""
    return -(-n // d)


def is_power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


FUNCTIONS = {"ceil_div": ceil_div, "is_power_of_two": is_power_of_two, "min": min, "max": max, "len": len}
MOST_CHARACTERS = 1000  # of an expression, and our longest has 124
LARGEST = 2**63 - 1
Number: TypeAlias = int | float
_OPERATORS: dict[str, Callable[[Number, Number], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


class _Sandbox(SandboxedEnvironment):
    """Jinja's sandbox without powers and attributes. Its operators take bounded numbers only."""

    intercepted_binops = frozenset([*_OPERATORS, "**"])  # also stops constant folding in Jinja's compiler

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Number:
        if operator not in _OPERATORS:
            raise TypeError(f"the operator {operator} is not allowed")
        for value in (left, right):
            if isinstance(value, StrictUndefined):
                bool(value)  # raises an error with the unknown name
            if not isinstance(value, Real):
                raise TypeError(f"{operator} takes numbers, not {type(value).__name__}")
        return _bounded(_OPERATORS[operator](_bounded(left), _bounded(right)))

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        return False


def _bounded(number: Number) -> Number:
    if isinstance(number, int) and abs(number) > LARGEST:
        raise OverflowError("a number has more than 64 bits")
    return number


_SANDBOX = _Sandbox(undefined=StrictUndefined)
_SANDBOX.globals.clear()
_SANDBOX.globals.update(FUNCTIONS)
_SANDBOX.filters.clear()
_SANDBOX.tests.clear()


# A deep expression ends Python's stack, or its compiler's.
_FAULTS = (ArithmeticError, TypeError, ValueError, LookupError, RecursionError, SyntaxError, MemoryError)


def evaluate(expression: str | int | float, names: Mapping[str, object], where: str) -> Any:
    """The value of an expression such as ceil_div(seq_len, BLOCK_Q), or of a plain number.

    where: file and key, for the message.
    Raises FrontMatterError."""
    if isinstance(expression, str) and len(expression) > MOST_CHARACTERS:
        raise FrontMatterError(
            f"{where}: an expression has {len(expression):,} characters. It may have at most {MOST_CHARACTERS:,}. "
            "Write a shorter one."
        )
    try:
        value = expression if isinstance(expression, (int, float)) else _compiled(expression)(**names)
        if isinstance(value, StrictUndefined):
            bool(value)
        return _bounded(value) if isinstance(value, int) else value
    except (*_FAULTS, TemplateError) as error:
        known, fault = ", ".join(sorted(names)), str(error) or type(error).__name__
        raise FrontMatterError(
            f"{where}: cannot evaluate {shortened(str(expression))!r} ({fault.splitlines()[0]}). It may use + - * // % "
            f"and comparisons, {', '.join(FUNCTIONS)}, and the names {known}."
        ) from None


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> Callable[..., Any]:
    return _SANDBOX.compile_expression(expression, undefined_to_none=False)


def whole(expression: str | int, names: Mapping[str, object], where: str, least: int = 0) -> int:
    """The value of an expression: a whole number from `least` on. Raises FrontMatterError."""
    value = evaluate(expression, names, where)
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, int) or value < least:
        raise FrontMatterError(
            f"{where}: {expression!r} is {value!r}. It must be a whole number from {least}. Use // or ceil_div to "
            "divide."
        )
    return value

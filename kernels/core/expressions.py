"""The sizes in a .cu's front matter: expressions over a problem's fields and a kernel's constants, evaluated by Jinja's
sandbox, never by eval. Jinja is there wherever torch or Altair is."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from kernels.errors import FrontMatterError


def ceil_div(n: int, d: int) -> int:
    """n / d, rounded up."""
    return -(-n // d)


def is_power_of_two(n: int) -> bool:
    """Whether n is 1, 2, 4, 8 and so on."""
    return n > 0 and n & (n - 1) == 0


FUNCTIONS = {"ceil_div": ceil_div, "is_power_of_two": is_power_of_two, "min": min, "max": max, "len": len}
_SANDBOX = SandboxedEnvironment(undefined=StrictUndefined)
_SANDBOX.globals.clear()
_SANDBOX.globals.update(FUNCTIONS)
_SANDBOX.filters.clear()
_SANDBOX.tests.clear()


def evaluate(expression: str | int | float, names: Mapping[str, Any], where: str) -> Any:
    """The value of an expression such as ceil_div(seq_len, BLOCK_Q), or of a plain number.

    names: what the expression may name. where: file and key, for the message. Raises FrontMatterError.
    """
    if isinstance(expression, (int, float)):
        return expression
    try:
        value = _compiled(expression)(**names)
        if isinstance(value, StrictUndefined):
            bool(value)  # it raises, and says which name is unknown
        return value
    except (TemplateError, ArithmeticError, TypeError, ValueError, LookupError) as error:
        known = ", ".join(sorted(names))
        raise FrontMatterError(
            f"{where}: cannot evaluate {expression!r} ({str(error).splitlines()[0]}). It may use + - * // % and "
            f"comparisons, {', '.join(FUNCTIONS)}, and the names {known}."
        ) from None


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> Callable[..., Any]:
    return _SANDBOX.compile_expression(expression, undefined_to_none=False)


def whole(expression: str | int, names: Mapping[str, Any], where: str, least: int = 0) -> int:
    """The value of an expression that must be a whole number from `least` on. Raises FrontMatterError."""
    value = evaluate(expression, names, where)
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, int) or value < least:
        raise FrontMatterError(
            f"{where}: {expression!r} is {value!r}; it must be a whole number from {least}. Use // or ceil_div to "
            "divide."
        )
    return value

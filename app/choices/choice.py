"""A Choice for every field of a problem and every constant of a kernel. Plain data: nothing here draws."""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, replace
from typing import Any

from kernels.core.fields import check_value
from kernels.core.launch import Constant
from kernels.errors import ProblemError


@dataclass(frozen=True)
class Choice:
    """One choice of a page.

    default: its value until the reader chooses another.
    allowed: its values, or None for a range or a text.
    low, high: its range, for each element of a tuple.
    nested: whether its elements are tuples.
    meaning: a sentence of help.
    check: raises ProblemError for a text that is not allowed.
    late: only the story knows the values, from recordings or from a run.
    also: a regular expression of further texts that a link may have.
    stays: a value chosen in one story means something else in another, so it does not go along."""

    default: Any
    allowed: tuple[Any, ...] | None = None
    low: float | None = None
    high: float | None = None
    nested: bool = False
    meaning: str = ""
    check: Callable[[str], object] | None = None
    late: bool = False
    stays: bool = False
    also: str = ""

    def read(self, name: str, value: Any) -> Any:
        """A value of a link or a recording (text, number or list) in the type of the default. Raises ProblemError if it
        is not allowed."""
        if self.check or self.late:
            if self.check:
                self.check(value)
            return value
        if self.nested and isinstance(value, str):  # a row may be empty
            rows = value.rstrip("; ").split(";")
            value = [row.split(",") if row.strip() else () for row in rows] if any(rows) else ()
        limits = {"allowed": self.allowed, "low": self.low, "high": self.high, "nested": self.nested, "also": self.also}
        return check_value(name, value, self.default, limits)

    def takes(self, value: object) -> bool:
        try:
            self.read("", value)
        except ProblemError:
            return False
        return True

    def with_default(self, value: object) -> "Choice":
        """A copy with another default, if that value can be chosen."""
        return replace(self, default=value) if value is not None and self.takes(value) else self


def of_field(field: Field) -> Choice:
    limits = field.metadata
    return Choice(
        *(field.default, limits["allowed"], limits["low"], limits["high"], bool(limits["nested"]), limits["meaning"]),
        also=limits["also"],
    )


def of_constant(constant: Constant) -> Choice:
    return Choice(constant.default, constant.values, meaning=constant.meaning)


def broken_value(constant: Constant) -> int:
    """The value of a what-if constant at which it breaks the kernel."""
    return next(value for value in constant.values if value != constant.default)


def difference(values: Mapping[str, object], common: Mapping[str, object]) -> list[str]:
    return [name for name, value in values.items() if value != common[name]]

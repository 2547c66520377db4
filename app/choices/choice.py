"""What can be chosen, as data: a Choice for every field of a problem and every constant of a kernel. Nothing here
draws."""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, replace
from typing import Any

from kernels.core.fields import check_value
from kernels.core.launch import Constant
from kernels.errors import ProblemError


@dataclass(frozen=True)
class Choice:
    """One thing that a page asks. begin: its value until another is chosen. What it may be: one of `allowed`, or from
    `low` to `high` (of each element, where it is a tuple; nested: of tuples), or a text that `check` lets pass. late:
    what it may be is known only to the story: of what is recorded, or of what a run tells. meaning: a
    sentence of help."""

    begin: Any
    allowed: tuple[Any, ...] | None = None
    low: float | None = None
    high: float | None = None
    nested: bool = False
    meaning: str = ""
    check: Callable[[str], Any] | None = None
    late: bool = False

    def read(self, name: str, value: Any) -> Any:
        """A value as a link or a recording gives it (text, number, list), as the type of `begin`; ProblemError where it
        cannot be."""
        if self.check or self.late:
            if self.check:
                self.check(value)
            return value
        if self.nested and isinstance(value, str):  # a row between two others may be empty
            rows = value.rstrip("; ").split(";")
            value = [row.split(",") if row.strip() else () for row in rows] if any(rows) else ()
        limits = {"allowed": self.allowed, "low": self.low, "high": self.high, "nested": self.nested}
        return check_value(name, value, self.begin, limits)

    def takes(self, value: Any) -> bool:
        """Whether this is a value that can be chosen."""
        try:
            self.read("", value)
        except ProblemError:
            return False
        return True

    def beginning_at(self, value: Any) -> "Choice":
        """The same with another beginning, where that can be chosen."""
        return replace(self, begin=value) if value is not None and self.takes(value) else self


def of_field(field: Field) -> Choice:
    """The Choice of a problem's field (core.fields.problem_field)."""
    limits = field.metadata
    return Choice(
        field.default, limits["allowed"], limits["low"], limits["high"], bool(limits["nested"]), limits["meaning"]
    )


def of_constant(constant: Constant) -> Choice:
    """The Choice of a kernel's constant."""
    return Choice(constant.default, constant.values, meaning=constant.meaning)


def difference(values: Mapping[str, Any], common: Mapping[str, Any]) -> list[str]:
    """The names of the values that differ from the common ones."""
    return [name for name, value in values.items() if value != common[name]]

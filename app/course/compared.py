"""Two amounts of one kind, in words."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.course.stop import StopError
from explainers.story import glossary

UNITS = {"us": glossary.MICROSECONDS, "B": glossary.BYTES}


@dataclass(frozen=True)
class Compared:
    """Two amounts of one kind, in words.

    value, value_before: the amounts. unit: of both.
    place: the GPU and the date, or the rule of a derived amount.
    sizes, sizes_before: of the problem, such as seq_len, batch and window, and the constants of the kernel.
    copy_rate: bytes per microsecond of a copy on that GPU, for bytes.
    """

    value: float
    value_before: float
    unit: str
    place: str
    sizes: Mapping[str, float] = field(default_factory=dict)
    sizes_before: Mapping[str, float] = field(default_factory=dict)
    copy_rate: float = 0.0

    @property
    def now(self) -> str:
        return amount(self.value, self.unit)

    @property
    def before(self) -> str:
        return amount(self.value_before, self.unit)

    @property
    def times(self) -> str:
        """How many times smaller the amount is now."""
        return _ratio(self.value_before, self.value)

    @property
    def loss(self) -> str:
        """How many times larger the amount is now."""
        return _ratio(self.value, self.value_before)

    @property
    def less(self) -> str:
        """By how many per cent the amount is smaller now."""
        return f"{glossary.short(100 * (1 - self.value / self.value_before), 2)}%"

    @property
    def more(self) -> str:
        """By how many per cent the amount is larger now."""
        return f"{glossary.short(100 * (self.value / self.value_before - 1), 2)}%"

    @property
    def percent(self) -> str:
        """The amount now, a share of one, in per cent."""
        return f"{glossary.short(100 * self.value, 2)}%"

    @property
    def copy_before(self) -> str:
        """The time in which the GPU copies the bytes of before."""
        return amount(self.value_before / self.copy_rate, "us")

    @property
    def tokens(self) -> str:
        return f"{self.sizes['seq_len']:,.0f}"

    @property
    def heads(self) -> str:
        return f"{self.sizes['num_heads']:,.0f}"

    @property
    def numbers(self) -> str:
        return f"{self.sizes['numbers']:,.0f}"

    @property
    def gpus(self) -> str:
        return f"{self.sizes['gpus']:,.0f}"

    @property
    def batch(self) -> str:
        return f"{self.sizes['batch']:,.0f}"

    @property
    def window(self) -> str:
        return f"{self.sizes['window']:,.0f}"

    @property
    def window_before(self) -> str:
        return f"{self.sizes_before['window']:,.0f}"


def amount(value: float, unit: str) -> str:
    """A value in at most three digits, in the unit that fits."""
    return glossary.amount(value, UNITS.get(unit, ((1.0, unit),))).strip()


def _ratio(larger: float, smaller: float) -> str:
    if larger < smaller:
        raise StopError(f"{larger:g} is less than {smaller:g}, so this is no gain. Take .loss, .less or .more.")
    return glossary.short(larger / smaller, 3)


def sizes_of(row: Mapping[str, object]) -> dict[str, float]:
    return {name: float(value) for name, value in row.items() if isinstance(value, (int, float))}

"""A copy in a plan, and in the front matter."""

from dataclasses import dataclass

Repeat = tuple[tuple[str, str | int], ...]  # (name, count) pairs, the outermost first


@dataclass(frozen=True)
class Copy:
    """A copy of a whole tensor to another tensor of equal size, usually on another device.

    source, target: tensors.
    step: the copies of a step follow its launches in the plan's order.
    place: the number of launches before it in this order, at least 1.
    """

    source: str
    target: str
    step: int = 0
    place: int = 0


@dataclass(frozen=True)
class CopyText:
    """A copy in the front matter, with unevaluated expressions."""

    source: str
    target: str
    repeat: Repeat = ()
    when: str = ""

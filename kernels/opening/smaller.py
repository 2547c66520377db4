"""A program with smaller numbers, if its own sizes take too long on this CPU.

Only numbers that no device code sees may change: the text of the kernel stays as it is.
"""

import ast
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kernels.build.plain.tokens import bare, functions, tokens
from kernels.errors import RunError
from kernels.opening.ran import Ran

LEAST = 512  # a smaller number stays
MOST_SECONDS = 1.5  # of all launches of a run, as the shim without checks runs them
MOST_BYTES = 2**26  # of all memories
MOST_RUNS = 4
WORTH = 3  # a smaller run takes so much less
UNKNOWN = 64  # the factor of a run without an end
_DECLARED = re.compile(
    r"(?:\b(?:int|unsigned|size_t|long|auto|u?int(?:32|64)_t)\s++|,\s*+)(\w++)\s*+=\s*+([\d(][\w\s()*+<-]*+)(?=[;,])"
)
_DEFINED = re.compile(r"^[ \t]*+#[ \t]*+define[ \t]++(\w++)[ \t]++([\d(][\w \t()*+<-]*+)$", re.M)


class Number(NamedTuple):
    """A whole number in the host's text. first, last: the places of its expression."""

    name: str
    value: int
    first: int
    last: int


def numbers_of(text: str) -> list[Number]:
    """The named whole numbers of the host that no device code sees."""
    plain, found = bare(text), tokens(text)
    spans = [(found[f.first].start, found[f.last].end, f.on_device) for f in functions(text, found)]
    device = [(first, last) for first, last, on_device in spans if on_device]
    words = {token.text for token in found if any(first <= token.start < last for first, last in device)}
    listed = list[Number]()
    for match in (*_DECLARED.finditer(plain), *_DEFINED.finditer(plain)):
        value, at = _value(match[2]), match.start()
        is_local = any(first <= at < last and not on_device for first, last, on_device in spans)
        is_device = any(first <= at < last for first, last in device)
        if value is not None and (is_local or match[1] not in words) and not is_device:
            listed.append(Number(match[1], value, match.start(2), match.end(2)))
    return listed


def _value(text: str) -> int | None:
    try:
        tree = ast.parse(re.sub(r"(?<=\d)[uUlL]+\b", "", text).strip(), mode="eval").body
        return _computed(tree)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return None


def _computed(node: ast.AST) -> int:
    match node:
        case ast.Constant(value=int(value)) if abs(value) < 2**40:
            return value
        case ast.BinOp(left=left, op=ast.LShift(), right=ast.Constant(value=int(right))) if 0 <= right <= 40:
            return _computed(left) << right
        case ast.BinOp(left=left, op=ast.Mult() | ast.Add() | ast.Sub() as op, right=right):
            one, other = _computed(left), _computed(right)
            found = one * other if isinstance(op, ast.Mult) else one + other if isinstance(op, ast.Add) else one - other
            if abs(found) < 2**40:
                return found
    raise ValueError(ast.dump(node))


def with_values(text: str, values: Mapping[str, int]) -> str:
    """The text with other values of its numbers. No line moves."""
    for number in sorted(numbers_of(text), key=lambda number: -number.first):
        if number.name in values:
            lines = "\n" * text.count("\n", number.first, number.last)
            text = f"{text[: number.first]}{values[number.name]}{lines}{text[number.last :]}"
    return text


def reduced(values: Mapping[str, int], factor: float) -> dict[str, int]:
    """The numbers, the largest ones halved until their product is smaller by a factor. Equal numbers stay equal."""
    found, total = dict(values), 1.0
    while total < factor and (largest := max(found.values(), default=0)) >= LEAST:
        for name, value in found.items():
            if value == largest:
                found[name], total = value // 2, 2 * total
    return found


def _gains(ran: Ran, before: Ran) -> bool:
    return not before.whole or WORTH * ran.seconds <= before.seconds or WORTH * ran.bytes <= before.bytes


def runs(text: str, said: Mapping[str, int], run: Callable[[str], Ran]) -> tuple[Ran, dict[str, int]]:
    """A run of a program, and the numbers that differ from its text: those said, and smaller ones for a long run.

    run: of a text. Raises RunError for a program that does not end with smaller numbers either."""
    own = {number.name: number.value for number in numbers_of(text)}
    values = {name: value for name, value in own.items() if name not in said}
    kept: tuple[Ran, dict[str, int]] | None = None
    stopped: RunError | None = None
    for _ in range(MOST_RUNS):
        changed = {name: value for name, value in {**values, **said}.items() if own.get(name) != value}
        factor = float(UNKNOWN)
        try:
            ran = run(with_values(text, changed))
            if kept and (ran.code != kept[0].code or not ran.is_clear or not _gains(ran, kept[0])):
                return kept  # the smaller numbers do not fit together, or help little
            kept = ran, changed
            factor = max(ran.seconds / MOST_SECONDS, ran.bytes / MOST_BYTES, 1.0 if ran.whole else UNKNOWN)
        except RunError as error:
            if kept:
                return kept
            stopped = error
        smaller = reduced(values, factor)
        if factor <= 1.0 or smaller == values:
            break
        values = smaller
    if kept is None:
        raise stopped or RunError("main() was not run.")
    return kept

"""How the text of a kernel uses a parameter: which names step through a pointer, and whether it stores there."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from kernels.build.plain.tokens import tokens
from kernels.core.sources import function_of
from kernels.opening.host import body_of

_ASSIGNED = re.compile(r"\[|\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=)")


class Use(NamedTuple):
    """One use of a name. before, after: up to three tokens. inside: the tokens of its index, or of what is added."""

    before: str
    inside: list[str]
    after: str
    is_index: bool


def uses(text: str, entry: str, name: str) -> Iterator[Use]:
    """The uses of a name in the body of a kernel."""
    words = [token.text for token in tokens(body_of(text, function_of(entry)))]
    start = words.index("{") if "{" in words else 0
    for at in range(start, len(words)):
        if words[at] == name:
            end = _closing(words, at + 1) if words[at + 1 : at + 2] == ["["] else at + 1
            inside = words[at + 1 : end] if end > at + 1 else _added(words, at + 1)
            yield Use("".join(words[at - 2 : at]), inside, "".join(words[end : end + 3]), end > at + 1)


def _closing(words: list[str], at: int) -> int:
    depth = 0
    for end in range(at, len(words)):
        depth += (words[end] == "[") - (words[end] == "]")
        if not depth:
            return end + 1
    return len(words)


def _added(words: list[str], at: int) -> list[str]:
    """The tokens of the offset in `A + row * K` and `A += row * K`."""
    if words[at : at + 1] != ["+"]:
        return []
    end = next((n for n in range(at, len(words)) if words[n] in (";", ",")), at)
    return words[at:end]


def strides(text: str, entry: str, pointer: str) -> Iterator[str]:
    """The names by which the indices of a pointer multiply, such as K of A[row * K + k] and of A + row * K."""
    for use in uses(text, entry, pointer):
        factors = [n for n in range(1, len(use.inside) - 1) if use.inside[n] == "*"]
        yield from (use.inside[n + 1] for n in factors)
        yield from (use.inside[n - 1] for n in factors)


def stores(text: str, entry: str, pointer: str, sure: bool = False) -> bool:
    """Whether a kernel may write through a parameter: its pointer is not const, and the text does more than read
    `pointer[...]`. sure: whether it surely writes, by an assignment to `pointer[...]`."""
    head = [token.text for token in tokens(body_of(text, function_of(entry)).partition("{")[0])]
    if pointer in head:
        at = head.index(pointer)
        if "const" in head[max((n for n in range(at) if head[n] in (",", "(")), default=0) : at]:
            return False
    return any(_is_assigned(use) or not sure and not _is_read(use) for use in uses(text, entry, pointer))


def _is_read(use: Use) -> bool:
    return use.is_index and not use.before.endswith("&")


def _is_assigned(use: Use) -> bool:
    """Whether the element is assigned, may be a row of which one is, or is assigned in a macro: FLOAT4(c[i]) = v."""
    assigned = _ASSIGNED.match(use.after) or re.match(r"\)+=(?!=)", use.after)
    return use.is_index and (use.before in ("++", "--") or assigned is not None)


def only_assigned(text: str, entry: str, pointer: str) -> bool:
    """Whether the text only sets elements of a pointer, and reads none."""
    found = list(uses(text, entry, pointer))
    return bool(found) and all(use.is_index and re.match(r"=(?!=)", use.after) for use in found)


def is_summed(text: str, entry: str, pointer: str) -> bool:
    """Whether atomics add to a pointer."""
    words = [token.text for token in tokens(body_of(text, function_of(entry)))]
    places = [n for n, word in enumerate(words) if word.startswith("atomic")]
    return any(pointer in words[n + 1 : n + 4] for n in places)


def is_flag(text: str, entry: str, name: str) -> bool:
    """Whether the text only asks whether a number is zero."""
    found = list(uses(text, entry, name))
    asks = re.compile(r"[)?]|&&|\|\|")
    return bool(found) and all(
        use.before[-1:] in ("(", "!", "&", "|") and not use.is_index and asks.match(use.after) for use in found
    )

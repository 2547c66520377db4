"""A program with smaller numbers, if its own sizes take too long on this CPU.

Only numbers that no device code sees may change: the text of the kernel stays as it is. A number of a block or of a
template stays too. The numbers of repeats become small first: they decide no result.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kernels.build.plain.macros import macros_of
from kernels.build.plain.tokens import bare, functions, tokens
from kernels.errors import RunError
from kernels.opening.launches import constants_of, host_launches, variable
from kernels.opening.ran import Ran
from kernels.opening.values import value as value_of

LEAST = 512  # a smaller number stays, unless the larger ones are not enough
LEAST_TILED = 64  # then a number from here on stays a multiple of the largest tile that divides it
MOST_TILE = 256
SMALL = 8  # a number below is no size
MOST = 2**40  # so is a larger one
REPEATS = 2
FIRST_SECONDS, SECONDS = 12.0, 20.0  # of a run that may shrink: with its own numbers, and with smaller ones
MOST_SECONDS = 1.5  # of all launches of a run, as the shim without checks runs them
MOST_BYTES = 2**26  # of all memories
MOST_RUNS = 4
WORTH = 3  # a smaller run takes so much less
UNKNOWN = 256  # the factor of a run without an end
_DECLARED = re.compile(
    r"(?:\b(?:int|unsigned|size_t|long|auto|u?int(?:32|64)_t)\s++|,\s*+)(\w++)\s*+=\s*+([\d(][\w\s()*+<-]*+)(?=[;,])"
)
_DEFINED = re.compile(r"^[ \t]*+#[ \t]*+define[ \t]++(\w++)[ \t]++([\d(][\w \t()*+<-]*+)$", re.M)


_REPEATS = re.compile(r"(?:n|num|max)?_?(?:iter|repeat|rep|warm|trial|loop|bench|run)\w*", re.I)
_STAYS = re.compile(
    r"(?:^|num_?|n)blocks?|block_?(?:s\b|size|dim|count)|bdim|thread|warp|tile|stage"  # of a launch
    r"|kernel|version|variant|mode|device|seed",  # a choice
    re.I,
)


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
        number, at = value_of(match[2], lambda name: None), match.start()
        is_local = any(first <= at < last and not on_device for first, last, on_device in spans)
        is_device = any(first <= at < last for first, last in device)
        if number is not None and abs(number) < MOST and (is_local or match[1] not in words) and not is_device:
            listed.append(Number(match[1], number, match.start(2), match.end(2)))
    return listed


def with_values(text: str, values: Mapping[str, int]) -> str:
    """The text with other values of its numbers. No line moves."""
    for number in sorted(numbers_of(text), key=lambda number: -number.first):
        if number.name in values:
            lines = "\n" * text.count("\n", number.first, number.last)
            text = f"{text[: number.first]}{values[number.name]}{lines}{text[number.last :]}"
    return text


def _of_blocks(text: str) -> set[str]:
    """The names behind the blocks and the templates of the launches."""
    found = set[str]()
    for launch in host_launches(text):
        open_names = set(re.findall(r"[A-Za-z_]\w*", f"{launch.block} {launch.entry.partition('<')[2]}"))
        while open_names:
            found |= open_names
            said = " ".join(variable(text, name, launch.line) for name in open_names)
            open_names = set(re.findall(r"[A-Za-z_]\w*", said)) - found
    macros = macros_of(text)
    return found.union(*(macros[name].words for name in found if name in macros))


def shrinking(text: str) -> dict[str, int]:
    """The numbers that may become smaller. A number below LEAST only of main(): others are mostly sizes of tiles."""
    numbers, fixed, found = numbers_of(text), _of_blocks(text), tokens(text)
    spans = [(found[f.first].start, found[f.last].end) for f in functions(text, found) if f.name == "main"]
    return {
        one.name: one.value
        for one in numbers
        if one.name not in fixed
        and not _STAYS.search(one.name)
        and (one.value >= LEAST or _REPEATS.fullmatch(one.name) or any(a <= one.first < b for a, b in spans))
    }


def tiles_of(text: str) -> list[int]:
    """The numbers of a text that may be the sizes of its tiles, the largest first."""
    sizes = {one.value for one in numbers_of(text) if _STAYS.search(one.name)} | {*constants_of(text).values()}
    for launch in host_launches(text):
        sizes |= {int(size) for size in re.findall(r"\b\d+\b", f"{launch.block} {launch.entry}")}
    return sorted((size for size in sizes if 1 < size <= MOST_TILE), reverse=True)


def reduced(values: Mapping[str, int], factor: float, tiles: Sequence[int] = ()) -> dict[str, int]:
    """The numbers, the largest ones halved until their product is smaller by a factor. Equal numbers stay equal.

    tiles: sizes of tiles, the largest first. A number leaves its multiples only if this is not enough."""
    repeats = {name for name, value in values.items() if _REPEATS.fullmatch(name) and value > REPEATS}
    found, total = {**values, **dict.fromkeys(repeats, REPEATS)}, 1.0
    for kept in (tiles, ()):
        stay = set[int]()
        while total < factor and (largest := max({*found.values()} - stay, default=0)) >= SMALL:
            if not _halves(largest, kept):
                stay.add(largest)
                continue
            for name, value in found.items():
                if value == largest:
                    found[name], total = value // 2, 2 * total
    return found


def _halves(value: int, tiles: Sequence[int]) -> bool:
    """Whether half of a number may take its place: of a large one, of a multiple of a tile, or of a small even one."""
    tile = next((size for size in tiles if not value % size), 1)
    small = value < LEAST_TILED or value // 2 >= LEAST_TILED and not value // 2 % tile
    return value >= LEAST or small and not value % 2


def _gains(ran: Ran, before: Ran) -> bool:
    return not before.whole or WORTH * ran.seconds <= before.seconds or WORTH * ran.bytes <= before.bytes


def _fits(ran: Ran, before: Ran | None) -> bool:
    """Whether a run with smaller numbers is no other one: it ends as the whole run before it, or else well."""
    wanted = before.code if before and before.whole else 0
    stopped = not ran.whole and ran.seconds <= MOST_SECONDS  # by a fault, which the smaller numbers may have made
    return ran.is_clear and ran.code == wanted and not stopped


def _excess(ran: Ran) -> float:
    """The factor by which a run is too large. A launch that a fault stopped is not."""
    is_late = not ran.whole and ran.seconds > MOST_SECONDS
    return max(ran.seconds / MOST_SECONDS, ran.bytes / MOST_BYTES, UNKNOWN if is_late else 1.0)


def runs(text: str, said: Mapping[str, int], run: Callable[[str, float], Ran]) -> tuple[Ran, dict[str, int]]:
    """A run of a program, and the numbers that differ from its text: those said, and smaller ones for a long run.

    run: of a text, with a limit in seconds or 0 for the usual one.
    Raises RunError for a program that does not end with smaller numbers either."""
    own = {number.name: number.value for number in numbers_of(text)}
    values, tiles = {name: value for name, value in shrinking(text).items() if name not in said}, tiles_of(text)
    kept: tuple[Ran, dict[str, int]] | None = None
    stopped: RunError | None = None
    limit = FIRST_SECONDS if reduced(values, 2.0, tiles) != values else 0.0
    for number in range(MOST_RUNS):
        changed, factor = {name: one for name, one in {**values, **said}.items() if own.get(name) != one}, 1.0
        try:
            ran = run(with_values(text, changed), limit)
            stopped = None
            if number and not (_fits(ran, kept and kept[0]) and (not kept or _gains(ran, kept[0]))):
                break  # the smaller numbers do not fit together, or help little
            kept, factor = (ran, changed), _excess(ran)
        except RunError as error:
            stopped, factor = error, 1.0 if kept else float(UNKNOWN)
        smaller = reduced(values, factor, tiles)
        if factor <= 1.0 or smaller == values:
            break
        values, limit = smaller, SECONDS
    if kept and (kept[0].whole or _excess(kept[0]) <= 1.0 or kept[1].keys() - said):
        return kept
    if stopped and not kept:
        raise stopped
    changed = {name: value for name, value in said.items() if own.get(name) != value}
    return run(with_values(text, changed), 0.0), changed  # its own numbers, with more time

"""What was chosen in other stories, under the names that a page has for it: a story is a lens on the same run."""

from collections.abc import Mapping

from app.choices import pages, places
from app.choices.asked import NONE, Asked, constant_name, kernel_name
from explainers.stories.tiling import tiling
from kernels.catalog import KERNELS
from kernels.core.launch import Constant
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError

CONSTANTS = {constant.name for spec in KERNELS.values() for constant in spec.constants}
PLACED = {
    "at_tile": pages.TILING,
    "at_query": pages.COMPARE,
    "at_item": pages.ANY_KERNEL,
}  # a place -> a page that has it


def translated(asked: Asked, chosen: Mapping[str, str]) -> dict[str, str]:
    """chosen: the choices of any stories, the newest last. What they say here: a kernel and its constants are the first
    side's; a what-if is a choice or a constant; a tile, a query and an item are places of the same rows."""
    if not asked.kernels:
        return dict(chosen)
    if "recorded" in asked.own and asked.own["recorded"].late:  # another page's counts other recordings
        chosen = {name: text for name, text in chosen.items() if name != "recorded"}
    found = _sides(asked, chosen)
    found = _what_ifs(asked, asked.spec_of(asked.read_link(found)[0]), found)
    return _places(asked, found)


def _newest(entries: list[tuple[str, str]]) -> dict[str, str]:
    """The last of each name, in the order in which the last ones came."""
    found: dict[str, str] = {}
    for name, text in entries:
        found.pop(name, None)
        found[name] = text
    return found


def _sides(asked: Asked, chosen: Mapping[str, str]) -> dict[str, str]:
    """One kernel is the first of two, and the first of two is the one."""
    first = asked.sides[0]
    entries = []
    for name, text in chosen.items():
        plain = name[2:] if name[:2] in ("a_", "b_") and name[2:] in CONSTANTS else name
        side = name[0] if plain != name else ""
        if not first and (name == "b" or side == "b"):
            continue  # the second kernel of two stays behind
        if name == kernel_name("") or name == "a":
            name = kernel_name(first)
        elif plain in CONSTANTS:
            name = constant_name(side if first and side else first, plain)
        entries.append((name, text))
    return _newest(entries)


def _what_ifs(asked: Asked, spec: KernelSpec, chosen: Mapping[str, str]) -> dict[str, str]:
    """The broken build of the first side: as one choice, or as the constant that it stands for."""
    side, entries = asked.sides[0], []
    by_name = {constant_name(side, c.name): c for c in spec.what_ifs}
    broken = NONE
    for name, text in chosen.items():
        if asked.one_what_if and name in by_name:
            is_broken = text != str(by_name[name].default)
            broken = name if is_broken else NONE if broken == name else broken
            entries.append(("what_if", broken))
        elif name == "what_if" and asked.one_what_if:
            broken = text
            entries.append((name, text))
        elif name == "what_if":
            entries += [(n, str(_value(c, broken=c.name == text))) for n, c in by_name.items()]
        else:
            entries.append((name, text))
    return _newest(entries)


def _value(constant: Constant, broken: bool) -> int:
    return next(v for v in constant.values if v != constant.default) if broken else constant.default


def _places(asked: Asked, chosen: dict[str, str]) -> dict[str, str]:
    """The newest place, as this page names the tile of that head that holds the same query."""
    named = [name for name in chosen if name in PLACED]
    if not named:
        return chosen
    newest, rest = named[-1], {name: text for name, text in chosen.items() if name not in PLACED}
    there, at = PLACED[newest], next((name for name in PLACED if name in asked.own), newest)
    try:
        before = there.read_link({**translated(there, rest), newest: chosen[newest]})[0]
        request = asked.request_of(asked.read_link(rest)[0])
        if at == newest or not all(tiling.accepts(kernel) for kernel in (there.spec_of(before), request.kernel)):
            return rest | {newest: chosen[newest]}  # the same number there
        return rest | _named(at, request, *places.traced(there, before))
    except ProblemError:
        return rest  # the page says what is wrong with the problem


def _named(at: str, request: Request, batch: int, head: int, query: int) -> dict[str, str]:
    size = places.room(request)
    tile = query // size.rows
    if at == "at_item":
        return {at: str((batch * size.heads + head) * size.tiles + tile)}
    number = tile if at == "at_tile" else query
    return {"at_batch": str(batch), "at_head": str(head), at: str(number)}

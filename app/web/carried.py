"""Translates the choices of other stories into the choices of a page: every story looks at the same run."""

from collections.abc import Mapping

from app.choices import places
from app.choices.choice import broken_value
from app.choices.links import read_link
from app.choices.page import NONE, Page, constant_name, kernel_name
from app.stories import any_kernel, compare, tiling
from explainers.models.tiling import accepts
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError

# A choice of a place -> a page that has it.
PLACES = {"at_tile": tiling.STORY, "at_query": compare.STORY, "at_item": any_kernel.STORY}


def translated(page: Page, chosen: Mapping[str, str]) -> dict[str, str]:
    """The choices of any stories, in the words of a page.

    chosen: the newest choices come last. A kernel and its constants go to the first side. A what-if is one choice or a
    constant. A tile, a query and an item are places of the same rows.
    """
    if not page.kernels:
        return dict(chosen)
    if "recorded" in page.own and page.own["recorded"].late:  # another page counts other recordings
        chosen = {name: text for name, text in chosen.items() if name != "recorded"}
    found = _sides(page, chosen)
    found = _what_ifs(page, page.kernel_of(read_link(page, found)[0]), found)
    return _places(page, found)


def _newest(entries: list[tuple[str, str]]) -> dict[str, str]:
    """The last value of each name, in the order of the last values."""
    found: dict[str, str] = {}
    for name, text in entries:
        found.pop(name, None)
        found[name] = text
    return found


def _sides(page: Page, chosen: Mapping[str, str]) -> dict[str, str]:
    """One kernel becomes the first of two, and the first of two becomes the one kernel."""
    first = page.sides[0]
    constants = page.catalog.constant_names
    entries = []
    for name, text in chosen.items():
        plain = name[2:] if name[:2] in ("a_", "b_") and name[2:] in constants else name
        side = name[0] if plain != name else ""
        if not first and (name == "b" or side == "b"):
            continue  # a page of one kernel drops the second kernel
        if name == kernel_name("") or name == "a":
            name = kernel_name(first)
        elif plain in constants:
            name = constant_name(side if first and side else first, plain)
        entries.append((name, text))
    return _newest(entries)


def _what_ifs(page: Page, kernel: KernelSpec, chosen: Mapping[str, str]) -> dict[str, str]:
    """The what-if build of the first side, as one choice or as its constant."""
    by_name = {constant_name(page.sides[0], constant.name): constant for constant in kernel.what_ifs}
    entries: list[tuple[str, str]] = []
    what_if = NONE
    for name, text in chosen.items():
        if page.one_what_if and name in by_name:
            if text != str(by_name[name].default):
                what_if = name
            elif what_if == name:
                what_if = NONE
            entries.append(("what_if", what_if))
        elif name == "what_if" and page.one_what_if:
            what_if = text
            entries.append((name, text))
        elif name == "what_if":
            for own_name, constant in by_name.items():
                value = broken_value(constant) if constant.name == text else constant.default
                entries.append((own_name, str(value)))
        else:
            entries.append((name, text))
    return _newest(entries)


def _places(page: Page, chosen: dict[str, str]) -> dict[str, str]:
    """The newest place, as this page names the tile of that head with the same query."""
    named = [name for name in chosen if name in PLACES]
    if not named:
        return chosen
    newest, rest = named[-1], {name: text for name, text in chosen.items() if name not in PLACES}
    own = next((name for name in PLACES if name in page.own), newest)
    source = PLACES[newest].page(page.catalog)
    try:
        state, _ = read_link(source, {**translated(source, rest), newest: chosen[newest]})
        request = page.request_of(read_link(page, rest)[0])
        if own == newest or not accepts(source.kernel_of(state)) or not accepts(request.kernel):
            return rest | {newest: chosen[newest]}  # the same number
        size, (batch, head, query) = places.room(request), places.traced(source, state)
    except ProblemError:
        return rest  # the page reports the error of the problem
    tile = query // size.rows
    if own == "at_item":
        return rest | {own: str((batch * size.heads + head) * size.tiles + tile)}
    return rest | {"at_batch": str(batch), "at_head": str(head), own: str(tile if own == "at_tile" else query)}

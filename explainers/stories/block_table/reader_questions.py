"""Questions about the query heads of one KV head or one page."""

from collections.abc import Sequence

from explainers.stories.block_table.page_counts import Reads
from explainers.stories.block_table.page_reads import often
from explainers.stories.block_table.walk_types import HeadsPanel
from explainers.story.glossary import count, figure
from explainers.story.questions import Where, amounts, idea, options
from explainers.story.stage import Question


def heads(panels: Sequence[HeadsPanel], num_heads: int, by_head: Sequence[int], view: str) -> list[Question]:
    """Returns the questions about the gain of grouped queries.

    panels: ratios of heads, each with the bytes of its own run.
    by_head: requested bytes of each query head.
    """
    if len({panel["held"] for panel in panels}) < 2:
        return []
    return [_saved(panels, num_heads, view), _traffic(panels, num_heads, by_head, view)]


def _ends(panels: Sequence[HeadsPanel]) -> tuple[HeadsPanel, HeadsPanel, int]:
    """The panels with the most and the least bytes, and how many times more the first one has."""
    full, least = (max(panels, key=lambda p: p["held"]), min(panels, key=lambda p: p["held"]))
    return full, least, round(full["held"] / least["held"])


def _saved(panels: Sequence[HeadsPanel], num_heads: int, view: str) -> Question:
    full, least, times = _ends(panels)
    kv_heads = count(least["kv_heads"], "KV head")
    return idea(
        "check_grouped",
        f"{num_heads} query heads share {kv_heads}. How much does that save?",
        f"The cache needs {times} times fewer bytes",
        {
            f"The kernel does {times} times fewer products": (
                "Each query head still multiplies with every key, of its own KV head or of a shared one."
            ),
            f"The cache needs {times * times} times fewer bytes: {times} for K, and {times} for V": (
                f"K and V both shrink, and so does their sum: from {full['held']:,} to {least['held']:,} bytes."
            ),
            "No memory: only the order of the reads changes": (
                f"The runs fill {full['held']:,} bytes without sharing and {least['held']:,} with it."
            ),
        },
        f"The tokens fill {least['held']:,} bytes in place of {full['held']:,}. "
        f"A server then holds {times} times as many tokens in the same memory.",
        view=view,
        hides=[f"{panel['held']:,}" for panel in panels],
        covers=[{"part": "size"}],
    )


def _traffic(panels: Sequence[HeadsPanel], num_heads: int, by_head: Sequence[int], view: str) -> Question:
    *_, times = _ends(panels)
    return idea(
        "same_reads",
        "How does sharing change the bytes of K and V that the query heads ask for?",
        "As many as before, as each query head has its own block",
        {
            f"{times} times fewer, like the cache": (
                f"Each query head still asks for {by_head[0]:,} bytes. It reads a key that others read, too."
            ),
            f"{times} times more: each key is read more often": (
                f"Each key is read {times} times, but {times} times fewer keys exist."
            ),
        },
        f"{num_heads} query heads ask for {sum(by_head):,} bytes with any sharing. "
        "L2 can answer the repeated reads. A kernel that gives a whole group to one block asks for fewer.",
        step=len(by_head) - 1,
        view=view,
        hides=[f"{sum(by_head[: n + 1]):,}" for n in range(len(by_head))],
        veils=("sentence", "strip"),
    )


def page_reads(found: Sequence[Reads], view: str) -> list[Question]:
    """Questions about the reads of a page by several kernels: one read for all query heads, or one for each head."""
    shared = max(range(len(found)), key=lambda n: float(found[n].times.max()))
    last = _times_of_busiest_page(found[shared], shared, view)
    return [*_fewest_bytes(found, shared, view), *_busiest_page(found[shared], shared, view), *last]


def _times_of_busiest_page(one: Reads, row: int, view: str) -> list[Question]:
    """How many times the kernel asks for each byte of its busiest page."""
    page = int(one.times.argmax())
    who = sum(1 for bytes_ in one.asked[:, page] if bytes_)
    asked_for, distinct = int(one.page_asked[page]), int(one.page_distinct[page])
    text = (
        f"{one.kernel} with {one.heads}: {count(who, 'reader')} {'reads' if who == 1 else 'read'} page {page}. How "
        "many times does the kernel ask for each of its bytes?"
    )
    each = often(asked_for / distinct)
    why = f"The kernel asks for {asked_for:,} bytes of the page. The page has {distinct:,}, so {each} each."
    wrong = [1, who // 2, 2 * who, who + 1]
    all_pages = figure(int(one.page_asked.sum()) / int(one.page_distinct.sum()))
    answers: Where = {
        "step": row,
        "view": view,
        "hides": [each, figure(float(one.times.max())), all_pages],
        "covers": [{"row": row, "page": page}, *({"reader": n, "page": page} for n in range(len(one.asked)))],
        "shows": {"row": row, "page": page},
        "veils": ("tabs",),
    }
    return amounts("page_times", text, asked_for // distinct, wrong, why, "times", **answers)


def _fewest_bytes(found: Sequence[Reads], row: int, view: str) -> list[Question]:
    """Which kernel with the same heads asks for the fewest bytes, if one asks for fewer than that of the row."""
    one = found[row]
    others = [n for n, other in enumerate(found) if other.heads == one.heads]
    totals = {n: int(found[n].page_asked.sum()) for n in others}
    least = min(others, key=lambda n: totals[n])
    if totals[least] >= totals[row]:
        return []
    low = found[least]
    text = (
        f"With {one.heads}, {one.kernel} asks for {totals[row]:,} bytes of K and V. Which kernel asks for the "
        "fewest of the same cache?"
    )
    why = (
        f"{low.kernel} asks for {totals[least]:,} bytes, {figure(totals[row] / totals[least])} times fewer. "
        f"It reads its busiest page {often(low.times.max())}, and {one.kernel} reads one {often(one.times.max())}."
    )
    same = [found[n].kernel for n in others if totals[n] == totals[least]]
    wrong = [found[n].kernel for n in others if found[n].kernel not in same]
    hides = [f"{total:,}" for total in totals.values()]  # the picture shows how often, not how much
    where: Where = {"step": least, "view": view, "hides": hides, "veils": ("tabs",)}
    return options("fewest", text, low.kernel, wrong, why, **where)


def _busiest_page(one: Reads, row: int, view: str) -> list[Question]:
    """A click on the busiest page, if these pages are neighbours."""
    busiest = [n for n, mean in enumerate(one.times) if mean == one.times.max()]
    if busiest != list(range(busiest[0], busiest[-1] + 1)) or len(busiest) >= int((one.most > 0).sum()):
        return []
    text = f"Click a page that {one.kernel} with {one.heads} reads more often than any other, in its own row."
    why = f"Page {busiest[0]}: each byte {often(one.times.max())}."
    key = {"row": row, "page": [busiest[0], busiest[-1]]}
    hides = [f"page {busiest[0]}"]
    return [Question("busiest", text, "click", key, why, step=row, view=view, hides=hides)]

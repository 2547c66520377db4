"""Questions about the query heads of one KV head or one page."""

from collections.abc import Sequence

from explainers.stories.block_table.page_counts import Reads
from explainers.stories.block_table.page_reads import often
from explainers.stories.block_table.walk_types import HeadsPanel
from explainers.story.glossary import count, figure
from explainers.story.questions import amounts, options
from explainers.story.stage import Question


def heads(panels: Sequence[HeadsPanel], num_heads: int, view: str = "heads") -> list[Question]:
    """Questions about the gain of grouped queries.

    panels: ratios of heads, each with the bytes of its own run.
    """
    shared = next((p for p in panels if 1 < p["kv_heads"] < num_heads), None)
    shared = shared or next((p for p in panels if p["kv_heads"] < num_heads), panels[0])
    kv, store = shared["kv_heads"], shared["links"][0][1]
    readers = [str(q) for q, s in shared["links"] if s == store]
    why = (
        f"As logged, KV head {store} is read by query heads {', '.join(readers)}: {num_heads} over "
        f"{count(kv, 'KV head')}."
    )
    text = f"{num_heads} query heads and {count(kv, 'KV head')}. How many query heads read the same KV head?"
    wrong = [kv, num_heads, 1, 2 * len(readers)]
    veils = ("sentence", "tabs")
    found = amounts("sharing", text, len(readers), wrong, why, "query heads", view=view, veils=veils)
    full, least = (max(panels, key=lambda p: p["held"]), min(panels, key=lambda p: p["held"]))
    if full["held"] > least["held"]:
        a, b = full["held"], least["held"]
        why = (
            f"The runs hold {a:,} bytes of K and V with {count(full['kv_heads'], 'KV head')} and {b:,} with "
            f"{least['kv_heads']}: {a / b:.3g} times fewer bytes to keep, and each is read by more heads."
        )
        text = (
            f"With {count(full['kv_heads'], 'KV head')} these tokens fill {a:,} bytes of K and V. How many with "
            f"{count(least['kv_heads'], 'KV head')} for the same {num_heads} query heads?"
        )
        wrong = [a, a // 2, b // 2, a - b]
        found += amounts("saved", text, b, wrong, why, "bytes", view=view, veils=(*veils, "strip", "picture"))
    return found


def page_reads(found: Sequence[Reads], view: str) -> list[Question]:
    """Questions about the reads of a page by several kernels: one read for all query heads, or one for each head."""
    shared = max(range(len(found)), key=lambda n: float(found[n].times.max()))
    one = found[shared]
    page = int(one.times.argmax())
    who = sum(1 for bytes_ in one.asked[:, page] if bytes_)
    asked_for, distinct = int(one.page_asked[page]), int(one.page_distinct[page])
    veils = ("sentence", "strip", "picture", "tabs")
    text = (
        f"{one.kernel} with {one.heads}: {count(who, 'reader')} {'reads' if who == 1 else 'read'} page {page}. How "
        "many times is each byte of K and V asked for that lies there?"
    )
    why = f"{asked_for:,} bytes of it are asked for and {distinct:,} differ: {often(asked_for / distinct)} each."
    wrong = [1, who // 2, 2 * who, who + 1]
    times = asked_for // distinct
    last = amounts("page_times", text, times, wrong, why, "times", step=shared, view=view, veils=veils)
    made: list[Question] = []
    others = [n for n, other in enumerate(found) if other.heads == one.heads]
    totals = {n: int(found[n].page_asked.sum()) for n in others}
    least = min(others, key=lambda n: totals[n])
    if totals[least] < totals[shared]:
        low = found[least]
        text = (
            f"With {one.heads}, {one.kernel} asks for {totals[shared]:,} bytes of K and V. Which kernel asks for the "
            "fewest of the same cache?"
        )
        why = (
            f"{low.kernel} asks for {totals[least]:,} bytes, {figure(totals[shared] / totals[least])} times fewer: "
            f"its busiest page is read {often(low.times.max())}, where {one.kernel} reads one {often(one.times.max())}."
        )
        same = [found[n].kernel for n in others if totals[n] == totals[least]]
        wrong_kernels = [found[n].kernel for n in others if found[n].kernel not in same]
        text_veils = ("sentence", "strip", "tabs")  # the picture says how often, not how much
        made += options("fewest", text, low.kernel, wrong_kernels, why, step=least, view=view, veils=text_veils)
    busiest = [n for n, mean in enumerate(one.times) if mean == one.times.max()]
    if len(busiest) == 1 or busiest == list(range(busiest[0], busiest[-1] + 1)):
        text = f"Click a page that {one.kernel} with {one.heads} reads more often than any other, in its own row."
        why = f"Page {page}: each byte {often(one.times.max())}."
        key = {"row": shared, "page": [busiest[0], busiest[-1]]}
        if len(busiest) < int((one.most > 0).sum()):
            row_veils = ("sentence", "strip")
            made.append(Question("busiest", text, "click", key, why, step=shared, view=view, veils=row_veils))
    return [*made, *last]  # This question veils the picture, so it does not come first.

"""Questions about a walk through a block table, partitions of a context, and ranges of a work list."""

from collections.abc import Sequence

from explainers.stories.block_table import paging
from explainers.stories.block_table.paging import Paged
from explainers.stories.block_table.walk_types import PartitionsMeta, WalkFrame
from explainers.story.glossary import count
from explainers.story.questions import Where, amounts, options
from explainers.story.stage import MEASURED, Question, Stage
from kernels.run.results import Run


def walk(run: Run, frames: Sequence[WalkFrame], partition: int) -> list[Question]:
    """Questions about a walk: an access through the block table, the two phases, the partitions of the context, and
    shared heads.

    partition: tokens of a partition.
    """
    paged = Paged(run.request)
    sequence, head = paged.place
    length, size, table = int(paging.lengths(run)[sequence]), paged.block_size, paging.pages_of(run, sequence)
    steps = [n for n, f in enumerate(frames) if "page" in f]
    if not steps:
        return []
    astray = [n for n in steps if frames[n]["page"] != frames[n]["logical"] and frames[n].get("role") == "k"] or steps
    step = astray[len(astray) // 2]
    now = frames[step]
    token, page = now["tokens"][0], now["page"]
    why = (
        f"Token {token} is in entry {token} / {size} = {now['logical']} of the block table, and that entry says page "
        f"{page}: its K is read from byte {now['base']:,} on."
    )
    text = (
        f"To score token {token} the kernel needs its key. It reads entry {now['logical']} of the block table. "
        "Which page does it go to?"
    )
    where: Where = {"step": step, "view": "walk", "veils": ("sentence", "strip")}
    found = amounts("indirect", text, page, [now["logical"], *table, page + 1], why, **where)
    found += _page_of(run, frames, [n for n in steps if n != step and frames[n].get("role") == "k"])
    found += _phases(frames, steps, length, size, len(table))
    return [*found, *_cut(length, partition, steps[0]), *_shared(paged, head, frames, steps[0])]


def _phases(frames: Sequence[WalkFrame], steps: Sequence[int], length: int, size: int, entries: int) -> list[Question]:
    """The two phases of a walk, and its look-ups of the block table.

    steps: the steps with a page.
    length, size, entries: tokens of the context, slots of a page, entries of the block table.
    """
    extra = len(steps)
    by_role = {role: sum(1 for n in steps if frames[n].get("role") == role) for role in ("k", "v")}
    if not all(by_role.values()):
        return []
    first_v = next(n for n in steps if frames[n].get("role") == "v")
    why = (
        f"First K: {count(by_role['k'], 'page')} for {length} scores. Then the softmax over all of them. Only then "
        f"V: {count(by_role['v'], 'page')}, from step {first_v + 1} on. The weights must be known before a value "
        "can count."
    )
    text = (
        f"The walk has two phases: {by_role['k']} pages of K, and later {by_role['v']} pages of V. What lies between?"
    )
    right = f"The softmax over all {length} scores"
    wrong = [
        "A second block table, of the values",
        f"The softmax over the {size} scores of one page",
        "Nothing: K and V of a page are read together",
    ]
    found = options("phases", text, right, wrong, why, step=first_v, view="walk")
    why = (
        f"{entries} entries, each looked up once for K and once for V: {extra} look-ups of {2 * entries} that a "
        f"context of {length} tokens has."
    )
    text = (
        f"This context fills {count(entries, 'page')}. How many times does this walk look a page up in the block "
        "table, over both phases?"
    )
    found.append(Question("lookups", text, "number", extra, why, step=steps[-1], unit="look-ups", view="walk"))
    return found


def _page_of(run: Run, frames: Sequence[WalkFrame], steps: Sequence[int]) -> list[Question]:
    """A click on the page of a token, in the last of these steps."""
    if not steps:
        return []
    frame, size = frames[steps[-1]], Paged(run.request).block_size
    first, last = frame["tokens"]
    text = f"Click the page of the pool in which token {last} lies."
    why = (
        f"Page {frame['page']} holds tokens {first} to {last}: token {last} is in entry {last} / {size} = "
        f"{frame['logical']} of the block table, and that entry says page {frame['page']}."
    )
    key = {"token": [first, last], "part": "pool"}
    return [Question("page_of", text, "click", key, why, step=steps[-1], view="walk", veils=("sentence", "strip"))]


def _cut(length: int, partition: int, step: int) -> list[Question]:
    parts = -(-length // partition)
    why = (
        f"{length} tokens in partitions of {partition}: {parts}, a block each, and a second launch that puts their "
        f"sums together. V1 has one block for all {length} tokens. V1 beside V2 shows both on one clock."
    )
    text = (
        f"PagedAttention V2 cuts a long context into partitions of {partition} tokens, each walked by a block of its "
        f"own. How many blocks would walk this one of {length} tokens?"
    )
    return [Question("cut", text, "number", parts, why, step=step, unit="blocks", view="walk")]


def _shared(paged: Paged, head: int, frames: Sequence[WalkFrame], step: int) -> list[Question]:
    heads, kv_heads = paged.num_heads, paged.num_kv_heads
    mine, own = paged.kv_head_of(head), heads // kv_heads
    if own == 1:
        return []
    first = frames[step]["page"] * kv_heads * paged.page_bytes
    why = (
        f"Query head {head} reads from byte {frames[step]['base']:,} of the cache, {frames[step]['base'] - first:,} "
        f"bytes into the page: KV head {mine}. {heads} query heads over {kv_heads} KV heads make {own} for each, so "
        f"the cache holds {own} times fewer bytes than with a KV head for every query head."
    )
    text = (
        f"{heads} query heads share {kv_heads} KV heads, and this walk is query head {head}'s. How many query heads "
        "read these very bytes of K and V?"
    )
    return [Question("grouped", text, "number", own, why, step=step, unit="query heads", view="walk")]


def partitions(made: Stage, size: int) -> list[Question]:
    """Questions about the partitions of V2 and their merge.

    size: tokens of a partition.
    """
    meta: PartitionsMeta = made.views[0].meta
    parts, length, view = meta["parts"], meta["length"], made.views[0].id
    frames = made.frames
    done = next((n for n, f in enumerate(frames) if f["reduce"] is not None), len(frames) - 1)
    spans = ", ".join(f"{p['first']} to {p['end'] - 1}" for p in parts[:4]) + (" ..." if len(parts) > 4 else "")
    why = (
        f"{length} tokens in partitions of {size} make {len(parts)}: tokens {spans}. Each has a block of its own; "
        "V1 has one block for all."
    )
    text = (
        f"V2 cuts this context of {length} tokens into partitions of {size}. How many blocks walk it at the same time?"
    )
    veils = ("sentence", "strip", "picture", "tabs")
    found = [Question("blocks", text, "number", len(parts), why, unit="blocks", view=view, veils=veils)]
    if len(parts) > 1:
        top = max(parts, key=lambda p: p["weight"])
        low = min(parts, key=lambda p: p["weight"])
        m = meta["v2"]["m"]
        factor = f"e^({low['m']:.4g} - {m:.4g}) = {low['weight']:.4g}".replace("- -", "+ ")
        why = (
            f"Each partition counted against its own max: partition {top['partition']} against {top['m']:.4g}, "
            f"partition {low['partition']} against {low['m']:.4g}. With m = {m:.4g} of all, the latter weighs {factor}."
        )
        right = "Its own max m, its own sum l, and its part of O"
        wrong = ["Its scores", "Its part of O only: they add up", "Nothing: the blocks wait for one another"]
        text = "The blocks of V2 know nothing of one another. What must each leave behind for the second launch?"
        found += options("combine", text, right, wrong, why, step=done, view=view, veils=(*veils, "headline"))
    return found


def ranges(made: Stage) -> list[Question]:
    """Questions about a work list: its equal ranges, and the merge of a sequence."""
    meta, view = made.views[0].meta, made.views[0].id
    own, units, name = meta["lists"][-1], meta["units"], meta["names"][meta["sequence"]]
    pages, cut = len(own["cells"]), own["ranges"]
    longest = max(sum(u[3] for u in own["units"] if u[1] == r) for r in range(cut))
    veils = ("sentence", "strip", "picture", "tabs")
    text = (
        f"{count(pages, 'page')} stand end to end and are cut into {count(cut, 'range')} that are equal within a page. "
        "How many pages has the longest?"
    )
    why = f"{pages} / {cut} = {pages / cut:.4g}, so no range has more than {longest}: no block waits long for another."
    most = max(sum(1 for c in own["cells"] if c[0] == s) for s in {c[0] for c in own["cells"]})
    wrong = [most, pages, longest + 1, cut]
    counted = ("sentence", "strip", "tabs")  # a reader can count the pages of a range in the picture
    found = amounts("longest", text, longest, wrong, why, "pages", step=0, view=view, veils=counted)
    if len(units) > 1 and "weight" in units[0]:
        low = min(units, key=lambda u: u["weight"])
        step = next(n for n, f in enumerate(made.frames) if f.get("merged"))
        text = (
            f"{name} is in {len(units)} pieces. Partition {low['partition']} has m = {low['m']:.4g}, and the largest m "
            f"of all is {meta['merged']['m']:.4g}. By what is its l multiplied when they are merged?"
        )
        power = f"e^({low['m']:.4g} - {meta['merged']['m']:.4g}) = {low['weight']:.4g}".replace("- -", "+ ")
        why = f"{power}; the trace has it as its weight."
        key = float(f"{low['weight']:.3g}")
        found.append(
            Question("weight", text, "number", key, why, step=step, view=view, tolerance=MEASURED, veils=veils)
        )
    return found

"""Questions about the pool of pages and about served requests."""

from explainers.story import glossary
from explainers.story.glossary import count
from explainers.story.questions import Where, amounts, idea
from explainers.story.stage import Question, Stage


def pool(made: Stage) -> list[Question]:
    """Questions about the waste of paging and of contiguous slots."""
    frames, meta = made.frames, made.views[0].meta
    size, last = meta["size"], len(frames) - 1
    usage, sequences = frames[last]["usage"], frames[last]["sequences"]
    if not sequences:
        return []
    longest = max(sequences, key=lambda s: s["length"])
    pages = len(longest["table"])
    at = longest["length"] - 1
    entry, page = at // size, longest["table"][at // size]
    why = f"Token {at} is in entry {at} / {size} = {entry} of the block table. The entry names page {page}."
    text = f"{longest['name']} has {longest['length']} tokens, and a page has {size} slots. Which page has token {at}?"
    wrong = [entry, at // size + 1, *longest["table"], *(s["table"][-1] for s in sequences)]
    view = made.views[0].id
    found = amounts("which_page", text, page, wrong, why, step=last, view=view)
    why = (
        f"The pages have {usage['held']} slots for {usage['used']} tokens. The rest is less than a page for each "
        f"sequence. With {meta['max_len']} slots reserved for each, it would be {usage['reserved']}."
    )
    text = (
        f"After the last event, {count(len(sequences), 'sequence')} of at most {meta['max_len']} tokens are in the "
        "cache. How many slots do their pages have?"
    )
    wrong = [usage["reserved"], usage["used"], pages * size, usage["held"] + size]
    # The two parts of its bar, and its sum.
    hides = [f"{usage['used']} used", f"{usage['slack']} empty", f"{usage['held']:,}", frames[last]["waste"]]
    where: Where = {"step": last, "view": view, "hides": hides, "veils": ("tabs",)}
    return [*found, *amounts("held", text, usage["held"], wrong, why, "slots", **where)]


def serving(made: Stage) -> list[Question]:
    """Returns the questions about served requests: their number at once, and the copies of a fork."""
    return [*_at_once(made), *_fork(made), *_waiting(made)]


def _at_once(made: Stage) -> list[Question]:
    """The question on more requests than a server without pages holds."""
    meta, frames = made.views[0].meta, made.frames
    answered = {visit["name"] for visit in meta["visits"] if visit["answer"]}
    present = [sum(s["name"] in answered for s in frame["sequences"]) for frame in frames]
    max_len, pool = meta["max_len"], len(frames[0]["free"])
    forked = [visit["start"] for visit in meta["visits"] if not visit["prompt"] and visit["parent"]]
    until = min(forked, default=len(frames))  # the next question is on the first fork, so none is in sight yet
    most = max(present[:until])
    step = until - 1 if forked and present[until - 1] == most else present.index(most)
    reserved = pool * meta["size"] // max_len
    if most <= reserved:
        return []
    usage = frames[step]["usage"]
    tables = [sequence["table"] for sequence in frames[step]["sequences"]]
    needed, held = sum(map(len, tables)), len({page for table in tables for page in table})
    right, sharing = "A request takes a page only when its tokens need it", ""
    if needed > held:
        right = "Pages are taken when tokens need them, and equal pages are shared"
        sharing = (
            f" They use {count(held, 'page')}. Without sharing, they would need {needed}, and the pool has {pool}."
        )
    return [
        idea(
            "at_once",
            f"A server that reserves {max_len} slots for each request holds {count(reserved, 'request')} here. "
            "Why do pages hold more?",
            right,
            {
                "A token needs fewer bytes in a page": "A token has one slot in both, for one key and one value.",
                "Requests without room are refused": (
                    f"All {len(answered)} requests are served. A request without room waits."
                ),
                "Old tokens leave the cache": (
                    f"A request keeps all its tokens to its end: {usage['used']} slots are in use in step {step}."
                ),
            },
            f"In step {step} the pool holds {most} requests. Only {count(usage['slack'], 'slot')} are empty, "
            f"less than a page for each.{sharing}",
            step=step,
            view=made.views[0].id,
            hides=["nothing is copied yet", "all pages shared"],  # a later question asks for it
        )
    ]


def _fork(made: Stage) -> list[Question]:
    """The question on the pages that a fork copies: none, until a sequence writes into a shared page."""
    meta, frames = made.views[0].meta, made.frames
    visit = next((visit for visit in meta["visits"] if not visit["prompt"] and visit["parent"]), None)
    if not visit:
        return []
    step, name, parent = visit["start"], visit["name"], visit["parent"]
    pages = next(s["table"] for s in frames[step]["sequences"] if s["name"] == name)
    later = range(step + 1, len(frames))
    copied = next((n for n in later if any(source == pages[-1] for source, _ in frames[n]["copied"])), None)
    write = f" In step {copied} somebody writes into it, and only then it is copied." if copied else ""
    return [
        idea(
            "fork",
            f"{name} is a second answer, a fork of {parent} with {count(len(pages), 'page')}. Which data does it copy?",
            f"Only the block table, {len(pages)} page numbers",
            {
                f"All {len(pages)} pages": (
                    f"Both block tables name pages {glossary.listed([str(page) for page in pages])} after step {step}."
                ),
                "Only the last page, which is not full": (f"The last page is shared, too.{write}"),
                f"The prompt of {parent}, to compute it again": "A key and a value are computed once and stay.",
            },
            f"{name} shares all pages of {parent}, so a second answer costs no memory at first.",
            step=step,
            view=made.views[0].id,
            hides=["all pages shared", "nothing is copied yet", "shares its pages", f"{parent}, {name}"],
            shows={"request": name, "step": step},
            covers=[{"page": page} for page in pages],  # their stripes have the colours of both
        )
    ]


def _waiting(made: Stage) -> list[Question]:
    """The question on a request that waits though pages are free."""
    meta, frames = made.views[0].meta, made.frames
    step = next((n for n, f in enumerate(frames) if f["waiting"] and f["free"]), None)
    if step is None:
        return []
    name, free = frames[step]["waiting"][0], count(len(frames[step]["free"]), "page")
    start = next(visit["start"] for visit in meta["visits"] if visit["name"] == name)
    return [
        idea(
            "waits",
            f"In step {step}, {free} {'is' if len(frames[step]['free']) == 1 else 'are'} free. Why does {name} wait?",
            "The running requests may need these pages for their next tokens",
            {
                "The free pages are not neighbours": "Pages need no order: the block table names each page.",
                "Its prompt waits for the other prompts": "Only memory counts here. A prompt is prefilled in one step.",
                "A page is cleaned before its next use": "A free page is used as it is: new tokens overwrite it.",
            },
            f"A running request without a page would stop in the middle of its answer. {name} starts in step {start}, "
            "after pages came back. A server such as vLLM takes the risk, and computes a stopped request again.",
            step=step,
            view=made.views[0].id,
            hides=["the others may take", "as soon as free pages up to its last token are certain"],
        )
    ]

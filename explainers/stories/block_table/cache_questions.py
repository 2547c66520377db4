"""Questions about the pool of pages and about served requests."""

from explainers.story import glossary
from explainers.story.glossary import count
from explainers.story.questions import amounts
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
    why = (
        f"Token {at} is in logical block {at} / {size} = {entry}; entry {entry} of {longest['name']}'s block table is "
        f"page {page}, slot {at % size} of it. The pages of the sequence are {', '.join(map(str, longest['table']))}."
    )
    text = (
        f"{longest['name']} has {longest['length']} tokens; a page has {size} slots. In which page does its token {at} "
        "lie?"
    )
    wrong = [entry, at // size + 1, *longest["table"], *(s["table"][-1] for s in sequences)]
    view = made.views[0].id
    found = amounts("which_page", text, page, wrong, why, step=last, view=view)
    why = (
        f"Pages in use have {usage['held']} slots, and {usage['used']} hold a token: {usage['slack']} are slack, "
        f"always less than a page for each sequence. With {meta['max_len']} slots reserved for each it would be "
        f"{usage['reserved']}."
    )
    text = (
        f"How many slots are held in pages after the last event, for {count(len(sequences), 'sequence')} of at most "
        f"{meta['max_len']} tokens?"
    )
    wrong = [usage["reserved"], usage["used"], pages * size, usage["held"] + size]
    veils = ("strip", "picture", "tabs")
    return [*found, *amounts("held", text, usage["held"], wrong, why, "slots", step=last, view=view, veils=veils)]


def serving(made: Stage) -> list[Question]:
    """Questions about served requests: the slots that a step writes, the pages of a waiting request, and reserved
    slots."""
    meta, frames = made.views[0].meta, made.frames
    view, size = made.views[0].id, meta["size"]
    prefills = [n for n, frame in enumerate(frames) if "prefilled:" in frame["sentence"]]
    both = [n for n in prefills if "a token" in frames[n]["sentence"]]
    step = max(both or prefills, key=lambda n: len(frames[n]["new"]))
    written = len(frames[step]["new"])
    starts = [visit for visit in meta["visits"] if visit["start"] == step and visit["prompt"]]
    prompts = sum(visit["prompt"] for visit in starts)
    decoding = written - prompts
    names, one = glossary.listed([visit["name"] for visit in starts]), len(starts) == 1
    text = (
        f"In step {step}, {names} {'is' if one else 'are'} prefilled with {count(prompts, 'token')}, and "
        f"{count(decoding, 'sequence')} {'decodes' if decoding == 1 else 'decode'}. How many tokens' K and V does the "
        "step write?"
    )
    why = (
        f"{prompts} of the {'prompt' if one else 'prompts'}, all at once, and one for each sequence that decodes: "
        f"{prompts} + {decoding} = {written}."
    )
    wrong = [prompts, decoding, prompts * max(2, decoding), written + decoding]
    veils = ("sentence", "strip", "tabs")
    found = amounts("written", text, written, wrong, why, "tokens", step=step, view=view, veils=veils)
    last = len(frames) - 1
    usage, present = frames[last]["usage"], frames[last]["sequences"]
    own = max(present, key=lambda s: len(s["table"]) * size - s["length"])
    empty = len(own["table"]) * size - own["length"]
    text = (
        f"After the last step {own['name']} has {count(own['length'], 'token')} in {count(len(own['table']), 'page')} "
        f"of {size} slots. How many slots of its last page are empty?"
    )
    why = (
        f"{len(own['table'])} x {size} = {len(own['table']) * size} slots, {own['length']} of them filled. All last "
        f"pages together waste {count(usage['slack'], 'slot')}; {meta['max_len']} reserved for each would leave "
        f"{usage['empty']} empty."
    )
    wrong = [size, own["length"] % size, meta["max_len"] - own["length"], usage["slack"]]
    found += amounts("last_page", text, empty, wrong, why, "slots", step=last, view=view, veils=(*veils, "picture"))
    pool = len(frames[0]["free"]) * size
    most = max(len(frame["sequences"]) for frame in frames)
    text = (
        f"The pool has {pool} slots. A server without pages reserves {meta['max_len']} for each sequence. How many can "
        "it hold at once?"
    )
    pages = f"With pages it holds up to {count(most, 'sequence')} at once."
    why = f"{pool} / {meta['max_len']}: {pool // meta['max_len']}. {pages}"
    wrong = [most, len(meta["visits"]), pool // meta["max_len"] + 1]
    return [*found, *amounts("at_once", text, pool // meta["max_len"], wrong, why, "sequences", view=view, veils=veils)]

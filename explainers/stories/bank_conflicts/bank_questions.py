"""Questions about the banks of one access: the cost of a conflict, its remedy, and the bank of a word."""

from explainers.stories.bank_conflicts.bank_walk import Story, explain, reason_said, served_said
from explainers.stories.bank_conflicts.frames import BankSide
from explainers.story.frames import BankAccess
from explainers.story.glossary import count
from explainers.story.questions import idea
from explainers.story.stage import Question
from kernels.run.results import Run
from kernels.trace.memory import model
from kernels.trace.memory.traced import Place

AT_ONCE = "All at once: each bank serves one word"
ONE_BY_ONE = "One word at a time: one bank holds them all"
IN_TURNS = "In a few turns: some words share a bank"


BELOW = {"word": [model.BANKS, 2**40]}  # the words under the first row of a tile


def questions(story: Story, cycles: str = "") -> list[Question]:
    """The questions about the first access. The trace has the keys. cycles: its cycles, as in the strip."""
    if not story.frames or not story.sides[0]["accesses"][0]["cells"]:
        return []
    hides = [*_hidden(story.sides), cycles] if cycles else _hidden(story.sides)
    remedy = [_remedy(story, hides)] if len(story.sides) > 1 else []
    return [_service(story.sides, hides), *remedy, _bank_of(story.sides[0])]


def swizzle(padded: Run, swizzled: Run, at: Place | None, view: str = "memory") -> list[Question]:
    """The question on a swizzle, the remedy without unused words. Empty unless both remedies end the conflict.

    at: see `explain`.
    view: the picture of the swizzled tile.
    """
    walks = [explain([run], at).sides[0]["accesses"] for run in (padded, swizzled)]
    sizes = [run.request.plan.launches[0].shared_bytes for run in (padded, swizzled)]
    if not all(walks) or sizes[1] >= sizes[0] or any(walk[0]["wavefronts"] > walk[0]["ideal"] for walk in walks):
        return []
    taken = count(walks[1][0]["wavefronts"], "wavefront")
    return [
        idea(
            "swizzle",
            "A swizzle adds no words: it stores column c of row r in column c XOR r (column 3 of row 5 in column 6). "
            "What does it save, compared with padding?",
            "The unused words: the tile stays smaller",
            {
                "Wavefronts: an access takes fewer": f"An access takes {taken} with either remedy.",
                "Nothing: the words of a column still share a bank": (
                    f"In each row another bank holds the column, so an access takes {taken}."
                ),
                "Bytes of global memory": "Both remedies only change places in shared memory.",
            },
            f"The swizzled tile takes {sizes[1]:,} bytes of shared memory, and the padded one {sizes[0]:,}. "
            f"An access takes {taken} with either.",
            step=walks[1][0]["wavefronts"] - 1,
            view=view,
        )
    ]


def _service(sides: list[BankSide], hides: list[str]) -> Question:
    """How the banks serve the access without a remedy."""
    side, access = sides[0], sides[0]["accesses"][0]
    taken, words = access["wavefronts"], len({cell[3] for cell in access["cells"]})
    right = AT_ONCE if taken <= access["ideal"] else ONE_BY_ONE if taken == words else IN_TURNS
    covers = [{"side": n, **BELOW} for n in range(len(sides))]
    where = f"The words are in {count(len({cell[1] for cell in access['cells']}), 'bank')}."
    reasons = {
        AT_ONCE: f"{where} A bank serves one word at a time, so this takes {count(taken, 'wavefront')}.",
        ONE_BY_ONE: f"{where} Different banks work at the same time.",
        IN_TURNS: f"{where} It takes {count(taken, 'wavefront')} for {count(words, 'word')}.",
    }
    wrong = {said: reason for said, reason in reasons.items() if said != right}
    text = f"{_wants(access)} How do the {model.BANKS} banks serve them?"
    why = (
        f"A word's bank is its number modulo {model.BANKS}. {reason_said(side['name'], access, 0)} "
        f"The access takes {count(taken, 'wavefront')}."
    )
    return idea(
        "wavefronts", text, right, wrong, why, view="memory", veils=("tabs", "strip"), hides=hides, covers=covers
    )


def _remedy(story: Story, hides: list[str]) -> Question:
    """The effect of the second build."""
    before, after = story.sides[0]["accesses"][0], story.sides[1]["accesses"][0]
    name, now = story.sides[1]["name"], after["wavefronts"]
    spread, some = "The words spread over the banks, and none waits", "Some words move to other banks, so fewer wait"
    same, more = "Nothing: the same words share a bank", "More words share a bank"
    if now < before["wavefronts"]:
        right = spread if now <= after["ideal"] else some
    else:
        right = same if now == before["wavefronts"] else more
    reason = f"The access takes {now} in place of {count(before['wavefronts'], 'wavefront')}."
    apart, banks = _distance(after), len({cell[1] for cell in after["cells"]})
    one_more = apart > 1 and apart % model.BANKS == 1  # a row starts one bank after the row before
    reasons = {
        spread: f"The access still takes {count(now, 'wavefront')}, so words still wait for each other.",
        some: f"All words move: each lane has one of {banks} banks, so none waits." if right == spread else reason,
        same: "Each row now starts one bank further on." if one_more else f"{reason} The words are in other banks now.",
        more: f"The words were in one bank, and now they are in {banks}." if now < before["wavefronts"] else reason,
    }
    wrong = {said: why for said, why in reasons.items() if said != right}
    last = next(n for n, frame in reversed(list(enumerate(story.frames))) if frame["access"] == 0)
    now_apart = f" Its words are {apart:,} apart." if apart > 0 else ""
    free = f"leaves {count(story.unused, 'unused word')} after each row"
    has = free if story.unused else f"is {name}"
    text = f"The second build {has}.{now_apart} What does that change?"
    rule = f" Lane i wants word {apart} i, and that is in bank i." if one_more else ""
    why = f"{reason_said(name, after, 0)}{rule} {reason}"
    covers, veils = [{"side": 1, **BELOW}], ("tabs", "strip")
    hides = [*hides, f"{name}: done after {now}", f"done after {now}", f"done: {now}"]
    return idea("remedy", text, right, wrong, why, step=last, view="memory", veils=veils, hides=hides, covers=covers)


def _bank_of(side: BankSide) -> Question:
    """A click on the bank of a lane's word."""
    access = side["accesses"][0]
    lane = access["cells"][-1][0]
    word = min(cell[3] for cell in access["cells"] if cell[0] == lane)
    bank = word % model.BANKS
    wanted = len({cell[3] for cell in access["cells"] if cell[1] == bank})
    text = (
        f"Lane {lane} wants byte {word * model.WORD:,} of {access['tensor']}{_built(side)}. Click any word of the bank "
        "with that byte."
    )
    why = (
        f"The byte is in word {word:,}, and {word:,} modulo {model.BANKS} is {bank}. The access wants "
        f"{count(wanted, 'different word')} of this bank."
    )
    veils = ("sentence", "strip")
    return Question("bank_of", text, "click", {"side": 0, "bank": bank}, why, view="memory", veils=veils)


def _built(side: BankSide) -> str:
    return f", {side['name']}" if side["name"] else ""


def _hidden(sides: list[BankSide]) -> list[str]:
    """The texts with the wavefronts of the first access. Of one side, a bare number also names a bank or a lane."""
    accesses = [side["accesses"][0] for side in sides]
    taken = [access["wavefronts"] for access in accesses]
    numbers = (taken, [access["conflicts"] for access in accesses]) if len(sides) > 1 else ()
    both = [" and ".join(map(str, values)) for values in numbers]
    said = ["gets its word", "get their words", "Done after", *(text for one in accesses for text in _reasons(one))]
    return [*(text for n in taken for text in (f"of {n}", count(n, "wavefront"))), *both, *said]


def _reasons(access: BankAccess) -> list[str]:
    """The sentences with the reason for the wavefronts."""
    told = served_said("", access, 0)
    return [told, told[0].lower() + told[1:]]


def _distance(access: BankAccess) -> int:
    """The words from lane to lane, or 0 if the lanes differ in this."""
    first: dict[int, int] = {}
    for lane, _, _, word, *_ in access["cells"]:
        first[lane] = min(word, first.get(lane, word))
    steps = {(first[lane + 1] - first[lane]) for lane in first if lane + 1 in first}
    return steps.pop() if len(steps) == 1 else 0


def _wants(access: BankAccess) -> str:
    """The wishes of the lanes in a sentence."""
    apart = _distance(access)
    if apart > 0:
        return f"Neighbouring lanes want words {apart:,} apart."
    return f"The lanes want {access['bytes']} bytes each."

"""Questions about a ring, answered by the run and by the recorded times."""

from collections.abc import Sequence

from explainers.stories.ring import times
from explainers.stories.ring.orders import Order
from explainers.stories.ring.walk import Walk, sent
from explainers.story.glossary import short
from explainers.story.questions import idea
from explainers.story.stage import MEASURED, Question
from kernels.measure import rings


def questions(walk: Walk, orders: Sequence[Order]) -> list[Question]:
    """Who waits, or which share of the pairs each GPU has; how many bytes a GPU sends; the merge; the hidden copy."""
    made = [_bytes(walk), _balance(walk, orders), _waiting(orders), _merge(walk)]
    return [one for one in (*made, _hidden()) if one]


def _bytes(walk: Walk) -> Question | None:
    """How many bytes the last GPU sends in the whole run."""
    device = len(walk.rounds[0].works) - 1
    each = [sent(one, device) for one in walk.rounds]
    total = sum(each)
    if not total:
        return None
    steps = sum(bool(n) for n in each)
    why = f"GPU {device} sends {total:,} bytes, once."
    if steps > 1:
        why = f"GPU {device} sends K and V of a part in each of {steps} rounds, {max(each):,} bytes."
    text = f"How many bytes does GPU {device} send in the whole run?"
    return Question("bytes", text, "number", total, why, unit="B", veils=("sentence", "strip"))


def _balance(walk: Walk, orders: Sequence[Order]) -> Question | None:
    """Which GPU multiplies the most pairs over all steps."""
    pairs = [sum(one.works[d].pairs for one in walk.rounds) for d in range(len(walk.rounds[0].works))]
    if len(pairs) < 2:
        return None
    equal, least = max(pairs) == min(pairs), pairs.index(min(pairs))
    shown = sorted({0, pairs.index(max(pairs)), len(pairs) - 1})
    most = pairs.index(max(pairs))
    options = [*(f"GPU {device}" for device in shown), "All have equal work"]
    answer = len(shown) if equal else shown.index(most)
    said = f"Each GPU multiplies {pairs[0]:,} pairs of a query and a key."
    if not equal:
        said = f"GPU {most} multiplies {max(pairs):,} pairs, GPU {least} only {min(pairs):,}."
    reasons = [f"It multiplies {pairs[device]:,} pairs." for device in shown]
    reasons.append(f"The GPUs multiply {min(pairs):,} to {max(pairs):,} pairs.")
    return Question(
        "balance",
        "Which GPU multiplies the most pairs of a query and a key in the whole run?",
        "options",
        answer,
        said,
        options=options,
        reasons=["" if n == answer else reason for n, reason in enumerate(reasons)],
        step=len(walk.frames) - 1,
        view="orders",
        covers=[{"order": order.name} for order in orders],
        veils=("headline",),
    )


def _waiting(orders: Sequence[Order]) -> Question | None:
    """Why the GPU with the first queries waits most of the time in the slowest order."""
    worst = orders[0] if orders else None
    if worst is None or max(worst.waits) < 0.5:
        return None
    device = worst.waits.index(max(worst.waits))
    works = [one.works[device] for one in worst.rounds]
    if not any((work.rows == 0).any() for work in works):
        return None
    return idea(
        "waiting",
        f"In {worst.name} order, why does GPU {device} wait most of the time?",
        "The mask hides the keys that arrive",
        {
            "Its copies are slow": "No time of a copy counts here: each pair is one unit of time.",
            "It has fewer queries": "All GPUs have as many queries.",
        },
        f"It has the first queries. In round 1 it multiplies {works[0].pairs:,} pairs, and then "
        f"{sum(work.pairs for work in works[1:]):,}.",
        view="orders",
        veils=("headline",),
    )


def _merge(walk: Walk) -> Question | None:
    """The factor of the part that shrinks most at a merge. None for a build that is broken on purpose."""
    merges = [(n, frame["merged"]) for n, frame in enumerate(walk.frames) if frame["merged"]]
    shared = [(n, merged) for n, merged in merges if merged["shares"]]
    if not shared or walk.run.request.broken:
        return None
    step, merged = min(shared, key=lambda pair: min(pair[1]["shares"]))
    value = min(merged["shares"])
    part = merged["shares"].index(value)
    which = ("the earlier l and O", "this step's l and O")[part]
    first, now, after = (short(float(m or 0)) for m in merged["m"])
    return Question(
        "factor",
        f"Query {walk.place} merges m = {first} and m = {now}. Which factor do {which} take?",
        "number",
        value,
        f"The factor is e^({(first, now)[part]} - {after}) = {short(value, 3)}.",
        step=step,
        tolerance=MEASURED,
        veils=("sentence", "picture", "strip"),
    )


def _hidden() -> Question | None:
    """Whether the recorded copies hide behind the products."""
    found = rings.recorded()
    if found is None:
        return None
    table, where = found
    ring = table[(table.way == rings.RING) & ~table.causal].sort_values("seq_len").iloc[-1].to_dict()
    copies = table[(table.way == rings.COPIES) & ~table.causal & (table.seq_len == ring["seq_len"])].iloc[0]
    percent = 100 * float(copies.us) / float(ring["us"])
    options = ["Yes, nearly all of them", "About half of them", "No, the GPUs wait for them"]
    share = times.hidden(ring)[0]
    right = 0 if share > 0.9 else 1 if share > 0.25 else 2
    said = (
        f"{times.hidden_said(ring)} (recorded on {where.device}). Without products, the copies "
        f"take {short(percent, 2)} % of the run's time, rested."
    )
    reasons = [f"Products hide at least {share:.0%} of the copies' time."] * len(options)
    reasons[right] = ""
    text = f"With {ring['seq_len']:,} tokens on {where.more['gpus']} GPUs, do the copies hide behind the products?"
    return Question("hidden", text, "options", right, said, options=options, reasons=reasons)

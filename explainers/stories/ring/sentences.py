"""The sentences of a ring's steps."""

from explainers.stories.ring.figures import PARTS
from explainers.stories.ring.rounds import Merge, Round
from explainers.story.glossary import listed, short


def divided(gpus: int) -> str:
    """The first step: why K and V are on several GPUs."""
    part = PARTS.get(gpus, f"1/{gpus}")
    return (
        f"The K and V of a long text do not fit on one GPU. So each of {gpus} GPUs keeps {part} of them, "
        "and passes it on to the next one."
    )


def products(one: Round, step: int, gathers: bool) -> str:
    """The products of a round, and its copies."""
    if gathers:
        outputs = f"{len(one.moves)} outputs move" if len(one.moves) > 1 else "its output moves"
        return f"Each GPU computes its own heads. Then {outputs} to GPU 0, {one.moves[0].bytes:,} bytes each."
    if idle := [f"GPU {device}" for device in one.idle]:
        verb, its = ("waits", "its") if len(idle) == 1 else ("wait", "their")
        return (
            f"{listed(idle)} {verb}: all {its} keys now come after {its} queries, so the mask hides them. "
            "The other GPUs multiply."
        )
    if len(one.works) == 1:
        return "The only GPU multiplies its queries with all keys. With more GPUs, each one has a part of both."
    if not step:
        sends = f" Meanwhile it sends them, {one.moves[0].bytes:,} bytes, to the next GPU." if one.moves else ""
        return f"Each GPU computes scores, softmax and P V of its queries with its own K and V.{sends}"
    if not one.moves:
        return "Each GPU computes with the last part of K and V. Nobody needs it next, so nothing is copied."
    return (
        "Each GPU computes with the K and V that came in the last round. Products read them to the end of the round, "
        "so the next part needs a second buffer."
    )


def merged(merge: Merge, who: str, device: int, end: str) -> str:
    """The merge of a row. who: its query. end: a sentence of the last merge, or ""."""
    if merge.shares is None:
        kept = "" if end else f" GPU {device} keeps m, l and O, and goes on with the next part."
        return f"{who} has met one part of the keys: its m is {short(merge.m[2])}.{kept}{end}"
    earlier, now = merge.shares
    if earlier == 1.0 and now == 1.0:
        if merge.m[0] == merge.m[2]:
            return f"{who} keeps its m, so both parts count in full.{end}"
        return f"{who}: m grows to {short(merge.m[2])}, and no part is scaled.{end}"
    before, own, after = (short(float(m or 0)) for m in merge.m)
    if earlier < now:
        return (
            f"{who} meets a larger score, so m grows to {after}. Its earlier l and O used the smaller m: they take the "
            f"factor e^({before} - {after}) = {short(earlier, 3)}.{end}"
        )
    return (
        f"{who} meets no larger score, so m stays {after}. The l and O of this part used a smaller m: they take the "
        f"factor e^({own} - {after}) = {short(now, 3)}.{end}"
    )

"""The story of a ring of GPUs: the data on each, the data on its way, the merge, and the idle time."""

import pandas as pd

from explainers.stories.ring import orders, times
from explainers.stories.ring.frames import Walk, sent
from explainers.stories.ring.questions import questions
from explainers.story import probed, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Block, Stage, State, Tab, View
from kernels.core.request import Request
from kernels.core.spec import KernelSpec

NEEDED = {"m_after": ("row",), "l_after": ("row",), "o_after": ("row", "dim"), "score": ("row", "col")}


class Ring(Story[Request]):
    """All devices, step by step, and one row's merges."""

    WANTS = tuple(NEEDED)

    def refusal(self, spec: KernelSpec) -> str:
        return probed.without_events(spec, NEEDED)

    def stage(self, subject: Request, runner: Runner) -> Stage:
        run = runner.run(subject)
        walk = Walk(run)
        summary, tone = runner.broken(run)
        found = orders.orders(subject, walk.rounds, runner)
        return stage.of_request(
            subject,
            walk.frames,
            [View("ring", "ring", "GPUs", walk.meta(found))],
            state=states(walk),
            tabs=[Tab("steps", "Bytes and products"), Tab("times", "Times on several GPUs"), stage.BUILDS, stage.DATA],
            provenance=runner.provenance(run),
            questions=questions(walk, found),
            summary=summary or orders.result(found),
            tone=tone or "info",
        )

    def parts(self) -> dict[str, Part[Request]]:
        return {"steps": _steps, "times": _times}


def states(walk: Walk) -> list[State]:
    """The strip: busy devices, bytes on their way, products, and the m of the followed row."""
    rounds = [walk.rounds[frame["step"]] for frame in walk.frames]
    products = [one.most for one in rounds]
    moved = [sum(move.bytes for move in one.moves) for one in rounds]
    m = list[object]()
    for frame in walk.frames:
        m.append(frame["merged"]["m"][2] if frame["merged"] else m[-1] if m else "none")
    return [
        State("GPUs at work", [len(one.works) - len(one.idle) for one in rounds], of=len(rounds[0].works)),
        State("bytes copied in the step", moved, "B", colour="K"),
        State("pairs of the busiest GPU", products, colour="S"),
        State(f"m of query {walk.place}", m, colour="P"),
    ]


def _steps(subject: Request, runner: Runner) -> list[Block]:
    walk = Walk(runner.run(subject))
    width = next(t.shape[-1] for t in subject.plan.tensors if t.axes[-1:] == ("dim",))
    rows = [
        {
            "step": step,
            "GPU": work.device,
            "holds part": work.part,
            "pairs": work.pairs,
            "floating-point operations": 4 * width * work.pairs,
            "bytes sent": sent(one, work.device),
            "operations per byte": round(4 * width * work.pairs / moved) if (moved := sent(one, work.device)) else None,
        }
        for step, one in enumerate(walk.rounds)
        for work in one.works
    ]
    said = (
        "The pairs are the logged scores. A pair takes 4 operations for each of its dims. Twice the tokens give twice "
        "the bytes and four times the operations, so long sequences hide their copies."
    )
    return [stage.text(said, "derived"), stage.table(pd.DataFrame(rows).convert_dtypes())]


def _times(subject: Request, runner: Runner) -> list[Block]:
    return times.blocks()


STORY = Ring()

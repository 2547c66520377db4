"""The story of a ring of GPUs: the data on each, the data on its way, the merge, and the idle time."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from explainers.stories.ring import orders, times
from explainers.stories.ring.questions import questions
from explainers.stories.ring.walk import Walk, sent
from explainers.story import probed, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Block, Stage, Tab, View
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
        views = [View("ring", "ring", "The ring", walk.meta(found))]
        where, timed = runner.provenance(run), hiding_of(walk, found)
        if walk.run.request.plan.devices > 1:
            views.append(View("ring_orders", "orders", "Work and waiting", orders_meta(walk, found)))
        return stage.of_request(
            subject,
            walk.frames,
            views,
            tabs=[Tab("steps", "Bytes and products"), Tab("times", "Times on several GPUs"), stage.BUILDS, stage.DATA],
            provenance=replace(where, place=stage.place(timed["place"], timed["date"]) if timed else where.place),
            questions=questions(walk, found),
            summary=summary or orders.result(found),
            tone=tone or "info",
        )

    def parts(self) -> dict[str, Part[Request]]:
        return {"steps": _steps, "times": _times}


def orders_meta(walk: Walk, found: Sequence[orders.Order]) -> orders.OrdersMeta:
    """The pairs and the waiting of each GPU, and the recorded copies."""
    return {
        "orders": [order.shown for order in found],
        "rounds": [frame["step"] for frame in walk.frames],
        "hiding": hiding_of(walk, found),
    }


def hiding_of(walk: Walk, found: Sequence[orders.Order]) -> orders.Hiding | None:
    """The recorded products and copies of a ring with this mask and order. Without a mask, each order is as good."""
    causal = walk.run.request.problem.causal
    own = next(order.name for order in found if order.own)
    if walk.gathers or (causal and own == orders.THIS):
        return None
    return times.hiding(causal, own if causal else "")


def _steps(subject: Request, runner: Runner) -> list[Block]:
    walk = Walk(runner.run(subject))
    width = next(t.shape[-1] for t in subject.plan.tensors if t.axes[-1:] == ("dim",))
    rows = [
        {
            "round": step + 1,
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
    why = (
        "K and V travel, not Q: a query would take its m, l and O in fp32 along, and several query heads may share K "
        "and V. A ring needs room for two parts on each GPU. Other ways first collect all parts on each GPU. "
        "A launch waits for the copies of its part, and a copy waits for the launch that still reads its buffer."
    )
    return [stage.text(said, "derived"), stage.text(why), stage.table(pd.DataFrame(rows).convert_dtypes())]


def _times(subject: Request, runner: Runner) -> list[Block]:
    return times.blocks()


STORY = Ring()

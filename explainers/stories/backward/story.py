"""The story of the backward: the data that it stores and recomputes, its five products, and the gradients as they
grow."""

from collections.abc import Mapping

from explainers.models import gradient_errors, gradients
from explainers.stories.backward import products, sums, tabs, times, walk
from explainers.stories.backward.questions import Seen, questions
from explainers.story import probed, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import listed
from explainers.story.stage import Block, Stage, State, Tab, View
from kernels.catalog import current
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.measure import gradient_duels
from kernels.recordings import tables
from kernels.run.results import Run

TABS = {
    "answers": "Five questions",
    "nudge": "Check a gradient",
    "stored": "Stored and recomputed",
    "errors": "Errors by step",
    "times": "Time and memory",
}


class Backward(Story[Request]):
    """One block of each launch, tile by tile."""

    WANTS = tuple(gradients.EVENTS)

    def first(self, kernels: Mapping[str, KernelSpec]) -> str:
        """The default kernel: the first with blocks that add up a gradient, or the first of all."""
        own = probed.accepting(self, kernels)
        return next((name for name, spec in own.items() if gradients.adds(probed.sample(spec))), next(iter(own), ""))

    def refusal(self, spec: KernelSpec) -> str:
        request = probed.sample(spec)
        if missing := gradients.lacking(request):
            return f"{spec.name} has no tensor for {listed(missing)}. Declare the parts in the problem's `picture`."
        if not probed.marks(spec):
            return f"{spec.name} marks no step. Add a PROBE_MARK."
        return probed.without_events(spec, gradients.NEEDED)

    def stage(self, subject: Request, runner: Runner) -> Stage:
        run = runner.run(subject)
        story = walk.walk(run)
        seen = _seen(run, story, runner)
        views = [View("gradients", "tiles", "Tiles", *walk.meta_of(run, story)), *sums.views(seen, story.head, runner)]
        summary, tone = runner.broken(run)
        return stage.of_request(
            subject,
            story.frames,
            views,
            state=states(run.request, story),
            tabs=[*(Tab(name, title) for name, title in TABS.items()), stage.BUILDS, stage.DATA],
            provenance=runner.provenance(run),
            questions=questions(seen),
            summary=summary or products.sentence(story.frames, subject.kernel.idea, gradients.adds(run.request)),
            tone=tone or "info",
        )

    def parts(self) -> dict[str, Part[Request]]:
        return {
            "answers": _answers,
            "stored": _stored,
            "nudge": _nudge,
            "errors": _errors,
            "times": _times,
        }


def _seen(run: Run, story: walk.Walk, runner: Runner) -> Seen:
    again = runner.outputs_again(run.request) if run.request.backend in tabs.SECOND else {}
    return Seen(run, story.frames, again)


def _answers(subject: Request, runner: Runner) -> list[Block]:
    run = runner.run(subject)
    return tabs.answers(_seen(run, walk.walk(run), runner))


def _stored(subject: Request, runner: Runner) -> list[Block]:
    return tabs.stored(subject)


def _nudge(subject: Request, runner: Runner) -> list[Block]:
    run = runner.run(subject)
    return tabs.nudge(run, walk.walk(run).head)


def _errors(subject: Request, runner: Runner) -> list[Block]:
    run = runner.run(subject)
    return gradient_errors.blocks(run, walk.walk(run).head)


def _times(subject: Request, runner: Runner) -> list[Block]:
    met = gradient_duels.recorded()
    recorded = times.Recorded(*met) if met else None
    return [
        *times.blocks(subject, current().kernels, tables.recorded("bench"), recorded),
        *times.memory(subject),
    ]


def states(request: Request, story: walk.Walk) -> list[State]:
    """The strip: the products of the traced block, its recomputed P, and the bytes that it writes to dQ."""
    frames, item = story.frames, gradients.tensors(request)["Q"].itemsize
    counted = {product.made for product in gradients.PRODUCTS}
    made, again, so_far, weights = [], [], 0, 0
    for frame in frames:
        fresh = set() if frame["whole"] or frame["unread"] else set(frame["made"])
        so_far += len(counted & fresh)
        weights += _size(story, frame["state"]["P"]) * item if "P" in fresh else 0
        made.append(so_far)
        again.append(weights)
    adding = [touch for f in frames if "dQ" in f["made"] for touch in f["touched"]]
    stored = not gradients.adds(request) or any((one["part"], one["kind"]) == ("dQ", "store") for one in adding)
    return [
        State("products, this block", made, of=made[-1]),
        State("P, bytes made", again, "B"),
        *([State("dQ, bytes written", [f["bytes"].get("dQ store", 0) for f in frames], "B")] if stored else []),
    ]


def _size(story: walk.Walk, state: int) -> int:
    r0, r1, c0, c1, _ = story.states["P"][state]
    return (r1 - r0 + 1) * (c1 - c0 + 1)


STORY = Backward()

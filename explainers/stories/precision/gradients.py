"""The errors of dQ, dK and dV by the steps that round, as Precision's stage. The story Backward replays the steps."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from explainers.charts.layers import Inline, chart_view
from explainers.charts.palette import AXIS, TENSORS
from explainers.models import gradient_errors, gradients
from explainers.stories.precision.error_tables import WORDS
from explainers.story import probed, stage
from explainers.story.base import Runner
from explainers.story.frames import Frame
from explainers.story.glossary import listed
from explainers.story.stage import Block, Stage, State, Tab, View
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run

HEIGHT = 300
COLOURS = {part: TENSORS[part[1:]] for part in gradients.GRADIENTS}
# the logged values and the tensors with the lines of each step
READS = (("O", "LSE"), ("p",), ("ds",), gradients.GRADIENTS, ("p", "dv", "ds", "dk", "dq", "dq_part"))
NAMES = ("O, LSE", "P", "dS", "gradients", "kernel")  # of the steps, on the axis


def is_backward(spec: KernelSpec) -> bool:
    return spec.problem_type.gradients


def refusal(spec: KernelSpec) -> str:
    """The reason against a kernel of gradients in a sentence, or an empty text."""
    missing = gradients.lacking(probed.sample(spec))
    return f"{spec.name} has no tensor for {listed(missing)}. Declare it in the problem's `picture`." if missing else ""


def stage_of(subject: Request, runner: Runner) -> Stage:
    run = runner.run(subject)
    after = gradient_errors.after_each_step(run, head_of(subject))
    frames = frames_of(run, after)
    summary, tone = runner.broken(run)
    return stage.of_request(
        subject,
        frames,
        [view(after)],
        state=[
            State(f"error of {part}", [gradient_errors.said(one[part]) for one in after.values()]) for part in COLOURS
        ],
        tabs=[Tab("gradients", "In numbers"), stage.BUILDS, stage.DATA],
        provenance=runner.provenance(run),
        summary=summary or gradient_errors.largest(after),
        tone=tone or "info",
        step=len(frames) - 1,
    )


def head_of(request: Request) -> int:
    """The first query head of the traced group, counted over the batch."""
    first, _ = request.scope.range_of(gradients.KEY_ITEM, request.plan)
    return gradients.head_of(request, gradients.KEY_ITEM, first) * gradients.group_of(request)


def frames_of(run: Run, after: gradient_errors.Errors) -> list[Frame]:
    """A frame for each step that rounds, and one for the kernel's own gradients."""
    dtype = gradients.tensors(run.request)["Q"].dtype
    rows = list[dict[str, object]]()
    before = dict.fromkeys(COLOURS, 0.0)
    for n, (step, now) in enumerate(after.items()):
        rows.append(
            {
                **{"tile": -1, "step": "gradient", "after": n, "dtype": dtype, "kept": dtype == "float32"},
                "title_text": step if step.startswith("d") else step[0].upper() + step[1:],
                "grown": [part for part in COLOURS if now[part] > 1.02 * before[part]],
                "lines": lines_of(run, READS[n]),
            }
        )
        before = now
    return WORDS.frames(rows, {})


def lines_of(run: Run, wanted: Sequence[str]) -> dict[str, int]:
    """The lines with a record of these logged values, or of these tensors in global memory, and how often."""
    sites, symbols = run.sites, gradients.symbols(run.request)
    counts = np.bincount(sites.index(run.trace.table), minlength=len(sites)).tolist()
    found: dict[str, int] = {}
    for site, times in zip(sites, counts):
        of = site.event if site.kind == "value" else symbols.get(site.tensor or "") if site.space == "global" else ""
        if of in wanted and times:
            found[site.place] = found.get(site.place, 0) + times
    return found


def view(after: gradient_errors.Errors) -> View:
    """The picture: the error of each gradient after each step."""
    rows = pd.DataFrame(
        [
            {"step": number, "after": step, "gradient": part, "error": one[part]}
            for number, (step, one) in enumerate(after.items(), 1)
            for part in COLOURS
            if one[part] > 0
        ]
    )
    data = Inline()
    x = alt.X("step:Q", title="rounded so far").axis(
        values=list(range(1, len(after) + 1)), labelExpr=f"{list(NAMES)}[datum.value - 1]", labelOverlap=False
    )
    y = alt.Y("error:Q", title="relative error (RMS)").scale(type="log").axis(format=".0e")
    colour = alt.Color("gradient:N").scale(domain=list(COLOURS), range=list(COLOURS.values())).title(None)
    lines = data.chart("errors", rows).mark_line(point=alt.OverlayMarkDef(size=70)).encode(
        x=x, y=y, color=colour, tooltip=["gradient:N", "after:N", alt.Tooltip("error:Q", format=".3g")]
    )  # fmt: skip
    rule = data.chart("errors").mark_rule(color=AXIS).encode(x=x).transform_filter("datum.step == step")
    about = "The relative error of dQ, dK and dV after each step that rounds"
    note = "RMS of the error over RMS of the gradient, against float64. Modelled, but for the last step."
    at = list(range(1, len(after) + 1))
    return chart_view("gradients", "Errors of dQ, dK and dV", data.layered([rule, lines], HEIGHT), about, note, at, {})


def gradients_tab(subject: Request, runner: Runner) -> list[Block]:
    """The errors in numbers."""
    return gradient_errors.blocks(runner.run(subject), head_of(subject))

"""The story of precision: the sources of a kernel's error, a stage of rounding.py a step, next to the same problem in
every other type of a kernel."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from explainers.models import softmax_rows
from explainers.stories.precision import replay, rounding
from explainers.stories.precision.error_questions import questions
from explainers.stories.precision.frames import RoundingMeta, RoundingRun
from explainers.stories.precision.replay import STAGES, Replay, rms
from explainers.stories.precision.replays import TITLES, Replays, part_of, percent, right_bits, short
from explainers.stories.precision.stage_frames import frames_of
from explainers.story import picture, probed, stage
from kernels.core.fields import fields_of
from kernels.core.spec import KernelSpec
from kernels.run.results import Run

WANTS = softmax_rows.WANTS


def accepts(spec: KernelSpec) -> bool:
    """The kernels of Online softmax, because the page opens rows there, with scores of Q and K as given."""
    return not refusal(spec)


def refusal(spec: KernelSpec) -> str:
    """The reason against a kernel: that of Online softmax, or further numbers that change Q and K, such as angles."""
    if reason := softmax_rows.refusal(spec):
        return reason
    other = picture.other_input(probed.sample(spec))
    return f"{spec.name} also reads {other}. This page replays scores of Q and K as they are given." if other else ""


def first(specs: Iterable[KernelSpec]) -> KernelSpec:
    """The first kernel with rounded inputs, or else the last kernel."""
    given = list(specs)
    return next((s for s in given if picture.tensor_at(probed.sample(s), "Q").itemsize < 4), given[-1])


def of_each_type(specs: Iterable[KernelSpec]) -> dict[str, tuple[KernelSpec, dict[str, str]]]:
    """The type of a kernel's computation -> the earliest kernel of that type with most of WANTS, and the problem's
    field with the type, if it has one."""
    found: dict[str, tuple[int, KernelSpec, dict[str, str]]] = {}
    for spec in specs:
        dtype = fields_of(spec.problem_type).get("dtype")
        rank = len({site.event for site in probed.probes(spec)} & set(WANTS))
        for changes in [{"dtype": value} for value in dtype.metadata["allowed"]] if dtype else [{}]:
            label = replay.label_of(replace(probed.sample(spec), problem=spec.problem_type(**changes)))
            if label not in found or rank > found[label][0]:
                found[label] = (rank, spec, changes)
    return {label: (spec, changes) for label, (_, spec, changes) in found.items()}


def explain(run: Run, others: Sequence[Run] = ()) -> Replays:
    """The Replays of a Run of one query tile.

    others: runs of the same numbers (rounding.same_numbers).
    """
    chosen = rounding.replay(run)
    return Replays(chosen, tuple(map(rounding.replay, others)), frames_of(run, chosen))


def view(story: Replays, absent: Sequence[tuple[str, str]] = ()) -> stage.View:
    """The picture `rounding`.

    absent: missing types, with the reason.
    """
    made = story.chosen
    columns: dict[str, np.ndarray] = {}
    at: dict[str, list[int]] = {}
    for name, errors in (("S", made.score), ("P", made.weight), ("l", made.sum), ("O", made.o)):
        kept: list[np.ndarray] = []
        at[name] = []
        for errors_so_far in errors:
            if not kept or not np.array_equal(kept[-1], errors_so_far, equal_nan=True):
                kept.append(errors_so_far)
            at[name].append(len(kept) - 1)
        columns[name] = np.array(kept)
    meta: RoundingMeta = {
        "row0": made.rows[0],
        "rows": made.rows[1] - made.rows[0],
        "keys": made.score.shape[2],
        "dims": made.o.shape[2],
        "tiles": len(made.edges),
        "block": made.edges[0][1],
        "at": at,
        "stages": list(TITLES.values()),
        "runs": [_run(replay, replay is made) for replay in story.all],
        "absent": [list(each) for each in absent],
        "frames": story.frames,
    }
    return stage.View("rounding", "rounding", "Errors", meta, columns)


def _run(made: Replay, chosen: bool) -> RoundingRun:
    return {
        "label": made.label,
        "kernel": made.request.kernel.name,
        "chosen": chosen,
        "rows": [made.rows[0], made.rows[1]],
        "parts": made.sizes.tolist(),
        "error": float(made.so_far[-1]),
    }


def stage_of(
    story: Replays, run: Run, provenance: stage.Provenance, summary: tuple[str, str], absent: Sequence[tuple[str, str]]
) -> stage.Stage:
    """The whole stage.

    summary: the effect of a broken build, and its tone. Empty for any other build.
    absent: missing types, with the reason.
    """
    said, tone = summary if summary[0] else (_summary(story.chosen), "info")
    made = stage.Stage(
        headline=stage.headline(run.request.kernel),
        frames=story.frames,
        views=[view(story, absent)],
        codes=[stage.code(run.request, story.frames)],
        state=states(story.chosen),
        tabs=TABS,
        provenance=provenance,
        summary=said,
        tone=tone,
        lead="lead",
        questions=questions(story),
        step=len(story.frames) - 1,
    )
    wrong = [replay for replay in story.all if not replay.ends_there]
    return stage.warned(made, [_not_there(replay) for replay in wrong])


TABS = [
    stage.Tab("types", "Every type"),
    stage.Tab("spread", "Distribution"),
    stage.Tab("sweep", "Sweeps"),
    stage.Tab("rows", "Rows and tiles"),
    stage.Tab("builds", "Builds"),
    stage.Tab("data", "Data and labels"),
]


def _not_there(made: Replay) -> str:
    left, error = rms(made.left_over), rms(made.o[-1])
    return (
        f"The replay of {made.request.kernel.name} misses its own O by {left / error:.1%} of the error (RMS). "
        "Its log and its output differ. Do not trust its parts."
    )


def _summary(made: Replay) -> str:
    """The main source of the error."""
    error, shares = float(made.so_far[-1]), made.shares
    if not math.isfinite(error):
        first = next(n for n, value in enumerate(made.so_far) if not math.isfinite(value))
        return f"O holds NaN or infinity from the step {TITLES[STAGES[first]]} on."
    if not error:
        return "O equals float64 to the last digit."
    most = int(np.argmax(shares))
    of_size = part_of(error, rms(made.exact))
    return (
        f"In {made.label} the RMS error of O is {short(error)}, {of_size} of its elements' size. "
        f"The largest part comes from the step \u201c{TITLES[STAGES[most]]}\u201d."
    )


def states(made: Replay) -> list[stage.State]:
    """The strip: the error so far and the change of the step, as RMS of O's elements."""
    parts, so_far, shares = made.sizes, made.so_far, made.shares
    bits = [right_bits(error, rms(made.exact)) for error in so_far]
    return [
        stage.State("RMS error of O so far", [short(value) for value in so_far]),
        stage.State("this step moves O by", [short(value) for value in parts]),
        stage.State("of the squared error, by covariance", [percent(share) for share in shares]),
        stage.State("bits of O that are right", bits),
    ]

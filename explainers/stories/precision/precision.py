"""Precision: where the error of a kernel's output comes from, a stage of rounding.py a step, beside the same problem in
every other type that a kernel has."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from explainers.stories.online_softmax import online_softmax
from explainers.stories.precision import rounding
from explainers.stories.precision.frames import RoundingFrame, RoundingMeta, RoundingRun
from explainers.stories.precision.rounding import STAGES, Replay, rms
from explainers.story import axes, picture, probed, stage
from explainers.story.glossary import figure
from kernels.core.dtypes import element_type
from kernels.core.fields import fields_of
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace.probes import sites_of

WANTS = online_softmax.WANTS
TITLES = {
    "exact": "Float64",
    "inputs": "Inputs rounded",
    "scores": "Scores",
    "exponential": "Exponential",
    "weights": "Weights rounded",
    "sum": "Sum l",
    "output": "Products with V",
    "write": "O rounded",
}
_EVENTS = {
    "scores": ("score",),
    "exponential": ("m", "rescale", "p"),
    "weights": ("p",),
    "sum": ("l",),
    "output": ("o",),
}
NOISE = 3.0  # times the error of storing the exact O: what is called the noise of its type
SHOWN_ROWS, OPTIONS = 8, 4  # of a table, of a question


@dataclass(frozen=True)
class Story:
    """The replay of the chosen kernel's run, and of others on the same numbers: a type each."""

    chosen: Replay
    others: tuple[Replay, ...]
    frames: list[RoundingFrame]

    @cached_property
    def all(self) -> list[Replay]:
        """The most exact first."""
        return sorted((self.chosen, *self.others), key=lambda made: made.so_far[-1])


def accepts(spec: KernelSpec) -> bool:
    """What Online softmax shows: rows are opened there."""
    return online_softmax.accepts(spec)


refusal = online_softmax.refusal


def first(specs: Iterable[KernelSpec]) -> KernelSpec:
    """The first kernel whose inputs are rounded; the last of all if none's are."""
    given = list(specs)
    return next((s for s in given if picture.tensor_at(probed.sample(s), "Q").itemsize < 4), given[-1])


def of_each_type(specs: Iterable[KernelSpec]) -> dict[str, tuple[KernelSpec, dict[str, str]]]:
    """The type in which a kernel computes -> the earliest kernel with most of WANTS that does, and the field of its
    problem that says so, if one does."""
    found: dict[str, tuple[int, KernelSpec, dict[str, str]]] = {}
    for spec in specs:
        dtype = fields_of(spec.problem_type).get("dtype")
        rank = len({site.event for site in probed.probes(spec)} & set(WANTS))
        for changes in [{"dtype": value} for value in dtype.metadata["allowed"]] if dtype else [{}]:
            label = rounding.label_of(replace(probed.sample(spec), problem=spec.problem_type(**changes)))
            if label not in found or rank > found[label][0]:
                found[label] = (rank, spec, changes)
    return {label: (spec, changes) for label, (_, spec, changes) in found.items()}


def explain(run: Run, others: Sequence[Run] = ()) -> Story:
    """The Story of a Run whose trace covers one query tile. others: of the same numbers (rounding.same_numbers)."""
    chosen = rounding.replay(run)
    return Story(chosen, tuple(map(rounding.replay, others)), _frames(run, chosen))


# ---- frames ----


def _frames(run: Run, made: Replay) -> list[RoundingFrame]:
    sites = sites_of(run.request)
    counts = np.bincount(sites.index(run.trace.table), minlength=len(sites))
    by_event: dict[str, dict[str, int]] = {}
    symbols = {place: symbol for symbol, place in picture.places(run.request).items()}
    for site, times in zip(sites, counts.tolist()):
        moved = site.kind == "access" and site.space == "global"
        name = site.event if site.kind == "value" else f"{site.tensor}" if moved else ""
        if name and times:
            by_event.setdefault(name, {})[site.place] = times
    events = _EVENTS | {"inputs": tuple(symbols[place] for place in "QKV"), "write": (symbols["O"],)}
    said = _sentences(made)
    parts, so_far, shares = made.sizes.tolist(), made.so_far.tolist(), made.shares.tolist()
    return [
        {
            "tile": -1,
            "title": TITLES[name],
            "phase": name,
            "sentence": said[name],
            "lines": {place: n for event in events.get(name, ()) for place, n in by_event.get(event, {}).items()},
            "part": parts[number],
            "so_far": so_far[number],
            "share": shares[number],
        }
        for number, name in enumerate(STAGES)
    ]


def _sentences(made: Replay) -> dict[str, str]:
    """What each stage takes from the run, how far it is off, and what that does to O."""
    request = made.request
    given, taken, written = (picture.tensor_at(request, place).dtype for place in "QVO")
    bits = request.constants.get("SUM_BITS", 32)
    row, dim = np.unravel_index(np.argmax(np.abs(np.nan_to_num(made.o[-1], nan=np.inf))), made.exact.shape)
    score, weight, total = (_largest_of_parts(errors) for errors in (made.score, made.weight, made.sum))
    moved = max(made.moved.values())
    low = element_type(taken).bytes <= 2
    said = {
        "exact": f"Float64 from Q, K and V as they were drawn: the RMS of O is {_e(rms(made.exact))}. Each step takes "
        "one thing more from the run and leaves the rest to float64.",
        "inputs": f"Q, K and V are rounded to {given}, {element_type(given).digits} bits: an element moves by up to "
        f"{_e(moved)}, and with it a score by up to {_e(score[1])}."
        if moved
        else f"Q, K and V are {given}, as they were drawn: nothing is rounded.",
        "scores": f"S as logged, products of {made.label} added up in {bits} bits: a score is off by up to "
        f"{_e(score[2])}.",
        "exponential": "Weights e^(score - m) and rescale factors as logged: the share of a key in its row is off by "
        f"up to {_e(weight[3])}.",
        "weights": f"Weights are rounded to {taken} before they are multiplied with V: a key's share moves by up to "
        f"{_e(weight[4])}."
        if low
        else f"Weights are multiplied with V as the {taken} that they are: nothing is rounded.",
        "sum": f"The sum l as logged, added up in 32 bits: it is off by up to {_e(total[5])} of itself.",
        "output": f"O as logged: products of weights and V, added up in {bits} bits and rescaled tile by tile.",
        "write": f"O / l is rounded to {written}, {element_type(written).digits} bits, and this is the kernel's own "
        f"O{_ending(made)}. Its largest error is {_e(np.abs(made.o[-1][row, dim]))}, in row {made.rows[0] + row}, dim "
        f"{dim}.",
    }
    parts, so_far = made.sizes, made.so_far
    for number, name in enumerate(STAGES[1:], 1):
        said[name] += f" {_told(parts[number], so_far[number - 1], so_far[number])}"
    return said


def _told(part: float, before: float, after: float) -> str:
    """What a stage does to O's error."""
    if not math.isfinite(after):
        return "From here on O holds NaN or infinity." if math.isfinite(before) else "O stays NaN or infinite."
    if not part:
        return f"O's RMS error stays {_e(after)}."
    if part < 0.02 * before:
        return f"O moves by {_e(part)} (RMS), one part in {figure(float(f'{before / part:.2g}'))} of its error by now."
    return f"O moves by {_e(part)} (RMS), and its RMS error goes from {_e(before)} to {_e(after)}."


def _ending(made: Replay) -> str:
    left = float(np.abs(made.left_over).max())
    return "" if left == 0 else f" but for {_e(left)}"


def _largest_of_parts(errors: np.ndarray) -> list[float]:
    """Of errors so far [stages, ...]: the most that each stage changes, where there is anything."""
    with np.errstate(invalid="ignore"):
        changes = np.abs(np.diff(errors, axis=0, prepend=0.0)).reshape(len(errors), -1)
    there = ~np.isnan(errors[0]).ravel()
    return [float(change[there].max(initial=0.0)) for change in changes]


def _e(value: float) -> str:
    """An error: two digits."""
    return "NaN" if math.isnan(value) else f"{value:.2g}"


# ---- the stage ----


def view(story: Story, absent: Sequence[tuple[str, str]] = ()) -> stage.View:
    """The picture `rounding`. absent: types that are not beside, and why."""
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
    story: Story, run: Run, provenance: stage.Provenance, summary: tuple[str, str], absent: Sequence[tuple[str, str]]
) -> stage.Stage:
    """The whole stage. summary: what a broken build shows, and its tone; nothing of another. absent: types that are not
    beside, and why."""
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
        f"The replay of {made.request.kernel.name} misses its own O by {left / error:.1%} of the error (RMS): what it "
        "logged is not what it wrote. Do not trust its parts."
    )


def _summary(made: Replay) -> str:
    """Where most of the error comes from."""
    error, shares = float(made.so_far[-1]), made.shares
    if not math.isfinite(error):
        first = next(n for n, value in enumerate(made.so_far) if not math.isfinite(value))
        return f"O holds NaN or infinity from the step {TITLES[STAGES[first]]} on."
    if not error:
        return "O is what float64 says, to the last digit."
    most = int(np.argmax(shares))
    return (
        f"{made.label}: O's RMS error is {_e(error)}, {_of(error, rms(made.exact))} of its elements' size. Most of it "
        f"comes from the step {TITLES[STAGES[most]]}: {shares[most]:.0%} of the squared error by covariance. Its own "
        f"change has {(made.sizes[most] / error) ** 2:.0%} of the squared error."
    )


def states(made: Replay) -> list[stage.State]:
    """The strip: the error so far and what the step brought, as RMS of O's elements."""
    parts, so_far, shares = made.sizes, made.so_far, made.shares
    bits = [_bits(error, rms(made.exact)) for error in so_far]
    return [
        stage.State("RMS error of O so far", [_e(value) for value in so_far]),
        stage.State("this step moves O by", [_e(value) for value in parts]),
        stage.State("of the squared error, by covariance", [_percent(share) for share in shares]),
        stage.State("bits of O that are right", bits),
    ]


def _percent(share: float) -> str:
    if not math.isfinite(share):
        return "none"
    return "less than 0.1%" if 0 < abs(share) < 0.0005 else f"{share:.1%}"


def _of(error: float, size: float) -> str:
    """A share: in percent, or of how many one part is."""
    share = error / size
    return f"{share:.2g}" if share < 1e-4 else f"{share:.2%}"


def _bits(error: float, size: float) -> str:
    if not math.isfinite(error):
        return "none"
    return "all of float64" if not error else f"{math.log2(size / error):.1f}"


def questions(story: Story) -> list[stage.Question]:
    """Asked before the picture is read; the keys are the run's."""
    made, asked = story.chosen, []
    sizes = made.sizes
    largest = sorted(np.argsort(-sizes)[:OPTIONS].tolist())
    if np.isfinite(sizes).all() and (sizes[largest] > 0).all():
        most = int(np.argmax(sizes))
        asked.append(
            stage.Question(
                "most",
                f"{made.request.kernel.name} computes in {made.label}. Which of these steps moves O the most?",
                "options",
                largest.index(most),
                f"{TITLES[STAGES[most]]} moves O by {_e(sizes[most])} (RMS), "
                f"{sizes[most] / sorted(sizes)[-2]:.2g} times as much as the next.",
                options=[TITLES[STAGES[n]] for n in largest],
                step=most,
                view="rounding",
                veils=("strip", "headline", "picture", "tabs", "sentence"),
            )
        )
    at = story.all.index(made)
    other = next((r for r in (*story.all[at + 1 :], *story.all[:at][::-1]) if r.label != made.label), None)
    if other and 0 < made.so_far[-1] < np.inf and 0 < other.so_far[-1] < np.inf:
        ratio = other.so_far[-1] / made.so_far[-1]
        more, times = ("larger", ratio) if ratio > 1 else ("smaller", 1 / ratio)
        powers = _near(times)
        asked.append(
            stage.Question(
                "types",
                f"{other.request.kernel.name} computes the same in {other.label}. How many times {more} is its error?",
                "options",
                int(np.argmin([abs(math.log(times / power)) for power in powers])),
                f"Its RMS error is {_e(other.so_far[-1])} beside {_e(made.so_far[-1])}: {figure(times, 3)} times "
                f"{more}.",
                options=[f"about {power:,} times" for power in powers],
                step=len(STAGES) - 1,
                view="rounding",
                veils=("headline", "picture", "tabs"),
            )
        )
    return asked


def _near(times: float) -> list[int]:
    """Four numbers to choose from, of which one is near."""
    if times < 20:
        return [2, 8, 64, 1024]
    near = round(float(f"{times:.1g}"))
    return [2, 8, near, 10 * near] if near <= 100 else [near // 100, near // 10, near, 10 * near]


# ---- tables and words ----


def types_table(story: Story) -> pd.DataFrame:
    """Every type: O's error beside float64, and beside what storing the exact O in that type would cost."""
    rows = []
    for made in story.all:
        least = _least(made)
        error = float(made.so_far[-1])
        rows.append(
            {
                "computes in": made.label,
                "kernel": made.request.kernel.name,
                "RMS error of O": _e(error),
                "of O's size": f"{error / rms(made.exact):.2g}",
                "largest error": _e(float(np.abs(made.o[-1]).max())),
                "exact O stored in its type": _e(least),
                "times that": f"{error / least:.3g}" if least else "",
                "chosen": made is story.chosen,
            }
        )
    return pd.DataFrame(rows)


def parts_table(story: Story) -> pd.DataFrame:
    """Every type: by how much each stage moves O (RMS)."""
    return pd.DataFrame(
        [
            {"computes in": made.label, **dict(zip(list(TITLES.values())[1:], map(_e, made.sizes[1:])))}
            for made in story.all
        ]
    )


def meaning(made: Replay) -> str:
    """What the numbers mean for a model, in a sentence."""
    error, size = float(made.so_far[-1]), rms(made.exact)
    if not math.isfinite(error):
        return f"{made.label}: one NaN or infinity here makes every later number of a model NaN."
    kind = element_type(picture.tensor_at(made.request, "O").dtype)
    least = _least(made)
    if kind.bytes > 2:
        step = rms(rounding.rounded_to(made.exact, "bfloat16") - made.exact)
        if error < step:
            return (
                f"{made.label}: a model that rounds O to bfloat16 next adds {figure(round(step / error))} times this "
                "error there."
            )
        return f"{made.label}: the error is larger than that of rounding O to bfloat16; a model would notice it."
    said = (
        f"{made.label}: the error is {error / least:.2g} times what storing the exact O costs, {_of(error, size)} of O."
    )
    if error <= NOISE * least:
        return f"{said} A model that keeps its numbers in {kind.name} has noise of that size wherever it stores one."
    return f"{said} That is more than the noise that a model has from keeping its numbers in {kind.name}."


def _least(made: Replay) -> float:
    """The RMS error of the exact O, stored in the type of O."""
    return rms(rounding.rounded_to(made.exact, picture.tensor_at(made.request, "O").dtype) - made.exact)


def worst_rows_table(made: Replay) -> pd.DataFrame:
    """The rows with the largest errors of O: theirs of scores, weights, sum and O, and the key tile after which O was
    furthest off."""
    rows = []
    for row in made.worst_rows()[:SHOWN_ROWS]:
        at = row - made.rows[0]
        tile = made.tile[-1, at]
        known = np.isfinite(tile)
        rows.append(
            {
                "row": str(row),
                "a score": _e(_most(made.score[-1, at], made.score[0, at])),
                "a key's share": _e(_most(made.weight[-1, at], made.weight[0, at])),
                "l, of itself": _e(_most(made.sum[-1, at], made.sum[0, at])),
                "O": _e(_most(made.o[-1, at], made.o[0, at])),
                "O was furthest off after tile": str(int(np.nanargmax(tile))) if known.any() else "",
            }
        )
    return pd.DataFrame(rows)


def _most(errors: np.ndarray, there: np.ndarray) -> float:
    """The largest |error| of what is there; NaN where one is. there: the errors of stage 0, NaN of what is not."""
    return float(np.abs(errors[~np.isnan(there)]).max(initial=0.0))


def sweep_table(field: str, swept: Sequence[Replay]) -> pd.DataFrame:
    """A row for each replay of a sweep over a field of the problem: its value, the type, O's error as RMS and as a
    share of its RMS, and the step that moves O the most."""
    return pd.DataFrame(
        [
            {
                field: getattr(made.request.problem, field),
                "computes in": made.label,
                "RMS error of O": float(made.so_far[-1]),
                "relative error": float(made.so_far[-1] / rms(made.exact)),
                "most of it": TITLES[STAGES[int(np.argmax(made.sizes))]] if np.isfinite(made.sizes).all() else "NaN",
            }
            for made in swept
        ]
    )


def lead_sentence(made: Replay) -> tuple[str, int]:
    """What is said of the worst row, and the row, counted in its head."""
    row = int(made.worst_rows()[0])
    at = row - made.rows[0]
    error, inputs = _most(made.o[-1, at], made.o[0, at]), STAGES.index("inputs")
    heads = axes.heads(picture.tensor_at(made.request, "O"))
    of = f", of head {picture.query_rows(made.request)[0]}" if heads > 1 else ""
    said = f"The worst row of this tile is {row}{of}: O is off by up to {_e(error)} in it."
    if made.sizes[inputs]:
        rest = _most(made.o[-1, at] - made.o[inputs, at], made.o[0, at])
        said += f" Online softmax, which takes the rounded inputs as given, says {_e(rest)}."
    return said, row

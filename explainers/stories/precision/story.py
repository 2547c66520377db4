"""Precision: the source of a kernel's error, a step for each kind of its own numbers, next to equal numbers in every
other type."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explainers.stories.precision import error_tables, gradients, rounding
from explainers.stories.precision.error_tables import TITLES, WORDS, Replays, percent, short
from explainers.stories.precision.rounding import STAGES, Replay, rms
from explainers.story import axes, picture, questions, scene, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import figure, logged
from explainers.story.stage import Block, Stage, State, Tab, View
from explainers.story.words import Row
from kernels.core.dtypes import DTYPES, element_type
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import WarpglassError
from kernels.run.results import Run

ASKED, PICTURE = WORDS.table("asked"), WORDS.table("picture")
GROWTHS = {float(growth): text for growth, text in WORDS.table("growths").items()}
OPTIONS = 4  # of a question
PERCENTS = 0.01, 0.1, 1, 2  # of an error: the limits of a small change
NOISE = 3.0  # times the error of storing the exact O: the noise of its type
EVENTS = {  # stage -> its logged values
    "scores": ("score",),
    "exponential": ("m", "rescale", "p"),
    "weights": ("p",),
    "sum": ("l",),
    "output": ("o",),
}
COLOURS = {"data": "Q", "kernel": "P", "arithmetic": "other"}  # a cause of errors -> its colour
CAUSES = dict(zip(STAGES[1:], ("data", "arithmetic", "arithmetic", "kernel", "arithmetic", "arithmetic", "kernel")))
TABS = [
    Tab("types", "Every type"),
    Tab("spread", "Distribution"),
    Tab("sweep", "Sweeps"),
    Tab("rows", "Rows and tiles"),
    stage.BUILDS,
    stage.DATA,
]


@dataclass(frozen=True)
class Look:
    """The requests of the page.

    request: of the chosen kernel.
    others: of the other types.
    absent: (type, reason) of each type without a request.
    """

    request: Request
    others: tuple[Request, ...]
    absent: tuple[tuple[str, str], ...]


class Rounding(Story[Look]):
    """The error of O by the steps that round."""

    WANTS = rounding.WANTS

    def refusal(self, spec: KernelSpec) -> str:
        return gradients.refusal(spec) if gradients.is_backward(spec) else rounding.refusal(spec)

    def stage(self, subject: Look, runner: Runner) -> Stage:
        if gradients.is_backward(subject.request.kernel):
            return gradients.stage_of(subject.request, runner)
        run = runner.run(subject.request)
        replays, absent = replays_of(subject, runner)
        return stage_of(replays, run, runner.provenance(run), runner.broken(run), absent)

    def parts(self) -> dict[str, Part[Look]]:
        return {
            "types": types_tab,
            "spread": spread_tab,
            "gradients": lambda look, runner: gradients.gradients_tab(look.request, runner),
        }


def explain(run: Run, others: Sequence[Run] = ()) -> Replays:
    """The Replays of a Run of one query tile. others: runs of the same numbers (rounding.same_numbers)."""
    return Replays(rounding.replay(run), tuple(map(rounding.replay, others)))


def replays_of(look: Look, runner: Runner) -> tuple[Replays, list[tuple[str, str]]]:
    """The replays of every type, and (type, reason) of each missing type."""
    found, absent = list[Run](), [*look.absent]
    for request in look.others:
        label = rounding.label_of(request)
        try:
            if rounding.same_numbers(look.request, request):
                found.append(runner.run(request))
            else:
                absent.append((label, WORDS.say("refused", {"kernel": request.kernel.name})))
        except WarpglassError as error:
            absent.append((label, error.brief))
    return explain(runner.run(look.request), found), absent


def stage_of(
    replays: Replays, run: Run, provenance: stage.Provenance, broken: tuple[str, str], absent: Sequence[tuple[str, str]]
) -> Stage:
    """The whole stage.

    broken: the effect of a broken build, and its tone. Empty for any other build.
    absent: missing types, with the reason.
    """
    made, data = replays.chosen, data_of(run, replays)
    frames = WORDS.frames(data["steps"], data)
    of_size = rms(made.exact)
    bits = [
        "none" if not math.isfinite(e) else f"{math.log2(of_size / e):.1f}" if e else "all of float64"
        for e in made.so_far.tolist()
    ]
    whole = stage.of_request(
        run.request,
        frames,
        [view(replays, absent)],
        state=[
            State("RMS error of O so far", [short(value) for value in made.so_far]),
            State("this step moves O by", [short(value) for value in made.sizes]),
            State("of the squared error, by covariance", [percent(share) for share in made.shares]),
            State("bits of O that are right", bits),
        ],
        tabs=TABS,
        provenance=provenance,
        summary=broken[0] or WORDS.say("summary", data),
        tone=broken[1] if broken[0] else "info",
        lead="lead",
        questions=WORDS.questions(data, len(STAGES) - 1),
        step=len(frames) - 1,
    )
    off = [
        {"kernel": one.request.kernel.name, "share": f"{rms(one.left_over) / rms(one.o[-1]):.1%}"}
        for one in replays.all
        if not one.ends_there
    ]
    return stage.warned(whole, [WORDS.say("off", one) for one in off])


def data_of(run: Run, replays: Replays) -> Row:
    """Every number of the sentences and questions. steps: a row for each stage."""
    made = replays.chosen
    request, error = made.request, float(made.so_far[-1])
    given, taken, written = (picture.tensor_at(request, place).dtype for place in "QVO")
    row, _ = np.unravel_index(np.argmax(np.abs(np.nan_to_num(made.o[-1], nan=np.inf))), made.exact.shape)
    scores, weights, sums = (_largest_of_parts(errors) for errors in (made.score, made.weight, made.sum))
    moved, left = max(made.moved.values()), float(np.abs(made.left_over).max())
    same: Row = {
        **{"label": made.label, "given": given, "taken": taken, "written": written},
        "bits": request.value_of("sum_bits") or 32,
        "low": element_type(taken).bytes <= 2,
        "moved": short(moved) if moved else "",
        "left": short(left) if left else "",
        "largest": short(np.abs(made.o[-1][row]).max()),
        "row": made.rows[0] + int(row),
    }
    lines, steps = _lines(run), list[Row]()
    for n, name in enumerate(STAGES):
        part, before, now = (float(v) for v in (made.sizes[n], made.so_far[max(0, n - 1)], made.so_far[n]))
        step: Row = {
            **{"tile": -1, "phase": name, "lines": lines[name], "step": name, "n": n, "title_text": TITLES[name]},
            **{"score": short(scores[n]), "weight": short(weights[n]), "total": short(sums[n]), "part": part},
            **{"finite": math.isfinite(now), "was_finite": math.isfinite(before)},
            **{"before_so_far": short(before), "now_so_far": short(now)},
            "percent": next((limit for limit in PERCENTS if 100 * part < limit * before), None),
        }
        steps.append({**same, **step, "told": WORDS.say("told", step)})
    wrong = [TITLES[name] for name, value in zip(STAGES, made.so_far) if not math.isfinite(value)]
    return {
        **same,
        "steps": steps,
        "first_wrong": wrong[0] if wrong else "",
        "error": short(error) if error else "",
        "of_size": error_tables.part_of(error, rms(made.exact)),
        "most_of_it": "" if wrong or not error else TITLES[STAGES[int(np.argmax(made.shares))]],
        **_asked(replays),
    }


def _lines(run: Run) -> dict[str, dict[str, int]]:
    """Stage -> the lines of code with its values, and how often they ran."""
    sites = run.sites
    counts = np.bincount(sites.index(run.trace.table), minlength=len(sites))
    by_event: dict[str, dict[str, int]] = {}
    for site, times in zip(sites, counts.tolist()):
        moved = site.kind == "access" and site.space == "global"
        name = site.event if site.kind == "value" else f"{site.tensor}" if moved else ""
        if name and times:
            by_event.setdefault(name, {})[site.place] = times
    symbols = {place: symbol for symbol, place in picture.places(run.request).items()}
    events = EVENTS | {"inputs": tuple(symbols[place] for place in "QKV"), "write": (symbols["O"],)}
    return {
        name: {place: n for event in events.get(name, ()) for place, n in by_event.get(event, {}).items()}
        for name in STAGES
    }


def _largest_of_parts(errors: np.ndarray) -> list[float]:
    """The largest change by each stage, from errors so far [stages, ...]."""
    with np.errstate(invalid="ignore"):
        changes = np.abs(np.diff(errors, axis=0, prepend=0.0)).reshape(len(errors), -1)
    present = ~np.isnan(errors[0]).ravel()
    return [float(change[present].max(initial=0.0)) for change in changes]


def _asked(replays: Replays) -> Row:
    """The steps and types that the questions compare. The answer of the second one is covered in the first one, too."""
    made, sizes = replays.chosen, replays.chosen.sizes
    most: Row = {}
    types: Row = {}
    at = replays.all.index(made)
    other = next((r for r in (*replays.all[at + 1 :], *replays.all[:at][::-1]) if r.label != made.label), None)
    largest = sorted(np.argsort(-sizes)[:OPTIONS].tolist())
    of_other = [{"type": other.label}] if other else []
    if np.isfinite(sizes).all() and (sizes[largest] > 0).all():
        steps = [{"step": STAGES[n], "title": ASKED[STAGES[n]], "size": short(sizes[n])} for n in largest]
        right = STAGES[int(np.argmax(sizes))]
        most = {
            **next(step for step in steps if step["step"] == right),
            "times": figure(sizes.max() / sorted(sizes)[-2], 2),
            "titles": [step["title"] for step in steps],
            "others": [step for step in steps if step["step"] != right],
            "covers": [{"figure": "moved"}, *of_other],
        }
    if other and 0 < made.so_far[-1] < np.inf and 0 < other.so_far[-1] < np.inf:
        growth = questions.nearest(GROWTHS, float(other.so_far[-1] / made.so_far[-1]))
        options = sorted([growth, *[one for one in GROWTHS if one != growth][: OPTIONS - 1]])
        types = {
            **{"other": other.label, "growth": growth, "right": GROWTHS[growth]},
            "options": [GROWTHS[one] for one in options],
            "others": [{"growth": one, "text": GROWTHS[one]} for one in options if one != growth],
            "figures": f"{short(other.so_far[-1])} in {other.label}, {short(made.so_far[-1])} in {made.label}",
            "bits": DTYPES[other.label].digits if {other.label, made.label} <= set(DTYPES) else 0,
            "own": DTYPES[made.label].digits if made.label in DTYPES else 0,
            "covers": of_other,
        }
    return {"most": most, "types": types}


# ---- the picture ----


def view(replays: Replays, absent: Sequence[tuple[str, str]] = ()) -> View:
    """How far each step moves O, the error of each type, and the errors of S, P, l and O, number by number.

    absent: missing types, with the reason.
    """
    made = replays.chosen
    moves, errors_of = made.sizes[1:], np.array([one.so_far[-1] for one in replays.all])
    moved, ends = (np.where(np.isfinite(sizes), sizes, 0.0).tolist() for sizes in (moves, errors_of))
    steps = scene.Bars(
        title=[f"{made.label}: {PICTURE['steps']}"],
        key="moved",
        bars=[
            scene.Bar(
                name=TITLES[name],
                value=moved[n],
                text=short(made.sizes[n + 1]),
                colour=COLOURS[CAUSES[name]] if math.isfinite(made.sizes[n + 1]) else "wrong",
                now=[n + 1],
                go=n + 1,
                datum={"step": name},
                tip="\n".join(
                    f"{one.label}: {TITLES[name]} moves O by {logged(one.sizes[n + 1])} (RMS)" for one in replays.all
                ),
            )
            for n, name in enumerate(STAGES[1:])
        ],
    )
    types = scene.Bars(
        title=[PICTURE["types"]],
        bars=[
            scene.Bar(
                name=one.label,
                value=length,
                text=short(one.so_far[-1]),
                colour="O" if math.isfinite(one.so_far[-1]) else "wrong",
                strong=one is made,
                datum={"type": one.label},
                tip=f"{one.label}, {one.request.kernel.name}, rows {one.rows[0]} to {one.rows[1] - 1}\n"
                f"RMS error of O: {logged(one.so_far[-1])}",
            )
            for one, length in zip(replays.all, ends)
        ],
    )
    columns: dict[str, np.ndarray] = {}
    maps = []
    for name, axis, share, errors in (
        ("S", "key", 0.28, made.score),
        ("P", "key", 0.28, made.weight),
        ("l", "tile", 0.18, made.sum),
        ("O", "dim", 0.26, made.o),
    ):
        kept: list[np.ndarray] = []
        at = []
        for so_far in errors:
            if not kept or not np.array_equal(kept[-1], so_far, equal_nan=True):
                kept.append(so_far)
            at.append(len(kept) - 1)
        columns[name] = np.array(kept)
        most = [_largest(so_far[~np.isnan(errors[0])]) for so_far in kept]
        maps.append(
            scene.Map(
                part=name,
                title=[[f"{name}, {PICTURE[name]}: {most[n]}", f"{name}: {most[n]}", name] for n in at],
                column=name,
                columns=errors.shape[2],
                at=at,
                axes=("row", axis),
                first=made.rows[0],
                lines=made.edges[0][1] if axis == "key" else 0,
                unit=", of itself" if name == "l" else "",
                blank=PICTURE["hidden"],
                share=share,
            )
        )
    finite = all(math.isfinite(value) for value in (*made.so_far, *errors_of))
    legend = [(colour, PICTURE[cause]) for cause, colour in COLOURS.items()]
    legend += [("sign", PICTURE["sign"]), *([] if finite else [("wrong", PICTURE["wrong"])])]
    lines: list[Sequence[scene.Panel]] = [[steps, types], maps]
    if absent:
        lines.insert(1, [scene.texts([f"{label} is missing: {why}" for label, why in absent])])
    return scene.view("rounding", "Errors", lines, legend=legend, columns=columns)


def _largest(errors: np.ndarray) -> str:
    """The largest |error| in words: up to 3.1e-4."""
    wrong = [f"{np.isnan(errors).sum():,} NaN"] if np.isnan(errors).any() else []
    wrong += [f"{np.isinf(errors).sum():,} infinite"] if np.isinf(errors).any() else []
    most = 0.0 if wrong else float(np.abs(errors).max(initial=0.0))
    return " and ".join(wrong) or (f"up to {short(most)}" if most else "none")


# ---- the tabs and the lead ----


def types_tab(look: Look, runner: Runner) -> list[Block]:
    """The error of every type, its causes, and its meaning for a model."""
    replays, absent = replays_of(look, runner)
    rows = [{"label": one.label, "first": one.rows[0], "last": one.rows[1] - 1} for one in replays.all]
    return [
        stage.heading("The same numbers in every type"),
        stage.table(
            error_tables.types_table(replays), WORDS.say("types", {"rows": rows, "absent": absent}), lit="chosen"
        ),
        stage.text(WORDS.say("parts", {})),
        stage.heading("The change of O by each step"),
        stage.table(error_tables.parts_table(replays), "Root mean square over the elements of O."),
        stage.heading("The meaning for a model"),
        *(stage.text(meaning(one), "derived") for one in replays.all),
    ]


def meaning(made: Replay) -> str:
    """The meaning of the numbers for a model, in a sentence."""
    error = float(made.so_far[-1])
    kind = element_type(picture.tensor_at(made.request, "O").dtype)
    least = error_tables.least(made)
    step = rms(rounding.rounded_to(made.exact, "bfloat16") - made.exact)
    finite = math.isfinite(error)
    return WORDS.say(
        "meaning",
        {
            **{"label": made.label, "kind": kind.name, "finite": finite, "wide": kind.bytes > 2},
            "step_times": figure(round(step / error)) if finite and error < step else "",
            "times": figure(error / least, 2) if least else "",
            "share": error_tables.part_of(error, rms(made.exact)),
            "noise": error <= NOISE * least,
        },
    )


def spread_tab(look: Look, runner: Runner) -> list[Block]:
    """The distribution of the errors of O's elements, type by type."""
    replays, _ = replays_of(look, runner)
    about = "The share of elements of O up to each error, for each type"
    return [stage.chart(error_tables.spread(replays), about, WORDS.say("spread", {}), "O's error")]


def lead_sentence(made: Replay) -> tuple[str, int]:
    """The sentence on the worst row, and the row, counted in its head."""
    row, inputs = int(made.worst_rows()[0]), STAGES.index("inputs")
    at = row - made.rows[0]
    several = axes.heads(picture.tensor_at(made.request, "O")) > 1
    rest = error_tables.most(made.o[-1, at] - made.o[inputs, at], made.o[0, at])
    names = {
        "row": row,
        "head": picture.query_rows(made.request)[0] if several else None,
        "error": short(error_tables.most(made.o[-1, at], made.o[0, at])),
        "rest": short(rest) if made.sizes[inputs] else "",
    }
    return WORDS.say("lead", names), row


STORY = Rounding()

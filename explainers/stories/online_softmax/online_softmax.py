"""The story of the online softmax: one row's scores, running max m and sum l, rescale factor and O, step by step.

Ordinary softmax of the same row in float64 gives the right values. A what-if build shows its first wrong step. The
charts are in row_charts.py, the sentences of the steps in softmax_steps.py.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from explainers.models import softmax_rows
from explainers.models.softmax_rows import OF_MARKS, WRONG, is_optimistic, is_ordinary, m_name
from explainers.stories.online_softmax.factor_questions import questions_of
from explainers.stories.online_softmax.frames import RowFrame, RowMeta
from explainers.stories.online_softmax.row_frames import frames_of, keys_of, row_records, tiles_of, walk_of
from explainers.stories.online_softmax.row_states import states
from explainers.stories.online_softmax.row_story import RowStory
from explainers.stories.online_softmax.softmax_steps import Manner, text_of
from explainers.story import axes, picture, stage
from explainers.story.glossary import listed, short
from explainers.story.picture import query_rows, tensor_at
from kernels.core import reference
from kernels.core.dtypes import element_type
from kernels.core.tolerance import max_abs_error
from kernels.errors import ProblemError
from kernels.run.results import Run


def rows_of(run: Run) -> tuple[int, int, tuple[int, int]]:
    """First and last row (inclusive) of the run's query tile, and its batch and head."""
    head, first, end = query_rows(run.request)
    return first, end - 1, divmod(head, axes.length(tensor_at(run.request, "O"), "head"))


def walks_of(run: Run, row: int, head: int) -> list[int]:
    """The numbers of the walks over parts of a row's keys, each with its own m and l. Empty if one walk has all keys.
    The key `walk` of the marks gives them."""
    records = row_records(run, row, head)
    return sorted(int(walk) for walk in records[records.event == "score"].walk.dropna().unique())


def explain(run: Run, row: int, head: int | None = None, walk: int | None = None) -> RowStory:
    """The RowStory of one row.

    head: counted over the batch. The head of the traced query tile by default.
    walk: one of walks_of, or None if it is empty.
    """
    request = run.request
    head = query_rows(request)[0] if head is None else head
    truth = softmax_rows.of_row(run, head, row)
    s_true, o, o_true = truth.scores, truth.o, truth.o_true
    records, numbers, part = row_records(run, row, head), np.arange(len(s_true)), ""
    if walk is not None:
        records = walk_of(records, walk, len(s_true))
        numbers = np.unique(records[records.event == "score"].col).astype(int)
        part = f" Walk {walk} has {len(numbers)} of the row's {len(s_true)} keys."
        s_true = s_true[numbers]
    if lacking := [event for event in OF_MARKS if not (records.event == event).any()]:
        raise ProblemError(
            f"The run logged no {listed(lacking)} of row {row} of head {head}. Look at the keys of its probes or marks."
        )
    p_true = reference.softmax(s_true)
    m_true, l_true = reference.prefix_max_and_sum(s_true, [len(s_true)])
    ordinary = is_ordinary(request.kernel)
    tiles = tiles_of(records, s_true, ordinary)
    limits = request.value_of("threshold"), request.value_of("share")
    manner = Manner(ordinary, is_optimistic(request.kernel), bool(request.broken), *limits)
    rounding = 2.0 ** (1 - element_type(tensor_at(request, "O").dtype).digits)
    frames, o_values = frames_of(records, tiles, manner, o, o_true, rounding)
    wrong = next((number for number, frame in enumerate(frames) if frame["wrong"]), None)
    error = max_abs_error(o, o_true)
    keys = keys_of(records, p_true, tiles, ordinary).assign(key=numbers, score_true=s_true)
    summary, tone = _summary(run, frames, wrong, error)
    ends = float(m_true[-1]), float(l_true[-1])
    return RowStory(frames, tiles, keys, o_values, o_true, *ends, wrong, error, summary + part, tone)


def view(run: Run, story: RowStory, row: int) -> tuple[RowMeta, dict[str, np.ndarray]]:
    """The meta and the columns of the view `row`."""
    tile_of, ordinary = story.keys.tile.fillna(0).clip(lower=0).astype(int), is_ordinary(run.request.kernel)
    meta: RowMeta = {
        "frames": story.frames,
        "row": row,
        "ordinary": ordinary,
        "m_name": m_name(ordinary, is_optimistic(run.request.kernel)),
        "keys": story.keys.key.tolist(),
        "tile_of": tile_of.tolist(),
        "block_kv": picture.block_kv(run.request, int(tile_of.value_counts().max())),
        "error": story.error,
        "weight_top": 1 / story.ordinary_l
        if ordinary
        else float(max(1, story.keys.p[np.isfinite(story.keys.p)].max())),
        "o_true": story.o_true.tolist(),
    }
    logged = {"scores": story.keys.score.to_numpy(), "weights": story.keys.p.to_numpy(), "o": story.o_values}
    with np.errstate(over="ignore"):
        return meta, logged | {name: values.astype(np.float32) for name, values in counted(story, ordinary).items()}


def counted(story: RowStory, ordinary: bool) -> dict[str, np.ndarray]:
    """The row's numbers as they count at each step: the logged ones times the factors logged since. All are derived.

    state [steps]: the place among the states of the weights.
    weight, due, off [states, keys]: the weights, the same in float64 for the logged m, and whether they differ beyond
        rounding.
    summed [steps]: the number of weights in l.
    l_factor, l, l_off [steps]: the factor of l since its record, l as it counts, and whether the weights in it have
        another sum.
    o_factor, o_state [steps]: the factor of O since its record, and the place among the states of O, or -1.
    o_now [states, dims]: O as it counts.
    o_off [dims]: whether O differs from float64 in the end.
    is_power [steps]: whether the factor of the step is e^(m before - m).
    """
    p, scores = story.keys.p.to_numpy(np.float64), story.keys.score_true.to_numpy(np.float64)
    tile_of = story.keys.tile.fillna(0).clip(lower=0).to_numpy(int)
    decay, o_factor, summed = np.ones(len(p)), 1.0, 0
    states: dict[tuple[bytes, str], int] = {}
    o_states: dict[tuple[int, float], int] = {}
    weights, dues, o_now = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    rows = list[dict[str, float]]()
    l_before, o_before = None, -1
    with np.errstate(all="ignore"):
        for frame in story.frames:
            m, before, rescale = (
                np.nan if value is None else float(value) for value in (frame["m"], frame["m_before"], frame["rescale"])
            )
            l, o = frame["l"], frame["o"]
            if frame["rescale"] is not None and frame["tile"] > 0:
                decay = np.where(tile_of < frame["tile"], decay * rescale, decay)
                o_factor = o_factor * rescale
            if frame["group"] == "sum" or str(l) != str(l_before):
                summed = frame["weighed"]
            if frame["group"] == "output" or o != o_before:
                o_factor = 1.0
            l_before, o_before = l, o
            state = states.setdefault((decay.tobytes(), str(m)), len(states))
            if state == len(weights):
                weights.append(p if ordinary else p * decay)
                exact = np.exp(scores - story.ordinary_m) / story.ordinary_l if ordinary else np.exp(scores - m)
                dues.append(exact)
            o_state = o_states.setdefault((o, o_factor), len(o_states)) if o >= 0 else -1
            if o_state == len(o_now):
                o_now.append(story.o_values[o] * o_factor)
            l_now = np.nan if l is None else float(l) * frame["l_factor"]
            parts = weights[state][:summed]
            total = parts[np.isfinite(parts)].sum()
            rows.append(
                {
                    "state": state,
                    "summed": summed,
                    "l_factor": frame["l_factor"],
                    "l": l_now,
                    "l_off": not abs(total - l_now) <= WRONG * max(l_now, WRONG),
                    "o_factor": o_factor,
                    "o_state": o_state,
                    "is_power": abs(np.exp(before - m) - rescale) <= WRONG * rescale,
                }
            )
        weight, due = np.array(weights), np.array(dues)
        off = ~(np.abs(weight - due) <= WRONG * np.maximum(due, WRONG))
        o_off = ~(np.abs(story.o_values[-1] - story.o_true) <= WRONG)
    by_state = {"weight": weight, "due": due, "off": off, "o_now": np.array(o_now), "o_off": o_off}
    return by_state | {str(name): column.to_numpy() for name, column in pd.DataFrame(rows).items()}


def stage_of(
    run: Run, story: RowStory, row: int, provenance: stage.Provenance, beside: Sequence[stage.View] = ()
) -> stage.Stage:
    """The whole stage of a row. beside: more pictures, after the row's own."""
    return stage.Stage(
        headline=stage.headline(run.request.kernel),
        frames=story.frames,
        views=[stage.View("row", "row", f"Row {row}", *view(run, story, row)), *beside],
        codes=[stage.code(run.request, story.frames)],
        state=states(story, is_ordinary(run.request.kernel), is_optimistic(run.request.kernel)),
        tabs=[
            stage.Tab("charts", "Max and sum"),
            stage.Tab("ordinary", "Ordinary softmax"),
            stage.Tab("builds", "Builds"),
            stage.Tab("data", "Data and labels"),
        ],
        provenance=provenance,
        summary=story.summary,
        tone=story.tone,
        step=story.first_wrong or 0,
        questions=questions_of(story, run.request.kernel),
    )


def ordinary_table(story: RowStory) -> pd.DataFrame:
    """The row at its end beside ordinary softmax in float64: quantity, this kernel, float64."""
    end = story.frames[-1]
    rows = [
        ("max m", end["m"], story.ordinary_m),
        ("sum l", end["l"], story.ordinary_l),
        ("O, dim 0", story.o_values[-1][0], story.o_true[0]),
        ("largest error of the row", story.error, None),
    ]
    shown = [(name, text_of(own), "" if due is None else text_of(due)) for name, own, due in rows]
    return pd.DataFrame(shown, columns=["", "this kernel", "ordinary softmax, float64"])


def _summary(run: Run, frames: list[RowFrame], wrong: int | None, error: float) -> tuple[str, str]:
    """The result of the whole row in a sentence or two, and its tone. For a what-if build: the place and reason of the
    error, or of its absence."""
    broken = run.request.broken
    if wrong is None and not broken:
        return f"The row agrees with float64 at every step. Its largest error is {short(error, 2)}.", "good"
    if wrong is None:
        return f"{broken[0].what_if}: {broken[0].effect} It makes no difference in this row.", "info"
    why = " ".join(f"{c.what_if}: {c.effect}" for c in broken) or "The kernel as written should not do this."
    largest = (
        f"The largest error of the row is {short(error, 3)}."
        if np.isfinite(error)
        else "The row holds NaN or infinity."
    )
    return f"The row goes wrong at step {wrong + 1}, {frames[wrong]['title']}. {why} {largest}", "bad"

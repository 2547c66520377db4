"""The online softmax story: one row's scores, running max m and sum l, rescale factor and O, step by step, beside
float64.

The same row by ordinary softmax in float64 says what is due; a what-if build shows where it goes wrong. The charts are
in row_charts.py, the sentences of the steps in softmax_steps.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.online_softmax.frames import RowFrame, RowMeta
from explainers.stories.online_softmax.softmax_steps import WRONG, Manner, tell, told
from explainers.stories.tiling import tiling
from explainers.story import axes, marks, picture, probed, stage
from explainers.story.picture import query_rows, tensor_at
from kernels.core import reference
from kernels.core.dtypes import element_type
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import max_abs_error
from kernels.errors import ProblemError
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.probes import sites_of

GROUPS = {
    "score": "scores",
    "refused": "refused",
    "tile_max": "max",
    "m": "max",
    "rescale": "rescale",
    "p": "weights",
    "l": "sum",
    "o": "output",
}
NEEDS = {"score": ("row", "col"), "m": ("row",), "p": ("row", "col"), "l": ("row",), "o": ("row", "dim")}
WANTS = tuple(event for event in GROUPS if event != "refused")
TITLES = {
    "scores": "Scores",
    "refused": "Sums refused",
    "max": "Max",
    "rescale": "Rescale",
    "weights": "Weights",
    "sum": "Sum",
    "output": "Output",
    "final": "Result",
}


@dataclass(frozen=True)
class RowStory:
    """The steps of one row, and what float64 says of it.

    frames: one per step, for the browser. tiles: tile, m, l, m_true, l_true. keys: the row's keys, one row each: score,
    p (as logged), tile, weight (what it counts for in the end, over l), score_true and weight_true (in float64).
    o_values [outputs logged, head_dim]; o_true [head_dim] float64. ordinary_m, ordinary_l: max and sum of the whole
    row's softmax in float64. first_wrong: the first frame off beyond rounding, if any. error: the row's largest.
    summary: what the row shows, in words; tone: good, bad, or info for a what-if build that shows nothing here.
    """

    frames: list[RowFrame]
    tiles: pd.DataFrame
    keys: pd.DataFrame
    o_values: np.ndarray
    o_true: np.ndarray
    ordinary_m: float
    ordinary_l: float
    first_wrong: int | None
    error: float
    summary: str
    tone: str

    @property
    def steps(self) -> list[int]:
        """The step of the trace that each frame belongs to."""
        return [frame["moment"] for frame in self.frames]


def accepts(spec: KernelSpec) -> bool:
    """A kernel that the tiling story can show and that logs each row's scores, max, weights, sum and output."""
    return not refusal(spec)


def refusal(spec: KernelSpec) -> str:
    """A sentence that says why the story cannot show a kernel; empty if it can."""
    return tiling.refusal(spec) or probed.without_events(spec, NEEDS)


def rows_of(run: Run) -> tuple[int, int, tuple[int, int]]:
    """First and last row (inclusive) of the query tile that the run traced, and its batch and head."""
    head, first, end = query_rows(run.request)
    return first, end - 1, divmod(head, axes.length(tensor_at(run.request, "O"), "head"))


def explain(run: Run, row: int) -> RowStory:
    """The RowStory of one row of the traced query tile."""
    request, problem = run.request, run.request.problem
    head = query_rows(request)[0]
    q, k, v, o = (picture.matrix(run, place, head) for place in "QKVO")
    sees = row + picture.mask_offset(request) + 1 if problem.causal else len(k)
    if sees < 1:
        raise ProblemError(
            f"Row {row} sees no key: its last would be {sees - 1}. Choose row {row - sees + 1} or later."
        )
    s_true = reference.scores(q[row : row + 1], k, problem.sizes["scale"], False)[0][:sees]
    p_true = reference.softmax(s_true)
    m_true, l_true = reference.prefix_max_and_sum(s_true, [len(s_true)])
    o_true = p_true @ v[: len(p_true)].astype(np.float64)
    records = _row_records(run, row)
    ordinary = is_ordinary(run.request.kernel)
    tiles = _tiles(records, s_true, ordinary)
    limits = request.constants.get("THRESHOLD"), request.constants.get("SHARE")
    manner = Manner(ordinary, is_optimistic(request.kernel), bool(request.broken), *limits)
    rounding = 2.0 ** (1 - element_type(tensor_at(request, "O").dtype).digits)
    frames, o_values = _frames(records, tiles, manner, o[row], o_true, rounding)
    wrong = next((number for number, frame in enumerate(frames) if frame["wrong"]), None)
    error = max_abs_error(o[row], o_true)
    keys = _keys(records, p_true, tiles, ordinary).assign(score_true=s_true)
    summary, tone = _summary(run, frames, wrong, error)
    ends = float(m_true[-1]), float(l_true[-1])
    return RowStory(frames, tiles, keys, o_values, o_true, *ends, wrong, error, summary, tone)


def view(run: Run, story: RowStory, row: int) -> tuple[RowMeta, dict[str, np.ndarray]]:
    """What the view `row` draws: its meta and its columns."""
    tile_of, ordinary = story.keys.tile.fillna(0).clip(lower=0).astype(int), is_ordinary(run.request.kernel)
    meta: RowMeta = {
        "frames": story.frames,
        "row": row,
        "ordinary": ordinary,
        "m_name": m_name(ordinary, is_optimistic(run.request.kernel)),
        "tile_of": tile_of.tolist(),
        "block_kv": picture.block_kv(run.request, int(tile_of.value_counts().max())),
        "error": story.error,
        "total": {"m": story.ordinary_m, "l": story.ordinary_l},
        "scores_true": story.keys.score_true.tolist(),
        "o_true": story.o_true.tolist(),
    }
    return meta, {"scores": story.keys.score.to_numpy(), "weights": story.keys.p.to_numpy(), "o": story.o_values}


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
        questions=questions_of(story, run.request.kernel),
    )


def states(story: RowStory, ordinary: bool, optimistic: bool) -> list[stage.State]:
    """The strip: m, l and the rescale factor as logged, each next to float64, and whether the row agrees so far. The m
    of an optimistic kernel is a reference, which need not be the max. The factor in float64 comes from the float64
    scores that the kernel's m are."""
    due: dict[str, list[Any]] = {"m": [], "l": []}
    factors: list[tuple[Any, Any]] = []
    now: dict[str, Any] = {"m": None, "l": None}
    scores = story.keys.score_true.to_numpy()
    for frame in story.frames:
        now |= {"m": frame["m_true"]} if frame["group"] == "max" and frame["m"] is not None else {}
        now |= {"l": frame["l_true"]} if frame["group"] == "sum" else {}
        for name in due:
            due[name].append(now[name])
        before, m, factor = frame["m_before"], frame["m"], frame["rescale"]
        exact = None
        if factor is not None and before is not None and m is not None:
            exact = float(np.exp(_in_float64(float(before), scores) - _in_float64(float(m), scores)))
        factors.append((factor, exact))
    running = "" if ordinary else "running "
    found = [
        stage.State(m_name(ordinary, optimistic), [_number(f["m"]) for f in story.frames], colour="S"),
        stage.State("max in float64" if optimistic else "m in float64", [told(v) for v in due["m"]]),
        stage.State(f"{running}sum l", [_number(f["l"]) for f in story.frames], colour="P"),
        stage.State("l in float64", [told(v) for v in due["l"]]),
    ]
    if not ordinary:
        found += [
            stage.State("rescale factor", [told(v) for v, _ in factors]),
            stage.State("factor in float64", [told(v) for _, v in factors]),
        ]
    return [*found, stage.State("this row", _verdicts(story))]


def _in_float64(m: float, scores: np.ndarray) -> float:
    """The float64 score that a logged m is: the nearest one, within rounding. A what-if build may have another m, for
    example 0; such an m stays as it is. scores: of the row, in float64."""
    if not np.isfinite(m):
        return float(m)
    near = float(scores[np.argmin(np.abs(scores - m))])
    return near if abs(near - m) <= WRONG * max(1.0, abs(m)) else float(m)


def _verdicts(story: RowStory) -> list[str]:
    """For each frame, in few words, whether the row agrees with float64."""
    wrong, last = story.first_wrong, len(story.frames) - 1
    end = "no difference here" if story.tone == "info" else "agrees with float64"
    said = [end if n == last else "agrees so far" for n in range(last + 1)]
    return [s if wrong is None or n < wrong else f"wrong since step {wrong + 1}" for n, s in enumerate(said)]


def _number(value: Any) -> Any:
    """A number of the strip; NaN and infinity by name."""
    return value if value is None or np.isfinite(value) else told(value)


def ordinary_table(story: RowStory) -> pd.DataFrame:
    """The row at its end beside ordinary softmax in float64: quantity, this kernel, float64."""
    end = story.frames[-1]
    rows = [
        ("max m", end["m"], story.ordinary_m),
        ("sum l", end["l"], story.ordinary_l),
        ("O, dim 0", story.o_values[-1][0], story.o_true[0]),
        ("largest error of the row", story.error, None),
    ]
    shown = [(name, told(mine), "" if due is None else told(due)) for name, mine, due in rows]
    return pd.DataFrame(shown, columns=["", "this kernel", "ordinary softmax, float64"])


def questions_of(story: RowStory, kernel: KernelSpec) -> list[stage.Question]:
    """What can be asked of the row before it is read. The keys come from the logged values."""
    return reference_questions(story) if is_optimistic(kernel) else questions(story, is_ordinary(kernel))


def reference_questions(story: RowStory) -> list[stage.Question]:
    """Of a row whose weights are taken against an m that need not be its max: how large the largest weight is in the
    first tile that has a score above m."""
    above = story.tiles[np.isfinite(story.tiles.m) & (story.tiles.tile_max > story.tiles.m)]
    if above.empty or story.first_wrong is not None:
        return []
    tile = above.iloc[0]
    step = next(
        (n for n, f in enumerate(story.frames) if f["group"] == "weights" and f["tile"] == tile.tile),
        len(story.frames) - 1,
    )
    largest = float(np.exp(tile.tile_max - tile.m))
    text = (
        f"In tile {int(tile.tile)} the row's largest score is {tile.tile_max:.4g}; the reference m is {tile.m:.4g} and "
        "stays. How large is the largest weight of the tile?"
    )
    why = (
        f"e^({tile.tile_max:.4g} - {tile.m:.4g}) = {largest:.4g}".replace("- -", "+ ")
        + ". A weight above 1 does no harm while it is a small part of its row, so the kernel took no max."
    )
    veils = ("sentence", "strip", "picture", "tabs")
    more: dict[str, Any] = {"step": step, "view": "row", "veils": veils, "tolerance": stage.MEASURED}
    return [stage.Question("reference", text, "number", float(f"{largest:.3g}"), why, **more)]


def questions(story: RowStory, ordinary: bool) -> list[stage.Question]:
    """What can be asked of the row before it is read. The keys come from the logged values."""
    risen = [(n, rise) for n, f in enumerate(story.frames) if f["group"] == "max" and (rise := _rise(f))]
    if ordinary or story.first_wrong is not None or not risen:
        return []
    number, (before, m) = risen[0]
    first = story.frames[number]
    after = next((n for n, f in enumerate(story.frames) if n > number and f["group"] == "rescale"), number)
    factor = f"e^({before:.4g} - {m:.4g}) = {np.exp(before - m):.4g}".replace("- -", "+ ")
    options = ["They are thrown away", "They are multiplied by e^(m before - m after)", "They stay as they are"]
    times = "time" if len(risen) == 1 else "times"
    raises = int(story.keys[story.keys.tile == first["tile"]].set_index("key").score.idxmax())
    return [
        stage.Question(
            "moves",
            "How often does this row's running max rise, after its first tile?",
            "number",
            len(risen),
            f"It rises {len(risen)} {times}, first in tile {first['tile']}, from {before:.4g} to {m:.4g}.",
            step=number,
            view="row",
            veils=("strip", "tabs"),
        ),
        stage.Question(
            "raises",
            "Step on until the running max rises for the first time after the first tile, and click the score that "
            "raises it.",
            "click",
            {"kind": "score", "index": raises},
            f"Key {raises}, in tile {first['tile']}: its score {m:.4g} is above the max so far, {before:.4g}.",
            step=number,
            view="row",
            veils=("sentence",),
        ),
        stage.Question(
            "rescale",
            f"In tile {first['tile']} the max rises. What happens to l and O so far?",
            "options",
            1,
            f"They counted against the old max, so they are scaled by {factor}. What is never stored is the row of "
            "scores.",
            options,
            step=after,
            view="row",
            veils=("sentence", "strip", "picture"),
        ),
    ]


def _rise(frame: RowFrame) -> tuple[float, float] | None:
    """(m before, m) of a step that raises m; None of another."""
    m, before = frame["m"], frame["m_before"]
    if m is None or before is None or float(m) <= float(before):
        return None
    return float(before), float(m)


def is_ordinary(kernel: KernelSpec) -> bool:
    """Whether the kernel has one m and l for the whole row, and no running ones: its m probe has no key `tile`."""
    return "tile" not in probed.values(kernel)["m"]


def is_optimistic(kernel: KernelSpec) -> bool:
    """Whether the kernel takes weights against an m that need not be the max, and refuses tiles whose sums come out
    too large: it logs what it refused."""
    return "refused" in probed.values(kernel)


def m_name(ordinary: bool, optimistic: bool) -> str:
    """What the kernel's m is called."""
    return "reference m" if optimistic else "max m" if ordinary else "running max m"


def _row_records(run: Run, row: int) -> pd.DataFrame:
    """The row's value records in the order the kernel made them: step, event, group, tile, col, dim, value, place.
    Events that GROUPS does not know are left to the generic view."""
    sites, trace = sites_of(run.request), run.trace
    steps = cutting.cut(trace, sites)
    table = trace.table
    keep = (
        (steps.of_record >= 0) & table["value"].is_valid().to_numpy() & (table["row"].fill_null(-1).to_numpy() == row)
    )
    names = [name for name in ("event", "row", "tile", "col", "dim", "value") if name in table.column_names]
    frame = table.select(names).filter(keep).to_pandas()
    frame = frame.assign(**{name: np.nan for name in ("tile", "col", "dim") if name not in names})
    frame["step"], frame["site"] = steps.of_record[keep], sites.index(table)[keep]
    frame["event"] = frame.event.astype(str)
    frame["group"] = frame.event.map(GROUPS)
    frame = frame[frame.group.notna()].reset_index(drop=True)
    of_step = pd.Series(steps.table.tile.to_numpy()[frame.step], index=frame.index)
    frame["tile"] = frame.tile.fillna(of_step).astype(int)
    frame["place"] = [sites[number].place for number in frame.site]
    frame["order"] = frame.event.map(list(GROUPS).index)  # not that of the lines: a probe may stand in a function
    return frame.sort_values(["step", "order", "site", "col", "dim"], kind="stable").reset_index(drop=True)


def _tiles(records: pd.DataFrame, s_true: np.ndarray, ordinary: bool) -> pd.DataFrame:
    """Per key tile that held keys of this row: its keys (first, last), m and l as logged, and what float64 says after
    those keys.

    l_true is the sum of e^(score - m) for the logged m, so that l can be judged even where a what-if build chose
    another m.
    """
    scores = records[records.event == "score"].groupby("tile").col.agg(["min", "max"]).astype(int)
    logged = {
        name: records[records.event == name].groupby("tile").value.last() for name in ("m", "l", "rescale", "tile_max")
    }
    if ordinary:
        scores = pd.DataFrame({"min": [0], "max": [len(s_true) - 1]}, index=[-1])
        logged = {name: pd.Series(part.to_numpy(), index=[-1] * len(part)) for name, part in logged.items()}
    m_true, l_true = reference.prefix_max_and_sum(s_true, scores["max"].to_numpy() + 1)
    columns = {"tile": scores.index, "first": scores["min"].to_numpy(), "last": scores["max"].to_numpy()}
    tiles = pd.DataFrame({**columns, "m_true": m_true, "l_true": l_true})
    for name, values in logged.items():
        tiles[name] = tiles.tile.map(values).astype(float)
    with np.errstate(over="ignore"):
        tiles["l_true"] *= np.exp(
            tiles.m_true - tiles.m
        )  # relative to the m that the kernel used: 1 unless it subtracts no max
    return tiles


def _keys(records: pd.DataFrame, p_true: np.ndarray, tiles: pd.DataFrame, ordinary: bool) -> pd.DataFrame:
    scores = records[records.event == "score"].drop_duplicates("col", keep="last").set_index("col")
    weights = records[records.event == "p"].drop_duplicates("col", keep="last").set_index("col")
    keys = pd.DataFrame({"key": np.arange(len(p_true)), "weight_true": p_true})
    keys = keys.assign(score=keys.key.map(scores.value), tile=keys.key.map(scores.tile), p=keys.key.map(weights.value))
    if ordinary:
        return keys.assign(weight=keys.p)
    factors = tiles.set_index("tile").rescale.astype(float)
    if factors.isna().all():  # the kernel logs no rescaling
        factors = factors.fillna(1.0)
    later = (
        factors.iloc[::-1].cumprod().iloc[::-1].shift(-1, fill_value=1.0)
    )  # the product of the factors after each tile
    with np.errstate(invalid="ignore"):
        return keys.assign(weight=keys.p * keys.tile.map(later) / tiles.l.iloc[-1])


def _frames(
    records: pd.DataFrame,
    tiles: pd.DataFrame,
    manner: Manner,
    o_row: np.ndarray,
    o_true: np.ndarray,
    rounding: float,
) -> tuple[list[RowFrame], np.ndarray]:
    """The steps of the row: neighbouring records of one group in one step of the kernel make one step here. rounding:
    of the type that O is written in."""
    frames: list[Any] = []
    o_values: list[np.ndarray] = []
    state: dict[str, float | None] = {"m": None, "l": None, "m_before": None}
    seen_keys, weighed, o_now = 0, 0, -1
    by_tile = tiles.set_index("tile")
    boundary = (records.step != records.step.shift()) | (records.group != records.group.shift())
    for _, part in records.groupby(boundary.cumsum(), sort=False):
        group, tile = part.group.iloc[0], int(part.tile.iloc[0])
        values = {event: sub.value.to_numpy() for event, sub in part.groupby("event")}
        l_before = state["l"]
        if "m" in values:
            state["m_before"] = state["m"]
        state |= {name: float(values[name][0]) for name in ("m", "l") if name in values}
        if group == "scores":
            seen_keys = max(seen_keys, int(part.col.max()) + 1)
        if group == "weights":
            weighed = max(weighed, int(part.col.max()) + 1)
        if group == "output":
            o_now = len(o_values)
            o_values.append(_with_outputs(part, o_values, len(o_row)))
        truth = by_tile.loc[tile] if tile in by_tile.index else by_tile.iloc[-1]
        sentence, wrong = tell(group, tile, part, values, state, l_before, truth, manner)
        frames.append(
            {
                "tile": tile,
                "group": group,
                "phase": group,
                "title": (f"Tile {tile} · " if tile >= 0 else "") + TITLES[group],
                **state,
                "moment": int(part.step.iloc[0]),
                "rescale": float(values["rescale"][0]) if "rescale" in values else None,
                "keys": seen_keys,
                "weighed": weighed,
                "o": o_now,
                "lines": {str(place): int(count) for place, count in part.groupby("place").size().items()},
                "m_true": float(truth.m_true),
                "l_true": float(truth.l_true),
                "wrong": wrong,
                "marks": _marks("m" in values, state, wrong),
                "sentence": sentence[0].upper() + sentence[1:],
            }
        )
    frames.append(frames[-1] | _final(o_row, o_true, len(o_values), rounding))
    return frames, np.array([*o_values, o_row], np.float32)


def _marks(has_m: bool, state: dict[str, float | None], wrong: bool) -> list[str]:
    """What the step is marked with. has_m: it logged m. state: m and m_before, after the step."""
    m, before = state["m"], state["m_before"]
    risen = has_m and m is not None and before is not None and np.isfinite(before) and m > before
    return [mark for mark, true in ((marks.RISE, risen), (marks.WRONG, wrong)) if true]


def _with_outputs(part: pd.DataFrame, before: list[np.ndarray], head_dim: int) -> np.ndarray:
    """O's row after these records; where they say nothing of a dim, what it was before. A NaN that was logged stays."""
    row = before[-1].copy() if before else np.full(head_dim, np.nan, np.float32)
    row[part.dim.astype(int)] = part.value
    return row


def _final(o_row: np.ndarray, o_true: np.ndarray, number: int, rounding: float) -> dict[str, Any]:
    """What the last frame says: O's row as the kernel left it, beside float64."""
    error = max_abs_error(o_row, o_true)
    wrong = not error <= (WRONG + rounding) * max(1.0, np.abs(o_true).max())
    worst = int(np.nanargmax(np.abs(o_row - o_true))) if not np.isnan(o_row).all() else 0
    return {
        "tile": -1,
        "group": "final",
        "phase": "final",
        "title": TITLES["final"],
        "lines": {},
        "rescale": None,
        "o": number,
        "wrong": wrong,
        "marks": [marks.WRONG] if wrong else [],
        "sentence": f"The row is done: dim {worst} of O is {told(o_row[worst])}, float64 says {told(o_true[worst])}"
        + (f", and no dim is further off than {error:.2g}." if np.isfinite(error) else "; the row is lost."),
    }


def _summary(run: Run, frames: list[RowFrame], wrong: int | None, error: float) -> tuple[str, str]:
    """What the whole row shows, in a sentence or two, and its tone; for a what-if build, where and why it goes
    wrong, or that it does not and where it would."""
    broken = run.request.broken
    if wrong is None and not broken:
        return f"The row agrees with float64 at every step; its largest error is {error:.2g}.", "good"
    if wrong is None:
        return (
            f"{broken[0].what_if}: in this row it makes no difference (largest error {error:.2g}). {_elsewhere(run)}",
            "info",
        )
    why = " ".join(f"{c.what_if}: {c.effect}" for c in broken) or "The kernel as written should not do this."
    largest = (
        f"The largest error of the row is {error:.3g}." if np.isfinite(error) else "The row holds NaN or infinity."
    )
    return f"The row goes wrong at step {wrong + 1}, {frames[wrong]['title']}. {why} {largest}", "bad"


def _elsewhere(run: Run) -> str:
    """Where a what-if build would show."""
    broken, scale = run.request.broken[0], getattr(run.request.problem, "score_scale", 1.0)
    if scale < broken.shows_at:
        return f"It shows from score_scale {broken.shows_at:g} on; here it is {scale:g}. {broken.effect}"
    return f"{broken.effect} Look at another row."

"""The online softmax story: one row's scores, its running max m and sum l, the rescale factor and O's row, step by step, beside
the same row by ordinary softmax in float64; and where a what-if build goes wrong."""

from dataclasses import dataclass

import altair as alt
import numpy as np
import pandas as pd

from explainers import steps as cutting
from explainers.palette import AXIS, OKABE_ITO
from explainers.tiling import query_rows
from kernels import reference

WRONG = 1e-3  # a relative difference from float64 that is no rounding
GROUPS = {"score": "scores", "tile_max": "max", "m": "max", "rescale": "rescale", "p": "weights", "l": "sum", "o": "output"}
CHART_HEIGHT = 220
TITLES = {"scores": "Scores", "max": "Max", "rescale": "Rescale", "weights": "Weights", "sum": "Sum", "output": "Output", "final": "Result"}


@dataclass(frozen=True)
class RowStory:
    """frames: one dict per step, for the browser. tiles: tile, m, l, m_true, l_true. keys: the row's keys, one row each: score, p
    (as logged), tile, weight (what it counts for in the end, over l), weight_true (softmax in float64). o_values [outputs
    logged, head_dim]; o_true [head_dim] float64. ordinary_m, ordinary_l: max and sum of the whole row's softmax in float64.
    first_wrong: the first frame off beyond rounding, if any."""

    frames: list[dict]
    tiles: pd.DataFrame
    keys: pd.DataFrame
    o_values: np.ndarray
    o_true: np.ndarray
    ordinary_m: float
    ordinary_l: float
    first_wrong: int | None
    error: float
    summary: str


def rows_of(run):
    """First and last row (inclusive) of the query tile that the run traced, and its batch and head."""
    head, first, end = query_rows(run.request)
    return first, end - 1, divmod(head, run.request.problem.heads)


def explain(run, row):
    """The RowStory of one row of the traced query tile."""
    problem = run.request.problem
    _, _, (batch, head) = rows_of(run)
    q, k, v, o = (run.arrays[name][batch, head] for name in "qkvo")
    s_true = reference.scores(q[row:row + 1], k, problem.scale, False)[0][:row + 1 if problem.causal else None]
    p_true = reference.softmax(s_true)
    m_true, l_true = reference.prefix_max_and_sum(s_true, [len(s_true)])
    o_true = p_true @ v[:len(p_true)].astype(np.float64)
    records = _row_records(run, row)
    ordinary = is_ordinary(run.request.kernel)
    tiles = _tiles(records, s_true, ordinary)
    frames, o_values = _frames(records, tiles, ordinary, o[row], o_true)
    wrong = next((number for number, frame in enumerate(frames) if frame["wrong"]), None)
    error = reference.max_abs_error(o[row], o_true)
    return RowStory(frames, tiles, _keys(records, p_true, tiles, ordinary), o_values, o_true, float(m_true[-1]), float(l_true[-1]), wrong, error,
                    _summary(run, frames, wrong, error))


def _row_records(run, row):
    """The row's value records in the order the kernel made them: step, event, group, tile, col, dim, value, code_line."""
    sites, trace = run.request.sites, run.trace
    steps = cutting.cut(trace, sites)
    table = trace.table
    keep = (steps.of_record >= 0) & table["value"].is_valid().to_numpy() & (table["row"].fill_null(-1).to_numpy() == row)
    frame = table.select(["line", "event", "row", "tile", "col", "dim", "value"]).filter(keep).to_pandas() if "tile" in trace.keys else \
        table.select(["line", "event", "row", "col", "dim", "value"]).filter(keep).to_pandas().assign(tile=np.nan)
    frame["step"] = steps.of_record[keep]
    frame["event"] = frame.event.astype(str)
    frame["group"] = frame.event.map(GROUPS)
    frame["tile"] = frame.tile.fillna(pd.Series(steps.table.tile.to_numpy()[frame.step], index=frame.index)).astype(int)
    frame["code_line"] = frame.line.map(lambda line: sites[line].code_line)
    order = {line: number for number, line in enumerate(sorted(sites))}
    return frame.assign(order=frame.line.map(order)).sort_values(["step", "order", "col", "dim"], kind="stable").reset_index(drop=True)


def is_ordinary(kernel):
    """Whether the kernel has one m and l for the whole row, as 01 and 02, and no running ones: its m probe has no key `tile`."""
    return all("tile" not in site.keys for site in kernel.sites.values() if site.event == "m")


def _tiles(records, s_true, ordinary):
    """Per key tile that held keys of this row: its keys (first, last), m and l as logged, and what float64 says after those keys.

    l_true is the sum of e^(score - m) for the logged m, so that l can be judged even where a what-if build chose another m.
    """
    scores = records[records.event == "score"].groupby("tile").col.agg(["min", "max"]).astype(int)
    logged = {name: records[records.event == name].groupby("tile").value.last() for name in ("m", "l", "rescale", "tile_max")}
    if ordinary:
        scores = pd.DataFrame({"min": [0], "max": [len(s_true) - 1]}, index=[-1])
        logged = {name: pd.Series(part.to_numpy(), index=[-1] * len(part)) for name, part in logged.items()}
    m_true, l_true = reference.prefix_max_and_sum(s_true, scores["max"].to_numpy() + 1)
    tiles = pd.DataFrame({"tile": scores.index, "first": scores["min"].to_numpy(), "last": scores["max"].to_numpy(), "m_true": m_true, "l_true": l_true})
    for name, values in logged.items():
        tiles[name] = tiles.tile.map(values).astype(float)
    with np.errstate(over="ignore"):
        tiles["l_true"] *= np.exp(tiles.m_true - tiles.m)  # relative to the m that the kernel used: 1 unless it subtracts no max
    return tiles


def _keys(records, p_true, tiles, ordinary):
    scores = records[records.event == "score"].drop_duplicates("col", keep="last").set_index("col")
    weights = records[records.event == "p"].drop_duplicates("col", keep="last").set_index("col")
    keys = pd.DataFrame({"key": np.arange(len(p_true)), "weight_true": p_true})
    keys = keys.assign(score=keys.key.map(scores.value), tile=keys.key.map(scores.tile), p=keys.key.map(weights.value))
    if ordinary:
        return keys.assign(weight=keys.p)
    factors = tiles.set_index("tile").rescale.astype(float)
    later = factors.iloc[::-1].cumprod().iloc[::-1].shift(-1, fill_value=1.0)  # the product of the rescale factors after each tile
    with np.errstate(invalid="ignore"):
        return keys.assign(weight=keys.p * keys.tile.map(later) / tiles.l.iloc[-1])


def _frames(records, tiles, ordinary, o_row, o_true):
    """The steps of the row: neighbouring records of one group in one step of the kernel make one step here."""
    frames, o_values = [], []
    state = {"m": None, "l": None, "m_before": None}
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
            row = np.full(len(o_row), np.nan, np.float32)
            row[part.dim.astype(int)] = part.value
            o_values.append(row if not np.isnan(row).any() or not o_values else np.where(np.isnan(row), o_values[-1], row))
        truth = by_tile.loc[tile] if tile in by_tile.index else by_tile.iloc[-1]
        sentence, wrong = _tell(group, tile, part, values, state, l_before, truth, ordinary)
        frames.append({"tile": tile, "group": group, "title": (f"Tile {tile} · " if tile >= 0 else "") + TITLES[group], **state,
                       "rescale": float(values["rescale"][0]) if "rescale" in values else None, "keys": seen_keys, "weighed": weighed, "o": o_now,
                       "lines": {int(line): int(count) for line, count in part.groupby("code_line").size().items()},
                       "m_true": float(truth.m_true), "l_true": float(truth.l_true), "wrong": wrong, "sentence": sentence[0].upper() + sentence[1:]})
    error = reference.max_abs_error(o_row, o_true)
    worst = int(np.nanargmax(np.abs(o_row - o_true))) if not np.isnan(o_row).all() else 0
    frames.append({**frames[-1], "tile": -1, "group": "final", "title": TITLES["final"], "lines": {}, "rescale": None,
                   "o": len(o_values), "wrong": not error <= WRONG * max(1.0, np.abs(o_true).max()),
                   "sentence": f"The row is done: dim {worst} of O is {o_row[worst]:.6g}, float64 says {o_true[worst]:.6g}"
                               + (f", and no dim is further off than {error:.2g}." if np.isfinite(error) else "; the row is lost.")})
    return frames, np.array([*o_values, o_row], np.float32)


def _tell(group, tile, part, values, state, l_before, truth, ordinary):
    """A step's sentence, and whether its numbers are wrong beyond rounding. state holds m, l and m_before; truth is the tile's row of _tiles."""
    where = f"Tile {tile}: " if tile >= 0 and (not ordinary or group in ("scores", "output")) else ""
    m, l, m_before = state["m"], state["l"], state["m_before"]
    finite = bool(np.isfinite(part.value).all())
    if group == "scores":
        top = part.loc[part.value.idxmax()]
        keys = f"keys {int(part.col.min())} to {int(part.col.max())}" if len(part) > 1 else f"key {int(part.col.iloc[0])}"
        return f"{where}the row's scores with {keys}; the largest is {top.value:.4g}, at key {int(top.col)}.", False
    if group == "max":
        if abs(m - truth.m_true) > WRONG * max(1.0, abs(truth.m_true)):
            return f"{where}no max is subtracted: m stays {m:.4g}, where the row's max so far is {truth.m_true:.4g}.", False
        if m_before is None:
            return f"{where}the row's max m is {m:.4g}." if ordinary else f"{where}the running max m starts at {m:.4g}.", False
        if m > m_before:
            return f"{where}the row's max rises from {m_before:.4g} to {m:.4g}.", False
        return f"{where}its largest score is {values['tile_max'][0]:.4g}, so the running max m stays {m:.4g}.", False
    if group == "rescale":
        factor = values["rescale"][0]
        if m_before is None:
            return f"{where}nothing came before, so there is nothing to rescale (the factor is {factor:.4g}).", False
        due = np.exp(m_before - m)
        power = f"e^({m_before:.4g} - {m:.4g})".replace("- -", "+ ")
        if abs(due - factor) > WRONG:
            return f"{where}l and O should be multiplied by {power} = {due:.4g}; this build multiplies by {factor:.4g}.", True
        return f"{where}l and O so far are scaled by {power} = {factor:.4g}.", False
    if group == "weights":
        rule = "e^(score - m) / l" if ordinary else "e^(score - m)"
        return f"{where}each key's weight is {rule}; the largest is {part.value.max():.4g}.", not finite
    if group == "sum":
        wrong = not abs(l - truth.l_true) <= WRONG * truth.l_true
        due = f" It should be {truth.l_true:.6g}." if wrong else ""
        if l_before is None:
            return f"{where}{'the row sum l is' if ordinary else 'the running sum l starts at'} {l:.6g}.{due}", wrong
        return f"{where}the running sum l goes from {l_before:.6g} to {l:.6g}.{due}", wrong
    rule = "the sum of weight x V" if ordinary else "scaled, then weight x V is added"
    return f"{where}O's row is {rule}; its dim 0 is now {part.value.iloc[0]:.4g}.", not finite


def _summary(run, frames, wrong, error):
    """What the whole row shows, in a sentence or two; for a what-if build, where and why it goes wrong."""
    broken = run.request.broken
    if wrong is None:
        note = f" {broken[0].what_if}: {broken[0].effect} In this row it made no difference." if broken else ""
        return f"The row agrees with float64 at every step; its largest error is {error:.2g}.{note}"
    why = " ".join(f"{c.what_if}: {c.effect}" for c in broken) or "The kernel as written should not do this."
    return f"The row goes wrong at step {wrong + 1}, {frames[wrong]['title']}. {why} " + (
        f"The largest error of the row is {error:.3g}." if np.isfinite(error) else "The row holds NaN or infinity.")


def state_chart(story, quantity, clock_selector):
    """m or l after each tile, as logged and as float64 has it; a rule follows the clock (no server trip)."""
    positions = {f["tile"]: number for number, f in enumerate(story.frames) if f["group"] == {"m": "max", "l": "sum"}[quantity]}
    steps = story.tiles.tile.map(positions)
    if list(story.tiles.tile) == [-1]:  # the row has one m and l: they stand from the step that made them
        steps = pd.Series([next(n for n, f in enumerate(story.frames) if f["group"] == {"m": "max", "l": "sum"}[quantity])])
    table = story.tiles.assign(step=steps, logged=story.tiles[quantity], float64=story.tiles[f"{quantity}_true"])
    table = table.melt(["step", "tile"], ["logged", "float64"], var_name="source", value_name="value").replace([np.inf, -np.inf], np.nan).dropna()
    last = len(story.frames) - 1
    ends = table.sort_values("step").groupby("source").last().reset_index().assign(step=last)  # the last value stands to the end
    step = alt.param(name="step", value=0, bind=alt.BindDirect(element=clock_selector, event="input"))
    x = alt.X("step:Q", title="step", scale=alt.Scale(domain=[0, last], nice=False), axis=alt.Axis(tickMinStep=1, format="d", grid=False))
    low, high = table.value.min(), table.value.max()
    margin = max(0.08 * (high - low), 0.05 * abs(high), 1e-3)  # so that rounding does not look like a difference
    y = alt.Y("value:Q", title={"m": "running max m", "l": "running sum l"}[quantity], scale=alt.Scale(domain=[low - margin, high + margin], nice=False),
              axis=alt.Axis(tickCount=5))
    dash = alt.StrokeDash("source:N", title=None, scale=alt.Scale(domain=["logged", "float64"], range=[[1, 0], [5, 4]]))
    lines = alt.Chart(pd.concat([table, ends])).mark_line(interpolate="step-after", strokeWidth=2.5).encode(x=x, y=y, color=_source_colour(), strokeDash=dash)
    points = alt.Chart(table).mark_point(filled=True, size=70, opacity=1).encode(
        x=x, y=y, color=_source_colour(), tooltip=["source:N", "tile:Q", alt.Tooltip("value:Q", format=".7g", title=quantity)])
    now = alt.Chart(pd.DataFrame({"rule": [0]})).mark_rule(color=AXIS, strokeWidth=1.5).encode(x=alt.XDatum(alt.ExprRef("toNumber(step)"), type="quantitative"))
    return (lines + points + now).add_params(step).properties(height=CHART_HEIGHT)


def ordinary_chart(story):
    """The same row by ordinary softmax in float64 (bars), and what each key came to count for in this kernel (points)."""
    table = story.keys.replace([np.inf, -np.inf], np.nan).assign(left=story.keys.key - 0.4, right=story.keys.key + 0.4)
    axis = {"title": "key", "scale": alt.Scale(domain=[-0.5, len(table) - 0.5], nice=False), "axis": alt.Axis(tickMinStep=1, format="d", grid=False)}
    tip = ["key:Q", alt.Tooltip("weight_true:Q", format=".7g", title="float64"), alt.Tooltip("weight:Q", format=".7g", title="this kernel")]
    bars = alt.Chart(table).mark_rect(color=OKABE_ITO["sky"]).encode(
        x=alt.X("left:Q", **axis), x2="right:Q", y=alt.Y("weight_true:Q", title="weight", axis=alt.Axis(tickCount=5)), y2=alt.datum(0), tooltip=tip)
    points = alt.Chart(table).mark_point(filled=True, size=36, color=OKABE_ITO["vermillion"], opacity=1).encode(
        x=alt.X("key:Q", **axis), y="weight:Q", tooltip=tip)
    return (bars + points).properties(height=CHART_HEIGHT)


def _source_colour():
    return alt.Color("source:N", title=None, legend=alt.Legend(orient="top", symbolType="circle", symbolStrokeWidth=0),
                     scale=alt.Scale(domain=["logged", "float64"], range=[OKABE_ITO["vermillion"], OKABE_ITO["sky"]]))

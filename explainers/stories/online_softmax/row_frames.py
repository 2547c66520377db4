"""The records and frames of one row."""

import numpy as np
import pandas as pd

from explainers.models.softmax_rows import GROUPS, WRONG
from explainers.stories.online_softmax.frames import RowFrame
from explainers.stories.online_softmax.softmax_steps import Manner, details, tell
from explainers.story import marks
from explainers.story.glossary import short
from kernels.core import reference
from kernels.core.tolerance import max_abs_error
from kernels.run.results import Run
from kernels.trace import steps as cutting

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


def row_records(run: Run, row: int, head: int) -> pd.DataFrame:
    """The row's value records in the kernel's order: step, event, group, tile, walk, col, dim, value, place. The
    generic view shows events outside GROUPS.

    head: counted over the batch. It excludes the records with the key `head` of another head.
    """
    sites, trace = run.sites, run.trace
    steps = cutting.cut(trace, sites)
    table = trace.table
    keep = (
        (steps.of_record >= 0) & table["value"].is_valid().to_numpy() & (table["row"].fill_null(-1).to_numpy() == row)
    )
    if "head" in table.column_names:
        keep &= table["head"].fill_null(head).to_numpy() == head
    names = [name for name in ("event", "row", "tile", "walk", "col", "dim", "value") if name in table.column_names]
    frame = table.select(names).filter(keep).to_pandas()
    frame = frame.assign(**{name: np.nan for name in ("tile", "walk", "col", "dim") if name not in names})
    frame["step"], frame["site"] = steps.of_record[keep], sites.index(table)[keep]
    frame["event"] = frame.event.astype(str)
    frame["group"] = frame.event.map(GROUPS)
    frame = frame[frame.group.notna()].reset_index(drop=True)
    of_step = pd.Series(steps.table.tile.to_numpy()[frame.step], index=frame.index)
    frame["tile"] = frame.tile.fillna(of_step).astype(int)
    frame["place"] = [sites[number].place for number in frame.site]
    frame["at"] = frame.col
    frame["order"] = frame.event.map(list(GROUPS).index)  # not the order of the lines: a probe can be in a function
    return frame.sort_values(["step", "order", "site", "col", "dim"], kind="stable").reset_index(drop=True)


def walk_of(records: pd.DataFrame, walk: int, sees: int) -> pd.DataFrame:
    """The records of one walk over some of the row's keys. `at` is a key's place among the walk's keys, in order.

    sees: the number of the row's visible keys.
    """
    own = records[(records.walk == walk) & ~(records.col >= sees)]
    keys = np.unique(own[own.event == "score"].col)
    return own.assign(at=np.searchsorted(keys, own.col).astype(float)).reset_index(drop=True)


def tiles_of(records: pd.DataFrame, s_true: np.ndarray, ordinary: bool) -> pd.DataFrame:
    """Each key tile with keys of this row: its keys (first, last), m and l as logged, and m and l in float64 after the
    same keys.

    l_true is the sum of e^(score - m) for the logged m. A reader can judge l even if a what-if build has another m.
    """
    scores = records[records.event == "score"].groupby("tile")["at"].agg(["min", "max"]).astype(int)
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
        tiles["l_true"] *= np.exp(tiles.m_true - tiles.m)  # relative to the kernel's m: 1 unless it subtracts no max
    return tiles


def keys_of(records: pd.DataFrame, p_true: np.ndarray, tiles: pd.DataFrame, ordinary: bool) -> pd.DataFrame:
    scores = records[records.event == "score"].drop_duplicates("at", keep="last").set_index("at")
    weights = records[records.event == "p"].drop_duplicates("at", keep="last").set_index("at")
    keys = pd.DataFrame({"key": np.arange(len(p_true)), "weight_true": p_true})
    keys = keys.assign(score=keys.key.map(scores.value), tile=keys.key.map(scores.tile), p=keys.key.map(weights.value))
    if ordinary:
        return keys.assign(weight=keys.p)
    factors = tiles.set_index("tile").rescale.astype(float)
    if factors.isna().all():  # the kernel logs no rescaling: each rise of m is one
        m = tiles.set_index("tile").m
        with np.errstate(invalid="ignore"):
            factors = np.exp(m.shift(1) - m).fillna(1.0)
    later = (
        factors.iloc[::-1].cumprod().iloc[::-1].shift(-1, fill_value=1.0)
    )  # the product of the factors after each tile
    with np.errstate(invalid="ignore"):
        return keys.assign(weight=keys.p * keys.tile.map(later) / tiles.l.iloc[-1])


def frames_of(
    records: pd.DataFrame,
    tiles: pd.DataFrame,
    manner: Manner,
    o_row: np.ndarray,
    o_true: np.ndarray,
    rounding: float,
) -> tuple[list[RowFrame], np.ndarray]:
    """The steps of the row, and O's row after each one that logged it.

    Neighbouring records of one group in one step of the kernel make one step here.
    rounding: the relative rounding of O's type.
    """
    frames: list[RowFrame] = []
    o_values: list[np.ndarray] = []
    state: dict[str, float | None] = {"m": None, "l": None, "m_before": None}
    since = 1.0  # l_factor of RowFrame
    seen_keys, weighed, o_now = 0, 0, -1
    by_tile = tiles.set_index("tile")
    boundary = (records.step != records.step.shift()) | (records.group != records.group.shift())
    for _, part in records.groupby(boundary.cumsum(), sort=False):
        group, tile = part.group.iloc[0], int(part.tile.iloc[0])
        values = {event: sub.value.to_numpy() for event, sub in part.groupby("event")}
        l_before = state["l"]
        if group == "rescale" and tile > 0:
            since *= float(values["rescale"][0])
        elif group == "sum":
            l_before, since = (None if l_before is None else l_before * since), 1.0
        if "m" in values:
            state["m_before"] = state["m"]
        state |= {name: float(values[name][-1]) for name in ("m", "l") if name in values}
        if group == "scores":
            seen_keys = max(seen_keys, int(part["at"].max()) + 1)
        if group == "weights":
            weighed = max(weighed, int(part["at"].max()) + 1)
        if group == "output":
            o_now = len(o_values)
            o_values.append(_with_outputs(part, o_values, len(o_row)))
        truth = by_tile.loc[tile] if tile in by_tile.index else by_tile.iloc[-1]
        sentence, wrong = tell(group, part, values, state, l_before, truth, manner)
        said = {"sentence": sentence, "details": details(group, values, state, manner)}
        seen = {"keys": seen_keys, "weighed": weighed, "o": o_now}
        frames.append(_frame(part, group, tile, values, state, since, seen, truth, said, wrong))
    frames.append(_final(frames[-1], o_row, o_true, len(o_values), rounding))
    return frames, np.array([*o_values, o_row], np.float32)


def _frame(
    part: pd.DataFrame,
    group: str,
    tile: int,
    values: dict[str, np.ndarray],
    state: dict[str, float | None],
    l_factor: float,
    seen: dict[str, int],
    truth: pd.Series,
    said: dict[str, str],
    wrong: bool,
) -> RowFrame:
    """A step of the row.

    part: its records. values: event -> their values.
    state: m, l and m_before after the step.
    seen: keys, weighed and o of RowFrame.
    said: sentence and details.
    truth: the row of the tile in `tiles`.
    """
    return {
        "tile": tile,
        "group": group,
        "phase": group,
        "title": (f"Tile {tile} · " if tile >= 0 else "") + TITLES[group],
        "m": state["m"],
        "l": state["l"],
        "l_factor": l_factor,
        "m_before": state["m_before"],
        "moment": int(part.step.iloc[0]),
        "rescale": float(values["rescale"][0]) if "rescale" in values else None,
        "keys": seen["keys"],
        "weighed": seen["weighed"],
        "o": seen["o"],
        "lines": {str(place): int(count) for place, count in part.groupby("place").size().items()},
        "m_true": float(truth.m_true),
        "l_true": float(truth.l_true),
        "wrong": wrong,
        "marks": _marks("m" in values, state, wrong),
        "sentence": said["sentence"],
        "details": said["details"],
    }


def _marks(has_m: bool, state: dict[str, float | None], wrong: bool) -> list[str]:
    """The marks of a step.

    has_m: whether the step logged m.
    state: m and m_before, after the step.
    """
    m, before = state["m"], state["m_before"]
    risen = has_m and m is not None and before is not None and np.isfinite(before) and m > before
    return [mark for mark, true in ((marks.RISE, risen), (marks.WRONG, wrong)) if true]


def _with_outputs(part: pd.DataFrame, before: list[np.ndarray], head_dim: int) -> np.ndarray:
    """O's row after these records. A dim without a record keeps its value. A logged NaN stays."""
    row = before[-1].copy() if before else np.full(head_dim, np.nan, np.float32)
    row[part.dim.astype(int)] = part.value
    return row


def _final(last: RowFrame, o_row: np.ndarray, o_true: np.ndarray, number: int, rounding: float) -> RowFrame:
    """The last frame: O's row as the kernel left it, next to float64. last: the frame before it. Its lines stay lit."""
    error = max_abs_error(o_row, o_true)
    wrong = not error <= (WRONG + rounding) * max(1.0, np.abs(o_true).max())
    worst = int(np.nanargmax(np.abs(o_row - o_true))) if not np.isnan(o_row).all() else 0
    return {
        **last,
        "tile": -1,
        "group": "final",
        "phase": "final",
        "title": TITLES["final"],
        "rescale": None,
        "o": number,
        "wrong": wrong,
        "marks": [marks.WRONG] if wrong else [],
        "sentence": _result(float(o_row[worst]), float(o_true[worst]), worst, wrong),
        "details": f"The largest error of the row is {short(error, 2)}." if np.isfinite(error) else "The row is lost.",
    }


def _result(value: float, due: float, dim: int, wrong: bool) -> str:
    """The end of the row in words: the dim with the largest error."""
    if wrong:
        return f"The result is wrong. Dim {dim} of O is {short(value)}. It should be {short(due)}."
    return f"The row is done. Dim {dim} of O is {short(value)}, as in float64."

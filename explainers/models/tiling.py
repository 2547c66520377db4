"""A query tile, step by step: the parts of Q, K^T, S, V and O of each step, and the content of shared memory.

Everything comes from the logged addresses. The functions state the rules. The problem declares each tensor's part in
the picture (`picture.places`). Other tensors and values count in the bytes, and generic.py draws them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
import pandas as pd

from explainers.models.frames import MatricesMeta, TilingFrame
from explainers.models.tile_frames import WORDS, accesses_of, frames_of
from explainers.story import axes, picture, probed, stage
from explainers.story.glossary import short
from explainers.story.picture import in_order, mask_offset, query_rows, tensor_at
from explainers.story.questions import Where
from explainers.story.stage import Question
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import WRITES
from kernels.trace.steps import Steps
from kernels.trace.trace import Trace

WANTS = ("score", "p", "m", "l", "rescale", "o")


@dataclass(frozen=True)
class Tiling:
    """A query tile, step by step."""

    frames: list[TilingFrame]  # one per step, for the browser. frame["o"] is a place in o_values, or -1.
    traffic: pd.DataFrame  # step, tensor, space, kind, accesses, bytes: the logged accesses, summed
    scores: np.ndarray  # float32 [rows, keys]
    logged: np.ndarray  # bool [rows, keys], whether a score has a record, as a score may be NaN
    o_values: np.ndarray  # float32 [n, rows, head_dim]
    o_since: np.ndarray  # [rows, head_dim], the first of o_values with the element, or n
    rows: tuple[int, int]  # first and end of the query tile
    head: int  # counted over the batch
    output_blocks: list[list[int]]  # [row0, row1, col0, col1, block] of each block's part of this head's O
    places: dict[str, str]  # see picture.places
    k_width: int  # bytes of a row of K

    @property
    def k_times(self) -> list[float]:
        """The reads of each byte of K from global memory, after each step (times_of_k)."""
        symbol = next(symbol for symbol, place in self.places.items() if place == "K")
        return times_of_k(self.frames, symbol, self.k_width)


def accepts(spec: KernelSpec) -> bool:
    """Whether the story can show a kernel."""
    return not refusal(spec)


def refusal(spec: KernelSpec) -> str:
    """The reason against a kernel in a sentence, or an empty text.

    The items of the kernel are query tiles, its steps have marks, and its problem declares Q, K, V and O. The mask is
    none or causal, since the hidden scores and each row's float64 follow from the causal mask only.
    """
    request = probed.sample(spec)
    if probed.has_masks(spec):
        return f"{spec.name} solves a problem with more than a causal mask."
    if request.plan.item != picture.ITEM:
        return f'{spec.name} has no query tiles as items. Set item = "{picture.ITEM}" in its launches.'
    if not probed.marks(spec):
        return f"{spec.name} marks no step. Add a PROBE_MARK."
    if not probed.accesses(spec, "global"):
        return f"{spec.name} logs no access of global memory. Add a PROBE_LOAD or a PROBE_STORE."
    return picture.without_parts(request)


def explain(run: Run) -> Tiling:
    """The Tiling of a Run of one query tile."""
    request, trace, sites = run.request, run.trace, run.sites
    head, *rows = query_rows(request)
    at, o = picture.places(request), tensor_at(request, "O")
    steps = cutting.cut(trace, sites)
    accesses = accesses_of(
        request, trace, steps, sites, {symbol: t for symbol, t in axes.tensors(request).items() if symbol in at}
    )
    values = _values(trace, steps)
    scores = np.full((rows[1] - rows[0], axes.length(tensor_at(request, "K"), "key")), np.nan, np.float32)
    s = values[values.event == "score"]
    logged = np.zeros(scores.shape, bool)
    at_row, at_col = s.row.astype(int) - rows[0], s.col.astype(int)
    scores[at_row, at_col], logged[at_row, at_col] = s.value, True
    o_values, o_since, o_of_step = _partial_outputs(values, rows, axes.length(o, "dim"), len(steps.table))
    traffic = pd.DataFrame(
        [(step, *a[:5]) for step, made in enumerate(accesses) for a in made],
        columns=["step", "tensor", "space", "kind", "accesses", "bytes"],
    )
    frames = frames_of(at, accesses, values, o_of_step, steps, cutting.lit_lines(trace, steps, sites))
    blocks, width = _output_blocks(request, head), axes.length(o, "dim") * tensor_at(request, "K").itemsize
    return Tiling(frames, traffic, scores, logged, o_values, o_since, (rows[0], rows[1]), head, blocks, at, width)


def view(run: Run, story: Tiling) -> tuple[MatricesMeta, dict[str, np.ndarray]]:
    """The meta and the columns of the view `matrices`."""
    o = tensor_at(run.request, "O")
    n, d, keys = axes.length(o, "query"), axes.length(o, "dim"), axes.length(tensor_at(run.request, "K"), "key")
    arrays = {place: picture.matrix(run, place, story.head) for place in "QKVO"}
    moved = {name.split(" ")[0] for name in story.frames[-1]["bytes"]}
    meta: MatricesMeta = {
        "n": n,
        "keys": keys,
        "offset": mask_offset(run.request),
        "d": d,
        "row0": story.rows[0],
        "rows": story.rows[1] - story.rows[0],
        "head": story.head,
        "traced": [symbol for symbol in in_order(run.request) if symbol in moved],
        "places": story.places,
        "blocks": story.output_blocks,
        "causal": bool(run.request.problem.causal),
        "frames": story.frames,
    }
    columns = {"q": arrays["Q"], "k": arrays["K"], "v": arrays["V"], "s": story.scores, "s_logged": story.logged}
    columns |= {"o": story.o_values, "o_since": story.o_since, "o_final": arrays["O"][slice(*story.rows)]}
    return meta, columns | {"p": weight_shares(story)}


def weight_shares(story: Tiling) -> np.ndarray:
    """Derived: each weight as a share of its row's largest one, e^(score - m), [rows, keys].

    m: the largest score of the row up to the end of the key's tile. If scores or weights go to global memory, it is the
    largest of all keys: they are complete before the first weight.
    """
    keys = np.arange(story.scores.shape[1])
    ends = np.array(sorted({frame["scores"][3] for frame in story.frames if frame["scores"]} | {keys[-1]}))
    stored = any(story.places.get(t["tensor"]) in ("S", "P") for frame in story.frames for t in frame["touched"])
    end = keys[-1:] if stored else ends[np.searchsorted(ends, keys)]
    seen = np.where(story.logged > 0, story.scores, -np.inf)
    with np.errstate(invalid="ignore"):  # infinity - infinity, of a key that no query of the tile sees
        return np.exp(seen - np.maximum.accumulate(seen, axis=1)[:, end])


def stage_of(run: Run, provenance: stage.Provenance, beside: Sequence[stage.View] = ()) -> stage.Stage:
    """The whole stage of a run. beside: more pictures, after the matrices."""
    story = explain(run)
    return stage.of_request(
        run.request,
        story.frames,
        [stage.View("matrices", "matrices", "Matrices", *view(run, story)), *beside],
        state=states(story, sees_a_part(run)),
        tabs=[stage.Tab("bytes", "Bytes"), stage.BUILDS, stage.DATA],
        provenance=provenance,
        summary=summary(run, story),
    )


def states(story: Tiling, part: bool = False) -> list[stage.State]:
    """The strip: the bytes read and written so far, the reads of K, the stored scores and weights, and the content of
    shared memory.

    part: see sees_a_part.
    """

    def moved(kind: str) -> list[int]:
        return [sum(n for name, n in f["bytes"].items() if name.endswith(kind)) for f in story.frames]

    frames = story.frames
    held = [sum(part["bytes"] for part in f["resident"].values()) for f in frames]
    return [
        stage.State("asked for so far", moved("load"), "B", colour="load"),
        stage.State(
            f"each byte of K {'that it sees ' if part else ''}is asked for",
            [times_said(number) for number in story.k_times],
        ),
        stage.State("written so far", moved("store"), "B", colour="store", deep=True),
        stage.State("S and P in global memory", [scores_stored(f, story.places) for f in frames], "B", colour="S"),
        stage.State("in shared memory", held, "B", colour="P", deep=not any(held)),
        stage.State("it holds", [", ".join(f["resident"]) or "nothing" for f in frames], deep=not any(held)),
    ]


def summary(run: Run, story: Tiling) -> str:
    """The gain of tiles in a sentence or two, with the kernel before as a measure."""
    times = story.k_times[-1]
    rows, keys = story.rows[1] - story.rows[0], story.logged.shape[1]
    seen = int(story.logged.any(axis=0).sum()) or keys
    names = {"times": times, "often": times_said(times), "rows": rows, "part": sees_a_part(run)}
    names["without"] = story.logged.sum() / seen if story.logged.any() else 0 if names["part"] else rows
    written = scores_stored(story.frames[-1], story.places)
    return WORDS.say("gain", names | {"written": written, "size": scores_size(run)})


def _output_blocks(request: Request, head: int) -> list[list[int]]:
    """From the plan: the last launch writes O, its blocks_per_item blocks side by side over head_dim."""
    o, launch = tensor_at(request, "O"), request.plan.launches[-1]
    rows, tiles, n = picture.tiles_of(request)
    side, width = launch.blocks_per_item, axes.length(o, "dim") // launch.blocks_per_item
    return [
        [t * rows, min(n, (t + 1) * rows) - 1, j * width, (j + 1) * width - 1, (head * tiles + t) * side + j]
        for t in range(tiles)
        for j in range(side)
    ]


def _values(trace: Trace, steps: Steps) -> pd.DataFrame:
    """The value records with their step. Keys are floats, NaN for an event without the key."""
    keep = (steps.of_record >= 0) & trace.table["value"].is_valid().to_numpy()
    frame = trace.table.select(["event", *trace.keys, "value"]).filter(keep).to_pandas()
    frame["event"] = frame.event.astype(str)
    missing = [name for name in ("row", "col", "dim") if name not in frame]
    return frame.assign(step=steps.of_record[keep], **dict.fromkeys(missing, np.nan))


def _partial_outputs(
    values: pd.DataFrame, rows: list[int], head_dim: int, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """O after each step: o_values and o_since of Tiling, and the place of each step in o_values, or -1."""
    o = values[(values.event == "o") & values.row.notna() & values.dim.notna()]
    blocks: list[np.ndarray] = []
    shape, never = (rows[1] - rows[0], head_dim), o.step.nunique()
    of_step, current, since = np.full(count, -1), np.full(shape, np.nan, np.float32), np.full(shape, never)
    for step, part in o.groupby("step"):
        current, at = current.copy(), (part.row.astype(int) - rows[0], part.dim.astype(int))
        current[at] = part.value
        since[at] = np.minimum(since[at], len(blocks))
        of_step[step:] = len(blocks)
        blocks.append(current)
    return np.array(blocks, np.float32).reshape(len(blocks), *shape), since, of_step


def sees_a_part(run: Run) -> bool:
    """Whether the mask hides a key from each query of the traced tile."""
    _, _, end = query_rows(run.request)
    keys = axes.length(tensor_at(run.request, "K"), "key")
    return bool(run.request.problem.causal) and end + mask_offset(run.request) < keys


def times_of_k(frames: Sequence[TilingFrame], symbol: str, width: int) -> list[float]:
    """For each step, the bytes of K read so far, over the bytes of its rows that were read at least once. 0 before the
    first read.

    symbol: the probes' name of K.
    width: the bytes of a row.
    """
    found, rows = [], set[int]()
    for frame in frames:
        for touched in frame["touched"]:
            if touched["tensor"] == symbol and touched["kind"] == "load":
                rows |= set(range(touched["rect"][0], touched["rect"][1] + 1))
        read = frame["bytes"].get(f"{symbol} load", 0)
        found.append(read / (len(rows) * width) if rows else 0.0)
    return found


def times_said(number: float) -> str:
    """A number of reads in words."""
    if not number:
        return "not yet"
    return "once" if abs(number - 1) < 0.005 else f"{short(number, 3)} times"


def scores_stored(frame: TilingFrame, places: dict[str, str]) -> int:
    """The bytes of S and P that were written to global memory so far."""
    names = [f"{symbol} store" for symbol, place in places.items() if place in ("S", "P")]
    return sum(frame["bytes"].get(name, 0) for name in names)


def bytes_stored(run: Run) -> dict[str, int]:
    """Part of the picture -> the bytes stored to it in global memory. Other tensors keep their own name."""
    table = run.trace.frame("event", "space", "tensor", "bytes")
    stores = table[(table.space == "global") & table.event.isin(WRITES)]
    places = picture.places(run.request)
    found: dict[str, int] = {}
    for symbol, amount in stores.groupby("tensor", observed=True).bytes.sum().items():
        place = places.get(str(symbol), str(symbol))
        found[place] = found.get(place, 0) + int(amount)
    return found


def scores_size(run: Run) -> int:
    """The bytes of the query tile's scores in the type of O."""
    _, first, end = query_rows(run.request)
    keys = axes.length(tensor_at(run.request, "K"), "key")
    return (end - first) * keys * tensor_at(run.request, "O").itemsize


def never_stored(run: Run, **where: Unpack[Where]) -> list[Question]:
    """The knowledge check on the data that FlashAttention never stores. An empty list for a kernel that stores S or P.

    where: the place of the answer.
    """
    stored, (_, first, end) = bytes_stored(run), query_rows(run.request)
    names = {"o": stored.get("O"), "s_or_p": stored.get("S") or stored.get("P"), "rows": end - first}
    return [replace(asked, **where) for asked in WORDS.questions(names | {"size": scores_size(run)}, 0)]


def pairs(request: Request, whole: bool) -> int:
    """The (query, key) pairs of the whole run, from its work (4 FLOP for each pair and dim), or of the scope's query
    tiles. 0 if they do not follow from the problem's mask."""
    q = tensor_at(request, "Q")
    n, keys, heads = axes.length(q, "query"), axes.length(tensor_at(request, "K"), "key"), axes.heads(q)
    every = request.problem.work.flops // (4 * axes.length(q, "dim"))
    keys_of = np.full(n, keys)
    if request.problem.causal:
        keys_of = np.clip(np.arange(1, n + 1) + mask_offset(request), 0, keys)
    if whole or every != heads * keys_of.sum():
        return every if whole else 0
    scope = request.scope
    tiles = [replace(request, scope=Scope(item)) for item in range(scope.first, scope.first + scope.count)]
    return sum(int(keys_of[slice(*query_rows(tile)[1:])].sum()) for tile in tiles)


def access_order(requests: Sequence[Request]) -> list[str]:
    """ "Q read", "S written", "S read" and so on: every possible access, in the order of charts and tables."""
    order = (Role.INPUT, Role.SCRATCH, Role.OUTPUT)
    found = {(axes.tensors(one)[symbol].role, symbol): None for one in requests for symbol in in_order(one)}
    return [
        f"{symbol} {verb}"
        for role, symbol in sorted(found, key=lambda entry: order.index(entry[0]))
        for verb in (("read", "written") if role is Role.INPUT else ("written", "read"))
    ]

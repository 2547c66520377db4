"""The threads of each element: the grid's blocks, a block's warps, a warp's lanes, and at each step their elements of
every matrix and their lines.

Everything comes from the trace. An access of global memory gives an element by its offset, a value by its keys. An
access of shared memory gives the element of the last store there. A store has the element of the thread's last load
or value. An ldmatrix distributes the elements at 32 addresses among all lanes, so it gives only a line.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa

from explainers.models import generic
from explainers.models.frames import Moment, Plane, ThreadsMeta
from explainers.models.thread_elements import KINDS, MOST_RECORDS, Elements
from explainers.story import axes, picture, probed, stage
from kernels.core.distinct import distinct
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.probes import Sites

MOST = 200_000  # rectangles in the browser. Later steps have none


@dataclass(frozen=True)
class Threads:
    """The elements and lines of each thread.

    planes: the matrices in the order of the picture: name -> (axis of its rows, of its columns).
    """

    steps: pd.DataFrame  # of the trace
    planes: dict[str, tuple[str, str]]
    rects: pd.DataFrame  # step, plane, kind, thread, row0, row1, col0, col1, sorted
    ran: np.ndarray  # [steps, most threads of a block], a place in `lines`, or -1
    lines: list[list[str]]  # sets of FILE:LINE
    left_out: list[str] = field(default_factory=list)  # sentences on the parts left out for their size


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel has marks, touches global memory, and launches no kernels."""
    return not spec.launches_children and bool(probed.marks(spec)) and probed.accesses(spec, "global")


def keeps_weights(spec: KernelSpec) -> bool:
    """Whether the weights P never leave the registers: the kernel logs them, and no memory holds a tensor with them. A
    tensor of queries by keys without a declared part could hold them."""
    request = probed.sample(spec)
    kept = any({"query", "key"} <= set(tensor.axes) for tensor in axes.tensors(request).values())
    return "p" in probed.values(spec) and "P" not in picture.places(request).values() and not kept


def first(specs: Iterable[KernelSpec]) -> KernelSpec:
    """The first kernel with its weights in registers, without tensor cores before others. Else the last kernel."""
    given = list(specs)
    keeping = sorted((spec for spec in given if keeps_weights(spec)), key=lambda spec: bool(spec.tensor_products))
    return keeping[0] if keeping else given[-1]


def explain(run: Run) -> Threads:
    """The Threads of any Run with a trace."""
    elements, steps = _elements(run)
    rects, step = elements.all(), elements.step
    ran, lines = _lines(elements.table, step, elements.site, elements.sites, len(steps))
    planes = {name: found_axes for name, found_axes in elements.planes.items() if (rects.plane == name).any()}
    order = [name for name in "QKVSPO" if name in planes]
    planes = {name: planes[name] for name in [*order, *(n for n in planes if n not in order)]}
    left_out = ["This run is too large to show the reads from shared memory."] if len(step) > MOST_RECORDS else []
    left_out += ["This run has too many elements, so the last steps show none."] if len(rects) > MOST else []
    return Threads(steps, planes, rects[:MOST], ran, lines, left_out)


def reads(run: Run, name: str, space: str) -> pd.DataFrame:
    """step, row, col of each read of that plane's elements by a lane, from global or shared memory. A run above
    MOST_RECORDS has no reads from shared memory."""
    return _elements(run)[0].reads(name, space)


def _elements(run: Run) -> "tuple[Elements, pd.DataFrame]":
    """The finder of a run's elements, and the steps."""
    sites = run.sites
    steps = cutting.cut(run.trace, sites)
    keep = steps.of_record >= 0
    table, site = run.trace.table.filter(pa.array(keep)), sites.index(run.trace.table)[keep]
    return Elements(run.request, table, steps.of_record[keep], site, sites), steps.table


def view(run: Run, steps: Sequence[int] | None = None, story: Threads | None = None) -> stage.View:
    """The picture `threads`.

    steps: the step of the trace for each frame of the stage, if they differ.
    """
    story = story or explain(run)
    names, kinds = list(story.planes), list(KINDS)
    windows = _windows(story)
    rects = story.rects.assign(plane=story.rects.plane.map(names.index), kind=story.rects.kind.map(kinds.index))
    bounds = rects.groupby(["step", "plane", "kind"], sort=False).thread.agg(["size"]).reset_index()
    bounds["first"] = np.cumsum(bounds["size"]) - bounds["size"]
    parts: list[list[list[int]]] = [[] for _ in range(len(story.steps))]
    for number, *part in bounds[["step", "plane", "kind", "first", "size"]].itertuples(index=False):
        parts[int(number)].append([int(n) for n in part])
    moments: list[Moment] = [
        {"launch": int(step.launch), "block": int(step.block), "parts": parts[n], "windows": windows[n]}
        for n, step in enumerate(story.steps.itertuples())
    ]
    planes: list[Plane] = [{"name": name, "row": row, "col": col} for name, (row, col) in story.planes.items()]
    meta: ThreadsMeta = {
        "launches": _launches(run.request),
        "planes": planes,
        "kinds": kinds,
        "moments": moments,
        "of_frame": list(range(len(story.steps))) if steps is None else [int(n) for n in steps],
        "lines": story.lines,
        "threads": story.ran.shape[1],
        "left_out": story.left_out,
    }
    columns = {name: rects[name].to_numpy() for name in ("thread", "row0", "row1", "col0", "col1")}
    return stage.View("threads", "threads", "Threads", meta, columns | {"ran": story.ran})


def own_view(run: Run, id: str = "threads", title: str = "Threads", lit: str = "lines") -> list[stage.View]:
    """The picture with the steps of the trace as its own, next to pictures with other steps. An empty list for a kernel
    without marks.

    lit: the key of a frame's lines (stage.Code).
    """
    if not accepts(run.request.kernel):
        return []
    picture_view, steps_of_trace = view(run), generic.explain(run)
    own = {
        "clock": True,
        "frames": [
            {name: frame[name] for name in ("tile", "title", "sentence")} | {lit: frame["lines"]}
            for frame in steps_of_trace.frames
        ],
        "state": [asdict(state) for state in generic.states(steps_of_trace)],
    }
    return [stage.View("threads", id, title, {**picture_view.meta, **own}, picture_view.columns)]


def _windows(story: Threads) -> list[dict[str, list[int]]]:
    """For each step, the drawn part of each axis: the indices of its tile, over all matrices."""
    steps = story.steps
    outer = steps.launch.astype(int) * 10**9 + steps.block.astype(int)
    changes = (outer != outer.shift()) | (steps.tile != steps.tile.shift())
    part_of = changes.cumsum().to_numpy() - 1
    found: list[dict[str, list[int]]] = [{} for _ in range(int(part_of.max(initial=-1)) + 1)]
    extents = story.rects.groupby(["step", "plane"]).agg(
        row0=("row0", "min"), row1=("row1", "max"), col0=("col0", "min"), col1=("col1", "max")
    )
    for (step, plane), *bounds in zip(extents.index, *(extents[name] for name in ("row0", "row1", "col0", "col1"))):
        window = found[part_of[int(step)]]
        for axis, low, high in zip(story.planes[plane], bounds[::2], bounds[1::2]):
            here = window.get(axis, [low, high])
            window[axis] = [int(min(low, here[0])), int(max(high, here[1]))]
    for ahead in (
        found,
        found[::-1],
    ):  # an axis without elements in a tile keeps its part, and gets the next part before the first tile
        known: dict[str, list[int]] = {}
        for window in ahead:
            known = {**known, **window}
            window.update(known)
    return [found[n] for n in part_of]


def _lines(
    table: pa.Table, step: np.ndarray, site: np.ndarray, sites: Sites, steps: int
) -> tuple[np.ndarray, list[list[str]]]:
    """Which lines each thread ran in each step: `ran` and `lines` of Threads."""
    thread = table["thread"].to_numpy()
    places = list(dict.fromkeys(s.place for s in sites if s.kind in ("value", "access")))
    of_site = np.array([places.index(s.place) if s.kind in ("value", "access") else -1 for s in sites] or [-1])[site]
    threads = int(thread.max(initial=0)) + 1
    keep = of_site >= 0
    code = distinct((step[keep].astype(np.int64) * threads + thread[keep]) * max(1, len(places)) + of_site[keep])
    who, place = np.divmod(code, max(1, len(places)))
    starts = np.flatnonzero(np.r_[True, np.diff(who) != 0]) if len(who) else np.zeros(0, int)
    known: dict[bytes, int] = {}
    ran = np.full(steps * threads, -1)
    for first, end in zip(starts, np.r_[starts[1:], len(who)]):
        ran[who[first]] = known.setdefault(place[first:end].tobytes(), len(known))
    sets = [[places[n] for n in np.frombuffer(key, place.dtype)] for key in known]
    return ran.reshape(steps, threads), sets


def _launches(request: Request) -> list[dict[str, object]]:
    """Each launch in the picture, with the expressions of its grid and its block."""
    found = []
    dense = request.plan.item == picture.ITEM and "O" in picture.places(request).values()
    rows = list(picture.tiles_of(request)) if dense else None
    for launch, text in zip(request.plan.launches, request.kernel.launch_texts):
        first_block, count = request.scope.blocks(launch, request.plan)
        found.append(
            {
                "entry": launch.entry,
                "grid": list(launch.grid),
                "block": list(launch.block),
                "threads": launch.threads,
                "grid_of": [str(said) for said in text.grid],
                "block_of": [str(said) for said in text.block],
                "item": launch.item,
                "per_item": launch.blocks_per_item,
                "traced": [first_block, count],
                "rows": rows if launch.item == picture.ITEM else None,
            }
        )
    return found

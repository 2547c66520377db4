"""The sparsity story: a mask as blocks, the walk of one block of queries, and the row's scores, m and l.

sparsity_ledger.py reports the cost of a mask.
"""

from collections.abc import Sequence

import numpy as np

from explainers.stories.sparsity.block_mask import has_lists, kinds_of, room, row_bytes, seen_of
from explainers.stories.sparsity.frames import Drawing, SparsityMeta
from explainers.stories.sparsity.mask_frames import number_text
from explainers.stories.sparsity.mask_walk import Walk, explain
from explainers.stories.sparsity.sparsity_questions import questions
from explainers.story import picture, probed, stage
from kernels.core.spec import KernelSpec
from kernels.run.results import Run

NEEDS: dict[str, tuple[str, ...]] = {"score": ("row", "col"), "m": ("row", "tile"), "l": ("row", "tile")}
WANTS = (*NEEDS, "rescale", "tile_max")
MOST_ELEMENTS = 1 << 20  # most elements of a mask in the picture
WORD = 16  # elements of a mask in a float32 column: it holds 16 bits exactly


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel computes attention with a mask and logs the walk.

    Its items are query tiles. It logs scores, m and l tile by tile. It has the lists of the mask's blocks, or own
    tiles.
    """
    return not refusal(spec)


def refusal(spec: KernelSpec) -> str:
    """Returns the reason against a kernel in a sentence, or ""."""
    if not probed.has_masks(spec):
        return f"{spec.name} solves a problem without a mask."
    request = probed.sample(spec)
    if lacking := probed.without_events(spec, NEEDS) or picture.without_parts(request):
        return lacking
    if request.plan.item != picture.ITEM:
        return f'{spec.name} has no query tiles as items. Set item = "{picture.ITEM}" in its launches.'
    if not (has_lists(request) or spec.constant_of("key_rows")):
        return f"{spec.name} has neither the lists of blocks nor a constant BLOCK_KV."
    return ""


def view(run: Run, walk: Walk) -> tuple[SparsityMeta, dict[str, np.ndarray]]:
    """Returns the meta and the columns of the view `sparsity`."""
    request, problem = run.request, run.request.problem
    queries, keys = room(request).queries, len(walk.scores)
    small = queries * keys <= MOST_ELEMENTS
    drawing: Drawing | None = None
    if problem.mask == "drawn" and request.backend != "recorded":  # a drawn mask needs a new run
        block, drawn = problem.mask_block, [list(row) for row in problem.drawn]
        drawing = {"block": block, "rows": -(-queries // block), "columns": -(-keys // block), "drawn": drawn}
    meta: SparsityMeta = {
        "frames": walk.frames,
        "queries": queries,
        "keys": keys,
        "block_q": walk.lists.block_q,
        "block_kv": walk.lists.block_kv,
        "tile": walk.place.tile,
        "row": walk.row,
        "head": walk.place.head,
        "entries": [[e.column, e.kind] for e in walk.entries],
        "row_bytes": row_bytes(request),
        "elements": small,
        "drawing": drawing,
    }
    columns = {"kinds": kinds_of(walk.lists).astype(np.float32), "scores": walk.scores}
    columns["seen"] = packed(seen_of(walk.lists, queries, keys)) if small else np.zeros(0, np.float32)
    return meta, columns


def packed(seen: np.ndarray) -> np.ndarray:
    """Returns bool [queries, keys] as float32 [queries, words]. Bit i of word w is key WORD w + i."""
    words = -(-seen.shape[1] // WORD)
    padded = np.zeros((len(seen), words * WORD), bool)
    padded[:, : seen.shape[1]] = seen
    return (padded.reshape(len(seen), words, WORD) @ (1 << np.arange(WORD))).astype(np.float32)


def stage_of(run: Run, row: int, provenance: stage.Provenance, beside: Sequence[stage.View] = ()) -> stage.Stage:
    """Returns the whole stage of a row's walk. beside: more pictures, after the mask."""
    walk = explain(run, row)
    return stage.of_request(
        run.request,
        walk.frames,
        [stage.View("sparsity", "mask", "Mask and list", *view(run, walk)), *beside],
        state=states(walk),
        tabs=[
            stage.Tab("ledger", "Ledger"),
            stage.Tab("elements", "Elements or blocks"),
            stage.Tab("builds", "Builds"),
            stage.Tab("data", "Data and labels"),
        ],
        provenance=provenance,
        questions=questions(walk),
    )


def states(walk: Walk) -> list[stage.State]:
    """Returns the strip: the row's m and l after the step, the walked entries, and their loaded bytes."""

    def said(value: float) -> float | str:
        return value if np.isfinite(value) else number_text(value)

    last = len(walk.frames) - 1
    walked = [min(n, len(walk.entries)) for n in range(last + 1)]
    lse = [number_text(walk.lse) if n == last else "not written yet" for n in range(last + 1)]
    return [
        stage.State("running max m", [said(f["m"]) for f in walk.frames], colour="S"),
        stage.State("running sum l", [said(f["l"]) for f in walk.frames], colour="P"),
        stage.State("blocks walked", walked, of=walk.lists.kv_indices.shape[1]),
        stage.State("K and V loaded", [f["loaded"] for f in walk.frames], "B", colour="load"),
        stage.State("lse", lse),
    ]

"""Sparsity: a mask as blocks, the walk of one block of queries through its list, and the row's scores, m and l."""

from dataclasses import dataclass

import numpy as np

from explainers.stories.sparsity import costs
from explainers.stories.sparsity.block_mask import FULL, KINDS, PARTIAL, has_lists, kinds_of, room, row_bytes, seen_of
from explainers.stories.sparsity.mask_walk import WORDS, Walk, explain, number_text
from explainers.story import picture, probed, scene, stage
from explainers.story.base import Runner, Story
from explainers.story.stage import Stage, State, Tab, View
from explainers.story.words import Row
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run

NEEDS: dict[str, tuple[str, ...]] = {"score": ("row", "col"), "m": ("row", "tile"), "l": ("row", "tile")}
MOST_ELEMENTS = 1 << 20  # most elements of a mask in the picture
WORD = 16  # elements of a mask in a float32 column: it holds 16 bits exactly
COLOURS = {"skipped": "", "partial": "now", "full": "before"}
IN_A_ROW = 16  # cells of the list


@dataclass(frozen=True)
class Walked:
    """A row of the traced query block.

    row: its number in the head.
    """

    request: Request
    row: int


class Sparsity(Story[Walked]):
    """One row's way through the list of its query block."""

    WANTS = (*NEEDS, "rescale", "tile_max")

    def refusal(self, spec: KernelSpec) -> str:
        """The reason against a kernel, or "": it computes attention with a mask, its items are query tiles, it logs
        scores, m and l tile by tile, and it has the lists of the mask's blocks, or own tiles."""
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

    def stage(self, subject: Walked, runner: Runner) -> Stage:
        run = runner.run(subject.request)
        walk = explain(run, subject.row)
        effect, tone = runner.broken(run)
        ledger = costs.summary(costs.ledger(run))
        last, steps = len(walk.steps) - 1, walk.steps
        return stage.of_request(
            run.request,
            walk.frames,
            [view(run, walk)],
            state=[
                State("running max m", [_finite(step["m"]) for step in steps], colour="S"),
                State("running sum l", [_finite(step["l"]) for step in steps], colour="P"),
                State(
                    "blocks walked",
                    [min(n, len(walk.entries)) for n in range(last + 1)],
                    of=walk.lists.kv_indices.shape[1],
                ),
                State("K and V loaded", [step["loaded"] for step in steps], "B", colour="load"),
                State("lse", [number_text(walk.lse) if n == last else "not written yet" for n in range(last + 1)]),
            ],
            tabs=[Tab("ledger", "Ledger"), Tab("elements", "Elements or blocks"), stage.BUILDS, stage.DATA],
            provenance=runner.provenance(run),
            questions=WORDS.questions(walk.data, last),
            summary=" ".join(filter(None, [effect, ledger])),
            tone=tone or "info",
        )


def _finite(value: float) -> float | str:
    return value if np.isfinite(value) else number_text(value)


def view(run: Run, walk: Walk) -> View:
    """The mask of the head in blocks, the list of the query block, and the scores of the row."""
    request, problem, lists, data = run.request, run.request.problem, walk.lists, walk.data
    queries, keys = room(request).queries, len(walk.scores)
    kinds = kinds_of(lists)
    rows, columns = kinds.shape
    heights = np.minimum(lists.block_q, queries - np.arange(rows) * lists.block_q)
    widths = np.minimum(lists.block_kv, keys - np.arange(columns) * lists.block_kv)
    loads = np.broadcast_to(widths * row_bytes(request), kinds.shape)
    small = queries * keys <= MOST_ELEMENTS
    seen = seen_of(lists, queries, keys) if small else np.zeros((0, 0), bool)
    drawing: Row | None = None
    if problem.mask == "drawn" and request.backend != "recorded":  # a drawn mask needs a new run
        drawing = {"block": problem.mask_block, "drawn": [list(row) for row in problem.drawn]}
    tips = WORDS.table("tips")
    counts = [[int((row == kind).sum()) for kind in range(len(KINDS))] for row in kinds]
    names = [dict(zip(("skipped_here", "partial_here", "full_here"), row)) for row in counts]
    mask = scene.Blocks(
        part="block",
        title=[
            f"Mask of head {walk.place.head}: {queries:,} queries (down) × {keys:,} keys",
            f"Mask of head {walk.place.head}: {queries:,} × {keys:,}",
            f"Mask of head {walk.place.head}",
        ],
        size=(queries, keys),
        block=(lists.block_q, lists.block_kv),
        kinds="kinds",
        elements="elements",
        colours=[*COLOURS.values()],
        hidden="pale now",
        tips=[tips["skipped"], tips["partial" if small else "some"], tips["full"]],
        row_tips=[WORDS.say("row_tip", {**data, **one, "at": row}) for row, one in enumerate(names)],
        row=walk.place.tile,
        dashed=walk.row,
        order=[(entry.column, _ordinal(n + 1), str(n + 1)) for n, entry in enumerate(walk.entries)],
        now=[step["column"] for step in walk.steps],
        gos={str(entry.column): n + 1 for n, entry in enumerate(walk.entries)},
        choice="at_tile",
        drawing=drawing,
        drawn_choice="drawn",
        share=1.4,
    )
    columns_of_view = {
        **{"kinds": kinds, "pairs": np.outer(heights, widths), "bytes": loads, "scores": walk.scores},
        "elements": packed(seen) if small else np.zeros(0),
        "seen": np.add.reduceat(
            np.add.reduceat(seen, np.arange(rows) * lists.block_q, 0, dtype=int),
            np.arange(columns) * lists.block_kv,
            1,
        )
        if small
        else np.zeros(0),
    }
    sizes = [f"{loads[kinds == kind].sum():,} B" for kind in range(len(KINDS))]
    blocks = [int((kinds == kind).sum()) for kind in range(len(KINDS))]
    words = [
        "skipped",
        "partial (faint: hidden)",
        "full block" if blocks[FULL] == 1 else "full blocks",
    ]
    return scene.view(
        "mask",
        "Mask and list",
        [[mask, _scores(walk, kinds[walk.place.tile])], [_list(walk)]],
        legend=[
            (COLOURS[KINDS[kind]] or "background", f"{blocks[kind]:,} {words[kind]}, {sizes[kind]}")
            for kind in (FULL, PARTIAL, 0)
        ],
        note=WORDS.say("note", {**data, "drawn": drawing is not None}),
        columns={name: np.asarray(values, np.float32) for name, values in columns_of_view.items()},
    )


def _list(walk: Walk) -> scene.Cells | scene.Lines:
    """The entries of the list. Those of coming steps are pale."""
    title = WORDS.say("list", walk.data)
    if not walk.entries:
        return scene.Lines(lines=[scene.Line(texts=[title], bold=True)])
    letters = "".join("pf"[entry.kind == FULL] for entry in walk.entries)
    words = {"p": "partial", "f": "full"}
    return scene.Cells(
        part="entry",
        title=[[title]],
        columns=min(len(letters), IN_A_ROW),
        states=[letters[:n].upper() + letters[n:] for n in range(len(walk.steps))],
        colours={"P": "now", "F": "before", "p": "pale now", "f": "pale before"},
        words={**words, "P": "partial", "F": "full"},
        axes=("row", "entry"),
        texts=[str(entry.column) for entry in walk.entries],
        tips=[f"entry {n + 1}: block {e.column}, {KINDS[e.kind]}" for n, e in enumerate(walk.entries)],
        gos=[n + 1 for n in range(len(letters))],
        ringed=[step["entry"] for step in walk.steps],
    )


def _scores(walk: Walk, kinds: np.ndarray) -> scene.Columns:
    """The scores of the row with the keys of the step's block, and with all keys before and after the walk.

    kinds: of the blocks of the walked row.
    """
    keys, width, row, last = len(walk.scores), walk.lists.block_kv, walk.row, len(walk.steps) - 1
    finite = walk.scores[np.isfinite(walk.scores)]
    partial = np.repeat(kinds == PARTIAL, width)[:keys]
    hidden = np.flatnonzero(np.diff(np.r_[False, partial & np.isnan(walk.scores), False]))
    whys = {0: "block {} is skipped", PARTIAL: "hidden by the mask", FULL: "no score was logged"}
    titles, ranges, levels, notes = [], [], [], []
    for n, step in enumerate(walk.steps):
        column = step["column"]
        if column >= 0:
            texts = (f"with the keys of block {column}", f"block {column}")
        elif n < last:
            texts = ("none is computed yet", "none yet")
        else:
            texts = ("all that were computed", "all computed") if len(finite) else ("it sees no key", "none")
        titles.append([*(f"Scores of row {row}: {text}" for text in texts), f"Scores of row {row}"])
        ranges.append((column * width, min(keys, (column + 1) * width)) if column >= 0 else (0, keys))
        moved = step["m_before"] != step["m"]
        found = [(step["m_before"], True)] if moved else []
        levels.append([level for level in [*found, (step["m"], False)] if np.isfinite(level[0])])
        notes.append([_moved("max m", step["m_before"], step["m"]), _moved("sum l", step["l_before"], step["l"])])
    return scene.Columns(
        part="key",
        title=titles,
        notes=notes,
        column="scores",
        ranges=ranges,
        scale=(min(0.0, *finite.tolist()), max(0.1, *finite.tolist())) if len(finite) else (0.0, 0.1),
        name="key",
        noun=f", row {row}: score",
        bare=[n for n in range(last) if walk.steps[n]["column"] < 0],
        levels=levels,
        pale=[(int(first), int(end)) for first, end in zip(hidden[::2], hidden[1::2])],
        pale_colour="pale now",
        blanks=[f", row {row}: {whys[int(kind)].format(block)}" for block, kind in enumerate(kinds)],
        each=width,
    )


def _moved(name: str, before: float, after: float) -> str:
    """max m 1.25 → 2.5"""
    texts = dict.fromkeys(number_text(value, 5) for value in (before, after))
    return f"{name} {' → '.join(texts)}"


def _ordinal(n: int) -> str:
    """1st, 2nd, 3rd, 11th: the turn of a block is not mistaken for its name."""
    return f"{n}{'th' if n // 10 % 10 == 1 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def packed(seen: np.ndarray) -> np.ndarray:
    """Returns bool [queries, keys] as float32 [queries, words]. Bit i of word w is key WORD w + i."""
    words = -(-seen.shape[1] // WORD)
    padded = np.zeros((len(seen), words * WORD), bool)
    padded[:, : seen.shape[1]] = seen
    return (padded.reshape(len(seen), words, WORD) @ (1 << np.arange(WORD))).astype(np.float32)


STORY = Sparsity()

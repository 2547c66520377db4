"""The walk of one query head through its block table, page by page, from the logged loads."""

from collections.abc import Sequence
from typing import Literal, TypedDict

import numpy as np

from explainers.models import grid, threads
from explainers.stories.block_table import paging
from explainers.stories.block_table.paging import Paged
from explainers.stories.block_table.walk_frames import Walk, WalkFrame, walk
from explainers.stories.block_table.walk_tables import layouts_blocks
from explainers.story import axes, probed, stage
from explainers.story.frames import Number
from kernels.core.spec import KernelSpec
from kernels.run.results import Run


class WalkMeta(TypedDict):
    """The fields of the view.

    name, colour: of the sequence.
    table: its pages.
    length: its tokens.
    size: slots of a page.
    pages: of the pool.
    others: page -> slots with tokens of other sequences.
    head, kv_head, kv_heads: the query head, its KV head, and the number of KV heads.
    page_bytes: of a page and KV head.
    item: bytes of an element.
    x: elements of a piece of K.
    partitioned: the kernel cuts the context.

    Columns: scores, weights [length], o [head_dim].
    """

    frames: list[WalkFrame]
    name: str
    colour: str
    table: list[int]
    length: int
    size: int
    pages: int
    others: dict[int, int]
    kv_head: int
    kv_heads: int
    page_bytes: int
    item: int
    head_dim: int
    x: int
    head: int
    partitioned: bool


NEEDS = {"score": ("token",), "p": ("token",), "m": (), "l": (), "o": ("dim",)}
WANTS = ("walk_k", "softmax", "walk_v", "write", "score", "p", "m", "l", "o")


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel computes attention over pages in marked walks of K and V, and logs scores, weights, m, l and
    output."""
    return not refusal(spec)


def refusal(spec: KernelSpec) -> str:
    """Returns the reason against a kernel in a sentence, or ""."""
    if not paging.accepts(spec):
        return f"{spec.name} does not attend to a cache in pages."
    lacking = sorted({"walk_k", "walk_v"} - set(probed.marks(spec)))
    if lacking:
        return f"{spec.name} does not mark {', '.join(lacking)}. Add a mark for each."
    return probed.without_events(spec, NEEDS)


def view(run: Run, story: Walk, name: str, colour: str) -> tuple[WalkMeta, dict[str, np.ndarray]]:
    """Returns the meta and the columns of the view `walk`. name, colour: the sequence."""
    paged, lengths, size = Paged(run.request), paging.lengths(run), Paged(run.request).block_size
    others: dict[int, int] = {}
    for n, length in enumerate(lengths):
        for entry, page in enumerate(paging.pages_of(run, n) if n != story.sequence else ()):
            others[page] = max(others.get(page, 0), min(size, int(length) - entry * size))
    meta: WalkMeta = {
        "frames": story.frames,
        "name": name,
        "colour": colour,
        "table": paging.pages_of(run, story.sequence),
        "length": int(lengths[story.sequence]),
        "size": size,
        "pages": axes.length(paged.k[1], "page"),
        "others": others,
        "kv_head": story.kv_head,
        "kv_heads": paged.num_kv_heads,
        "page_bytes": paged.page_bytes,
        "item": paged.k[1].itemsize,
        "head_dim": paged.head_dim,
        "x": paged.x,
        "head": story.head,
        "partitioned": len(run.request.plan.launches) > 1,
    }
    return meta, {"scores": story.scores, "weights": story.weights, "o": story.o}


def stage_of(
    run: Run,
    name: str,
    colour: str,
    provenance: stage.Provenance,
    tabs: Sequence[stage.Tab] = (),
    live: tuple[int, str] | None = None,
    names: Sequence[str] = (),
) -> stage.Stage:
    """Returns the whole stage of a run over one query head of one sequence.

    name, colour: the sequence.
    tabs: the tabs after the walk's.
    live: as in grid.view.
    names: of all sequences of the run.
    """
    story = walk(run, name)
    whole = grid.view(run.request, live, names=names)
    whole.meta["shown"] = f"sequence {name}"
    return stage.of_request(
        run.request,
        story.frames,
        [
            stage.View("walk", "walk", "Walk", *view(run, story, name, colour)),
            threads.view(run, [frame["moment"] for frame in story.frames]),
            whole,
        ],
        state=states(story),
        tabs=[stage.Tab("layouts", "Why K is split by x", layouts_blocks(story, run)), *tabs],
        provenance=provenance,
    )


def states(story: Walk) -> list[stage.State]:
    """Returns the strip: entry, page and first byte of the step, the current m and l, and the bytes read so far."""
    frames = story.frames

    def last_known(name: Literal["m", "l"]) -> list[Number]:
        course: list[Number] = []
        for frame in frames:
            course.append(frame.get(name, course[-1] if course else None))
        return course

    def of_page(name: str, said: str) -> list[str | None]:
        return [said.format(f[name], f.get("tensor")) if name in f else None for f in frames]  # type: ignore[literal-required]

    return [
        stage.State("block table", of_page("logical", "entry {}")),
        stage.State("names", of_page("page", "page {}")),
        stage.State("first byte", of_page("base", "{:,} of {}")),
        stage.State("max m", last_known("m"), colour="S"),
        stage.State("sum l", last_known("l"), colour="P"),
        stage.State("read so far", np.cumsum([f["read"] for f in frames]).tolist(), "B", colour="load"),
    ]


def asked(run: Run, made: stage.Stage, name: str) -> dict[str, object]:
    """The names for the questions: the way to a key, the two phases and the grid. name: the sequence.

    jump: the last step of K whose page is not the page after the one before. None without one.
    first_v: the first step of V. None without K or without V.
    """
    meta: WalkMeta = made.views[0].meta
    frames, table, size = meta["frames"], meta["table"], meta["size"]
    steps = [n for n, frame in enumerate(frames) if "page" in frame]
    by_role = {role: [n for n in steps if frames[n]["role"] == role] for role in ("k", "v")}
    jumps = [n for n in by_role["k"] if (e := frames[n]["logical"]) and table[e] not in (table[e - 1] + 1, e)]
    return {
        **{"view": "walk", "name": name, "length": meta["length"], "size": size, "look_ups": len(steps)},
        "jump": _jump(jumps[-1], frames, table, size) if jumps else None,
        "first_v": by_role["v"][0] if all(by_role.values()) else None,
        "pages_of_k": len(by_role["k"]),
        "grid": _grid(run, made) if steps else None,
    }


def _jump(step: int, frames: Sequence[WalkFrame], table: list[int], size: int) -> dict[str, object]:
    """The look-up of a page at a step, with the pages that the wrong answers name."""
    frame = frames[step]
    entry, page, before = frame["logical"], frame["page"], table[frame["logical"] - 1]

    def in_pool(page: int) -> dict[str, object]:
        """A page as the picture names it: by its tokens, or as a page of another sequence."""
        first = table.index(page) * size if page in table else None
        return {"other": page} if first is None else {"token": [first, first + size - 1], "part": "pool"}

    covered = [in_pool(one) for one in sorted({page, entry, before + 1})]  # the colour of a page tells whose it is
    return {
        **{"step": step, "entry": entry, "page": page, "before": before, "token": frame["tokens"][0]},
        "first_byte": f"{frame['base']:,} of {frame['tensor']}",
        "covers": [{"token": frame["tokens"], "part": "table"}, *covered],
    }


def _grid(run: Run, made: stage.Stage) -> dict[str, int]:
    """The thread blocks of the walk's kernel, and the step with the most running ones."""
    view = next(view for view in made.views if view.kind == "grid")
    running = next(state["values"] for state in view.meta["state"] if state["name"] == "blocks running")
    heads, parts = Paged(run.request).num_heads, run.request.plan.launches[0].blocks_per_item
    sequences = len(paging.lengths(run))
    blocks = heads * sequences * parts
    counts = {"heads": heads, "sequences": sequences, "parts": parts, "blocks": blocks}
    return counts | {"step": running.index(max(running))}

"""Paging: a KV cache in pages, the kernels that find their way through it, and what query heads share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from app import running, tabs
from app.choices import State, cache
from app.choices.pages import BLOCK_TABLE
from app.story import Story, tab_of
from explainers import block_table, kv_cache, kv_heads, partition_blocks, partitions, questions, stage, threads
from explainers.stage import Block, Stage
from kernels.build import DEFAULT_ARCH
from kernels.build.occupancy import machine
from kernels.catalog import of_problem
from kernels.core.request import Request, Scope
from kernels.errors import ProblemError
from kernels.families.paged.kv_cache import Layout
from kernels.families.paged.scenarios import Scenario, copy_of, write_event, write_of

MOST_NAMED = 24  # slots that a sentence lists
Shape = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Cache:
    """The cache, event by event. moment: the event whose writes are shown. layout: None where no kernel can run on it.
    shape: of what writes it."""

    scenario: Scenario
    block_size: int
    moment: int
    by_hand: bool
    layout: Layout | None
    shape: Shape
    backend: str


@dataclass(frozen=True)
class Walk:
    """A query head's walk. plain: the same on the pages as they were allocated, None where they are not shuffled."""

    request: Request
    plain: Request | None
    names: tuple[str, ...]
    name: str
    colour: str
    seed: int


@dataclass(frozen=True)
class Beside:
    """A kernel that walks whole contexts beside one that cuts them. name: of the sequence."""

    whole: Request
    cut: Request
    name: str


@dataclass(frozen=True)
class Heads:
    """The whole cache at several ratios of query heads to KV heads, the chosen one among them."""

    requests: tuple[Request, ...]


# ---- what is asked for ----


def what(state: State, backend: str) -> Cache | Walk | Beside | Heads:
    return _WHAT[state["view"]](cache.chosen(BLOCK_TABLE, state, backend))


def _cache(chosen: cache.Chosen) -> Cache:
    state = chosen.state
    try:
        layout = chosen.problem(next(c for c, _ in reversed(chosen.states) if c.sequences)).layout
    except (ProblemError, StopIteration):
        layout = None
    shape = tuple((name, state[name]) for name in ("num_kv_heads", "head_dim", "dtype", "seed"))
    by_hand = state["scenario"] == cache.BY_HAND
    return Cache(chosen.scenario, state["block_size"], state["moment"], by_hand, layout, shape, chosen.backend)


def _walk(chosen: cache.Chosen) -> Walk:
    sequence, seed = chosen.sequence, chosen.state["shuffle"]
    plain = chosen.request(cache=chosen.plain) if seed else None
    names = tuple(s.name for s in chosen.cache.sequences)
    colour = kv_cache.sequence_colours(chosen.states)[kv_cache.identity(sequence)]
    return Walk(chosen.request(), plain, names, sequence.name, colour, seed)


def _beside(chosen: cache.Chosen) -> Beside:
    whole, cut = (_first(accepts) for accepts in (partitions.accepts_whole, partitions.accepts))
    return Beside(chosen.request(whole), chosen.request(cut), chosen.sequence.name)


def _heads(chosen: cache.Chosen) -> Heads:
    kernel, state = _first(partitions.accepts_whole), chosen.state
    counts = dict.fromkeys((state["num_heads"], state["num_kv_heads"], 1))
    return Heads(tuple(chosen.request(kernel, everything=True, num_kv_heads=count) for count in counts))


def _first(accepts: Any) -> str:
    return next(name for name, spec in BLOCK_TABLE.kernels.items() if accepts(spec))


_WHAT: dict[str, Callable[[cache.Chosen], Cache | Walk | Beside | Heads]] = {
    "cache": _cache,
    "walk": _walk,
    "partitions": _beside,
    "heads": _heads,
}


# ---- what is shown ----


def make(asked: Cache | Walk | Beside | Heads) -> Stage:
    match asked:
        case Cache():
            made = kv_cache.stage_of(asked.scenario, asked.block_size, asked.layout, asked.by_hand)
            return replace(made, questions=questions.pool(made))
        case Walk():
            run = running.run(asked.request)
            shuffled = [stage.Tab("shuffle", "Shuffled, compared")] if asked.plain else []
            more, live = [*shuffled, tabs.BUILDS, tabs.DATA], running.live_gpu()
            made = block_table.stage_of(run, asked.name, asked.colour, running.provenance(run), more, live)
            asks = [*questions.walk(run, made.frames, _partition(asked.request)), *questions.beside(made)]
            return replace(made, questions=asks)
        case Beside():
            whole, cut = running.run(asked.whole), running.run(asked.cut)
            more = [stage.Tab("blocks", "Enough blocks"), tabs.BUILDS, tabs.DATA]
            made = partitions.stage_of(whole, cut, asked.name, running.provenance(cut), more)
            both = [
                *threads.beside(whole, "threads_v1", "Threads of V1", "lines_v1"),
                *threads.beside(cut, "threads_v2", "Threads of V2", "lines_v2"),
            ]
            asks = questions.partitions(made, cut.request.constants[partitions.SIZE])
            made = replace(made, views=[*made.views, *both])
            return replace(made, questions=[*asks, *questions.beside(made)])
        case Heads():
            runs = [running.run(request) for request in asked.requests]
            found = [kv_heads.reads(run) for run in runs]
            made = kv_heads.stage_of(found, running.provenance(runs[0]), [tabs.BUILDS, tabs.DATA])
            panels = made.views[0].meta["panels"]
            asks = questions.heads(panels, found[0]["num_heads"])
            made = replace(made, views=[*made.views, *threads.beside(runs[0])])
            return replace(made, questions=[*asks, *questions.beside(made)])


def _partition(request: Request) -> int:
    """Tokens of a partition: the kernel's own, or what pages begin with."""
    return request.constants.get(partitions.SIZE, cache.SHOWN_PARTITION)


def _requests(asked: Walk | Beside | Heads) -> list[Request]:
    """What the tabs of builds and data are of."""
    match asked:
        case Walk():
            return [asked.request]
        case Beside():
            return [asked.whole, asked.cut]
        case Heads():
            return [asked.requests[0]]


def builds_tab(asked: Walk | Beside | Heads) -> list[Block]:
    return [block for request in _requests(asked) for block in tabs.builds(request)]


def data_tab(asked: Walk | Beside | Heads) -> list[Block]:
    return [*(block for request in _requests(asked) for block in tabs.data(request)[:2]), *tabs.labels()]


def shuffle_tab(asked: Walk) -> list[Block]:
    """The outputs under a shuffle of the pages beside those without."""
    assert asked.plain
    plain, moved = running.run(asked.plain), running.run(asked.request)
    return block_table.shuffle_blocks(plain, moved, asked.names, asked.seed)


def blocks_tab(asked: Beside) -> list[Block]:
    """When V2 has blocks enough to fill the GPU: that it runs on, or a well-known one."""
    known = machine(DEFAULT_ARCH)
    count, name = running.live_gpu() or (known.multiprocessors, f"An {known.gpu}")
    return partition_blocks.blocks(running.run(asked.whole), running.run(asked.cut), count, name)


def writes_tab(asked: Cache) -> list[Block]:
    """What the kernels that write a cache store for the event, from their own traces."""
    after, change = asked.scenario.states(asked.block_size)[asked.moment]
    event = f"Event {asked.moment}" + (f", {write_event(change.event)}," if change else "")
    if change is None or not (change.written or change.copied):
        return [stage.text(f"{event} writes no key and no value. Step to an event that adds tokens.")]
    if asked.backend == "recorded":
        return [stage.text("The kernels' writes are not recorded for every event; choose another backend to run them.")]
    found: list[Block] = [stage.heading(f"{event} stores:")]
    shape = dict(asked.shape)
    if change.copied and (copied := copy_of(after, change, **shape)):
        request = _of(copied, Scope(), asked)
        run, table = running.run(request), running.traffic(request).table
        moved = int(table[table.kind == "store"].bytes.sum())
        said = f"Page {change.copied[0]} to page {change.copied[1]}: {moved:,} bytes stored, K and V of all KV heads."
        found.append(stage.text(f"{stage.headline(request.kernel)} {said}", run.provenance))
    if written := write_of(after, change, **shape):
        slots = written.slots
        request = _of(written, Scope(0, len(slots)), asked)
        run = running.run(request)
        named = ", ".join(map(str, slots[:MOST_NAMED])) + (" ..." if len(slots) > MOST_NAMED else "")
        said = f"{stage.headline(request.kernel)} Slots of the {len(slots)} new tokens: {named}."
        caption = "The bytes that the probed stores named, over all KV heads; the first 64 tokens."
        found += [stage.text(said, run.provenance), stage.table(block_table.addresses_table(run), caption)]
    return found


def _of(problem: Any, scope: Scope, asked: Cache) -> Request:
    """The first kernel that solves a problem of that kind, on it."""
    spec = next(iter(of_problem(type(problem)).values()))
    return Request(spec, problem, scope=scope, backend=asked.backend)


STORY = Story(
    path="block_table",
    title="Paging",
    look="Follow an entry of the block table to its page: the pages of one sequence lie anywhere in the pool, in no "
    "order. See what that costs, an extra read for each page, and what it saves, slots that nobody has to reserve.",
    asked=BLOCK_TABLE,
    what=what,
    make=make,
    parts={
        "writes": tab_of(Cache, writes_tab),
        "shuffle": tab_of(Walk, shuffle_tab, lambda walk: walk.plain),
        "blocks": tab_of(Beside, blocks_tab),
        "builds": tab_of(Walk | Beside | Heads, builds_tab),
        "data": tab_of(Walk | Beside | Heads, data_tab),
    },
    narrowed=cache.narrowed,
    changed=cache.changed,
)

"""Paging: a KV cache in pages, the kernels that find their way through it, and what query heads share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from app.choices import State, cache
from app.choices.pages import BLOCK_TABLE, PAGE_READERS
from app.parts import running, tabs
from app.parts.story import Story, tab_of
from explainers.stories.block_table import (
    block_table,
    cache_questions,
    kv_cache,
    kv_heads,
    page_counts,
    page_reads,
    partition_blocks,
    partitions,
    range_tables,
    ranges,
    reader_questions,
    serving,
    walk_questions,
    walk_tables,
)
from explainers.stories.registers import thread_questions, threads
from explainers.story import stage
from explainers.story.glossary import listed
from explainers.story.stage import Block, Stage
from kernels.build import DEFAULT_ARCH
from kernels.build.occupancy import machine
from kernels.catalog import using_cache
from kernels.core.request import Request, Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError, WarpglassError
from kernels.kv_cache.layout import Layout
from kernels.kv_cache.manager import Change, KVCache
from kernels.kv_cache.scenarios import Scenario, write_event
from kernels.recordings import run_index

MOST_NAMED = 24  # slots that a sentence lists
Shape = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Cache:
    """The cache, event by event. moment: the event whose writes are shown. layout: None where no kernel can run on it.
    shape: of what writes it. cache_dtype: what it is kept in, where that is not the type of K and V."""

    scenario: Scenario
    block_size: int
    moment: int
    by_hand: bool
    layout: Layout | None
    shape: Shape
    cache_dtype: str
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


@dataclass(frozen=True)
class Serving:
    """The cache of a server, step by step. layout: as of a Cache."""

    scenario: Scenario
    block_size: int
    layout: Layout | None


@dataclass(frozen=True)
class Reads:
    """The whole cache by every kernel that reads one, at several ratios of query heads to KV heads. absent: why others
    are not there. names, colours: of its sequences."""

    requests: tuple[Request, ...]
    absent: tuple[str, ...]
    names: tuple[str, ...]
    colours: tuple[str, ...]
    tables: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Ranges:
    """The whole cache by a kernel that goes by a work list; one query head of one sequence is followed. other: the same
    with a cache of the other type, 8 bits beside 16; None where pages are too small for it. names, colours: of its
    sequences."""

    request: Request
    other: Request | None
    names: tuple[str, ...]
    colours: tuple[str, ...]
    place: tuple[int, int]


Run = Walk | Beside | Heads | Reads | Ranges
What = Cache | Serving | Run

# ---- what is asked for ----


def what(state: State, backend: str) -> What:
    return _WHAT[state["view"]](cache.chosen(BLOCK_TABLE, state, backend))


def _cache(chosen: cache.Chosen) -> Cache:
    state, layout = chosen.state, _layout(chosen)
    shape = tuple((name, state[name]) for name in ("num_kv_heads", "head_dim", "dtype", "seed"))
    by_hand = state["scenario"] == cache.BY_HAND
    kind, size = state["cache_dtype"], state["block_size"]
    layout = replace(layout, dtype=kind) if layout and kind else layout
    return Cache(chosen.scenario, size, state["moment"], by_hand, layout, shape, kind, chosen.backend)


def _layout(chosen: cache.Chosen) -> Layout | None:
    """The cache's, or None where no kernel can run on it."""
    try:
        return chosen.problem(next(c for c, _ in reversed(chosen.states) if c.sequences)).layout
    except (ProblemError, StopIteration):
        return None


def _serving(chosen: cache.Chosen) -> Serving:
    return Serving(chosen.scenario, chosen.state["block_size"], _layout(chosen))


def _walk(chosen: cache.Chosen) -> Walk:
    sequence, seed = chosen.sequence, chosen.state["shuffle"]
    plain = chosen.request(cache=chosen.plain) if seed else None
    names, colours = _sequences(chosen)
    return Walk(chosen.request(), plain, names, sequence.name, colours[chosen.state["sequence"]], seed)


def _sequences(chosen: cache.Chosen) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names and the colours of the cache's sequences."""
    shown, colours = chosen.cache.sequences, kv_cache.sequence_colours(chosen.states)
    return tuple(s.name for s in shown), tuple(colours[kv_cache.identity(s)] for s in shown)


def _beside(chosen: cache.Chosen) -> Beside:
    whole, cut = (_first(accepts) for accepts in (partitions.accepts_whole, partitions.accepts))
    return Beside(chosen.request(whole), chosen.request(cut), chosen.sequence.name)


def _heads(chosen: cache.Chosen) -> Heads:
    kernel = _first(partitions.accepts_whole)
    return Heads(tuple(chosen.request(kernel, everything=True, num_kv_heads=count) for count in _ratios(chosen.state)))


def _ratios(state: State) -> list[int]:
    """Numbers of KV heads: as many as query heads, the chosen one, and one."""
    return list(dict.fromkeys((state["num_heads"], state["num_kv_heads"], 1)))


def _reads(chosen: cache.Chosen) -> Reads:
    requests: list[Request] = []
    absent: list[str] = []
    ratios = _ratios(chosen.state)
    for spec in PAGE_READERS:
        refused: dict[str, list[int]] = {}
        for heads in ratios:
            try:
                requests.append(chosen.request(spec, everything=True, num_kv_heads=heads))
            except ProblemError as error:
                refused.setdefault(error.brief, []).append(heads)
        absent += [_not_shown(spec, there if there != ratios else [], why) for why, there in refused.items()]
    tables = tuple(s.table for s in chosen.cache.sequences)
    return Reads(tuple(requests), tuple(absent), *_sequences(chosen), tables)


def _not_shown(spec: KernelSpec, kv_heads: list[int], why: str) -> str:
    """That a kernel is not there with these numbers of KV heads, or with none where none is said."""
    some = f" with {listed([str(n) for n in kv_heads])} KV head{'s' * (kv_heads != [1])}" if kv_heads else ""
    return f"{spec.name}{some} is not shown. {why}"


def _ranges(chosen: cache.Chosen) -> Ranges:
    state, place = chosen.state, (chosen.state["sequence"], chosen.state["head"])
    spec = cache.BY_RANGES[state["view"]]
    if chosen.backend == "recorded" and not run_index.of(spec):
        raise ProblemError(f"Nothing is recorded of the present code of {spec.name}. Choose another backend.")
    other = next(kind for kind in cache.CACHE_DTYPES if kind != state["cache_dtype"])
    fits = state["block_size"] >= cache.EIGHT_BIT_PAGE
    beside = chosen.by_ranges(cache_dtype=other) if fits else None
    return Ranges(chosen.by_ranges(), beside, *_sequences(chosen), place)


def _first(accepts: Any) -> str:
    return next(name for name, spec in BLOCK_TABLE.kernels.items() if accepts(spec))


_WHAT: dict[str, Callable[[cache.Chosen], What]] = {
    "cache": _cache,
    "serving": _serving,
    "walk": _walk,
    "partitions": _beside,
    "ranges": _ranges,
    "prefix": _ranges,
    "heads": _heads,
    "reads": _reads,
}


# ---- what is shown ----


def make(asked: What) -> Stage:
    match asked:
        case Serving():
            made = serving.stage_of(asked.scenario, asked.block_size, asked.layout)
            return replace(made, questions=cache_questions.serving(made))
        case Reads():
            return _make_reads(asked)
        case Ranges():
            return _make_ranges(asked)
        case Cache():
            made = kv_cache.stage_of(asked.scenario, asked.block_size, asked.layout, asked.by_hand)
            return replace(made, questions=cache_questions.pool(made))
        case Walk():
            run = running.run(asked.request)
            shuffled = [stage.Tab("shuffle", "Shuffled, compared")] if asked.plain else []
            more, live = [*shuffled, tabs.BUILDS, tabs.DATA], running.live_gpu()
            made = block_table.stage_of(run, asked.name, asked.colour, running.provenance(run), more, live)
            asks = [
                *walk_questions.walk(run, made.frames, _partition(asked.request)),
                *thread_questions.shared_pictures(made),
            ]
            return replace(made, questions=asks)
        case Beside():
            whole, cut = running.run(asked.whole), running.run(asked.cut)
            more = [stage.Tab("blocks", "Enough blocks"), tabs.BUILDS, tabs.DATA]
            made = partitions.stage_of(whole, cut, asked.name, running.provenance(cut), more)
            both = [
                *threads.beside(whole, "threads_v1", "Threads of V1", "lines_v1"),
                *threads.beside(cut, "threads_v2", "Threads of V2", "lines_v2"),
            ]
            asks = walk_questions.partitions(made, partitions.partition_of(cut.request))
            made = replace(made, views=[*made.views, *both])
            return replace(made, questions=[*asks, *thread_questions.shared_pictures(made)])
        case Heads():
            runs = [running.run(request) for request in asked.requests]
            found = [kv_heads.reads(run) for run in runs]
            made = kv_heads.stage_of(found, running.provenance(runs[0]), [tabs.BUILDS, tabs.DATA])
            panels = made.views[0].meta["panels"]
            asks = reader_questions.heads(panels, found[0]["num_heads"])
            made = replace(made, views=[*made.views, *threads.beside(runs[0])])
            return replace(made, questions=[*asks, *thread_questions.shared_pictures(made)])


def _make_ranges(asked: Ranges) -> Stage:
    run = running.run(asked.request)
    eight = [stage.Tab("eight", "8 bits")] if asked.other else []
    more, live = [*eight, tabs.BUILDS, tabs.DATA], running.live_gpu()
    made = ranges.stage_of(run, asked.names, asked.colours, asked.place, running.provenance(run), more, live)
    return replace(made, questions=[*walk_questions.ranges(made), *thread_questions.shared_pictures(made)])


def _make_reads(asked: Reads) -> Stage:
    """One kernel's fault is told, and is not the page's."""
    runs, absent = [], list(asked.absent)
    for request in asked.requests:
        try:
            runs.append(running.run(request))
        except WarpglassError as error:
            absent.append(_not_shown(request.kernel, [request.problem.num_kv_heads], error.brief))
    if not runs:
        raise ProblemError(" ".join(dict.fromkeys(absent)))
    found = [page_counts.count_reads(run, asked.names) for run in runs]
    by_page = [[n for n, table in enumerate(asked.tables) if page in table] for page in range(len(found[0].filled))]
    made = page_reads.stage_of(
        found,
        [[asked.names[n] for n in there] for there in by_page],
        [[asked.colours[n] for n in there] for there in by_page],
        running.provenance(runs[0]),
        absent,
        [tabs.BUILDS, tabs.DATA],
    )
    return replace(made, questions=reader_questions.page_reads(found, made.views[0].id))


def _partition(request: Request) -> int:
    """Tokens of a partition: the kernel's own, or what pages begin with."""
    return partitions.partition_of(request) or cache.SHOWN_PARTITION


def _requests(asked: Run) -> list[Request]:
    """What the tabs of builds and data are of."""
    match asked:
        case Walk() | Ranges():
            return [asked.request]
        case Beside():
            return [asked.whole, asked.cut]
        case Heads() | Reads():
            return [asked.requests[0]]


def builds_tab(asked: Run) -> list[Block]:
    return [block for request in _requests(asked) for block in tabs.builds(request)]


def data_tab(asked: Run) -> list[Block]:
    return [*(block for request in _requests(asked) for block in tabs.data(request)[:2]), *tabs.labels()]


def shuffle_tab(asked: Walk) -> list[Block]:
    """The outputs under a shuffle of the pages beside those without."""
    assert asked.plain
    plain, moved = running.run(asked.plain), running.run(asked.request)
    return walk_tables.shuffle_blocks(plain, moved, asked.names, asked.seed)


def eight_tab(asked: Ranges) -> list[Block]:
    """The same cache in 16 bits and in 8."""
    assert asked.other
    pair = sorted((asked.request, asked.other), key=lambda request: bool(request.problem.cache_dtype))
    return range_tables.cache_blocks([running.run(request) for request in pair])


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
    if change.copied and asked.cache_dtype:
        pages = "Page {} is copied to page {}.".format(*change.copied)
        why = "The kernel that copies pages takes 16 and 32 bits, so in 8 bits that copy is not run."
        found.append(stage.text(f"{pages} {why}"))
    elif change.copied and (request := _request("copy", asked, after, change, **shape)):
        run, table = running.run(request), running.traffic(request).table
        moved = int(table[table.kind == "store"].bytes.sum())
        said = f"Page {change.copied[0]} to page {change.copied[1]}: {moved:,} bytes stored, K and V of all KV heads."
        found.append(stage.text(f"{stage.headline(request.kernel)} {said}", run.provenance))
    if request := _request("write", asked, after, change, **shape):
        slots = request.problem.slots
        request = replace(request, scope=Scope(0, len(slots)))
        run = running.run(request)
        named = ", ".join(map(str, slots[:MOST_NAMED])) + (" ..." if len(slots) > MOST_NAMED else "")
        said = f"{stage.headline(request.kernel)} Slots of the {len(slots)} new tokens: {named}."
        caption = "The bytes that the probed stores named, over all KV heads; the first 64 tokens."
        found.append(stage.text(said, run.provenance))
        if asked.cache_dtype:
            found += range_tables.rounding_blocks(run)
        found.append(stage.table(walk_tables.addresses_table(run), caption))
    return found


def _request(does: str, asked: Cache, cache: KVCache, change: Change, **shape: Any) -> Request | None:
    """The run of the first kernel that writes or copies for an event; None if the event leaves nothing to do."""
    kernel = next(iter(using_cache(does, asked.cache_dtype).values()))
    problem = kernel.problem_type.of_change(cache, change, **shape)
    return Request(kernel, problem, backend=asked.backend) if problem else None


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
        "eight": tab_of(Ranges, eight_tab, lambda shown: shown.other),
        "builds": tab_of(Run, builds_tab),
        "data": tab_of(Run, data_tab),
    },
    narrowed=cache.narrowed,
    changed=cache.changed,
)

"""Paging: a KV cache in pages, the kernels that read it, and the sharing between query heads."""

from dataclasses import replace
from functools import lru_cache

from app.choices.page import Page
from app.parts import running, tabs
from app.parts.story import Story, tab_of
from app.stories.block_table import choices, corrections, tabs_of_views
from app.stories.block_table.subjects import (
    Cache,
    Heads,
    Partitions,
    Ranges,
    Reads,
    Run,
    Serving,
    Subject,
    Walk,
    not_shown,
    subject,
)
from explainers.stories.block_table import (
    block_table,
    cache_questions,
    kv_cache,
    kv_heads,
    page_counts,
    page_reads,
    partitions,
    ranges,
    reader_questions,
    serving,
    walk_questions,
)
from explainers.stories.registers import thread_questions, threads
from explainers.story import stage
from explainers.story.stage import Stage
from kernels.catalog import Catalog
from kernels.core.request import Request
from kernels.errors import ProblemError, WarpglassError
from kernels.kv_cache.scenarios import SHOWN_PARTITION


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    kernels = choices.walkers(catalog)
    return Page(
        catalog,
        kernels,
        tuple(list(kernels)[:1]),
        own=choices.OWN,
        sizes={"partition": SHOWN_PARTITION},
        without=choices.GIVEN,
        every_constant=True,
        recorded=False,
        correct=corrections.correct,
        adapt=corrections.adapt,
        describe=choices.describe,
    )


def make(subject: Subject) -> Stage:
    match subject:
        case Serving():
            result = serving.stage_of(subject.scenario, subject.block_size, subject.layout)
            return replace(result, questions=cache_questions.serving(result))
        case Cache():
            result = kv_cache.stage_of(subject.scenario, subject.block_size, subject.layout, subject.by_hand)
            return replace(result, questions=cache_questions.pool(result))
        case Walk():
            return _make_walk(subject)
        case Partitions():
            return _make_partitions(subject)
        case Ranges():
            return _make_ranges(subject)
        case Heads():
            return _make_heads(subject)
        case Reads():
            return _make_reads(subject)


def _make_walk(walk: Walk) -> Stage:
    run = running.run(walk.request)
    shuffled = [stage.Tab("shuffle", "Shuffled, compared")] if walk.plain else []
    more, live = [*shuffled, tabs.BUILDS, tabs.DATA], running.live_gpu()
    result = block_table.stage_of(run, walk.name, walk.colour, running.provenance(run), more, live)
    walked = walk_questions.walk(run, result.frames, _partition(walk.request))
    return replace(result, questions=[*walked, *thread_questions.shared_pictures(result)])


def _partition(request: Request) -> int:
    """Tokens of a partition: the kernel's, or the default of the page."""
    constant = request.kernel.constant_of("partition")
    return request.constants[constant.name] if constant else SHOWN_PARTITION


def _make_partitions(both: Partitions) -> Stage:
    whole, cut = running.run(both.whole), running.run(both.cut)
    more = [stage.Tab("blocks", "Enough blocks"), tabs.BUILDS, tabs.DATA]
    result = partitions.stage_of(whole, cut, both.name, running.provenance(cut), more)
    whole_threads = threads.own_view(whole, "threads_v1", "Threads of V1", "lines_v1")
    cut_threads = threads.own_view(cut, "threads_v2", "Threads of V2", "lines_v2")
    asks = walk_questions.partitions(result, _partition(both.cut))
    result = replace(result, views=[*result.views, *whole_threads, *cut_threads])
    return replace(result, questions=[*asks, *thread_questions.shared_pictures(result)])


def _make_ranges(subject: Ranges) -> Stage:
    run = running.run(subject.request)
    eight_bits = [stage.Tab("eight", "8 bits")] if subject.other else []
    more, live = [*eight_bits, tabs.BUILDS, tabs.DATA], running.live_gpu()
    followed, provenance = subject.place, running.provenance(run)
    result = ranges.stage_of(run, subject.names, subject.colours, followed, provenance, more, live)
    return replace(result, questions=[*walk_questions.ranges(result), *thread_questions.shared_pictures(result)])


def _make_heads(heads: Heads) -> Stage:
    runs = [running.run(request) for request in heads.requests]
    found = [kv_heads.reads(run) for run in runs]
    result = kv_heads.stage_of(found, running.provenance(runs[0]), [tabs.BUILDS, tabs.DATA])
    asks = reader_questions.heads(result.views[0].meta["panels"], found[0].num_heads)
    result = replace(result, views=[*result.views, *threads.own_view(runs[0])])
    return replace(result, questions=[*asks, *thread_questions.shared_pictures(result)])


def _make_reads(reads: Reads) -> Stage:
    """The stage of the kernels that run. It reports the faults of the others."""
    runs, absent = [], list(reads.absent)
    for request in reads.requests:
        try:
            runs.append(running.run(request))
        except WarpglassError as error:
            absent.append(not_shown(request.kernel, [request.problem.num_kv_heads], error.brief))
    if not runs:
        raise ProblemError(" ".join(dict.fromkeys(absent)))
    found = [page_counts.count_reads(run, reads.names) for run in runs]
    pages = range(len(found[0].filled))
    readers = [[n for n, table in enumerate(reads.tables) if page in table] for page in pages]
    result = page_reads.stage_of(
        found,
        [[reads.names[n] for n in of_page] for of_page in readers],
        [[reads.colours[n] for n in of_page] for of_page in readers],
        running.provenance(runs[0]),
        absent,
        [tabs.BUILDS, tabs.DATA],
    )
    return replace(result, questions=reader_questions.page_reads(found, result.views[0].id))


STORY = Story(
    path="block_table",
    title="Paging",
    look="Follow an entry of the block table to its page: the pages of one sequence lie anywhere in the pool, in no "
    "order. See what that costs, an extra read for each page, and what it saves, slots that nobody has to reserve.",
    order=40,
    page=page,
    subject=subject,
    make=make,
    parts={
        "writes": tab_of(Cache, tabs_of_views.writes),
        "shuffle": tab_of(Walk, tabs_of_views.shuffle, lambda walk: walk.plain),
        "blocks": tab_of(Partitions, tabs_of_views.blocks),
        "eight": tab_of(Ranges, tabs_of_views.eight_bits, lambda ranges: ranges.other),
        "builds": tab_of(Run, tabs_of_views.builds),
        "data": tab_of(Run, tabs_of_views.data),
    },
)

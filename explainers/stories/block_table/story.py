"""The story of paging: a KV cache in pages, the kernels that read it, and the sharing between query heads."""

from dataclasses import replace

from explainers.models import threads
from explainers.stories.block_table import (
    kv_cache,
    kv_heads,
    partitions,
    ranges,
    serving,
    walk,
)
from explainers.stories.block_table.paging import WORDS
from explainers.stories.block_table.subjects import (
    Cache,
    Heads,
    Partitions,
    Ranges,
    Serving,
    Subject,
    Walk,
)
from explainers.story import stage
from explainers.story.base import Runner, Story
from explainers.story.stage import Stage
from kernels.core.spec import KernelSpec


class Paging(Story[Subject]):
    """A view of the cache, or a view of the kernels that read it."""

    WANTS = walk.WANTS

    def refusal(self, spec: KernelSpec) -> str:
        return walk.refusal(spec)

    def stage(self, subject: Subject, runner: Runner) -> Stage:
        match subject:
            case Serving():
                result = serving.stage_of(subject.scenario, subject.block_size, subject.layout)
                result = serving.with_text(result, subject) if subject.scenario.texts else result
                return _asking(result, serving.asked(subject.scenario, subject.block_size))
            case Cache():
                result = kv_cache.stage_of(subject.scenario, subject.block_size, subject.layout)
                return _asking(result, kv_cache.asked(subject.scenario, subject.block_size))
            case Walk():
                return _walk(subject, runner)
            case Partitions():
                return _partitions(subject, runner)
            case Ranges():
                return _ranges(subject, runner)
            case Heads():
                return _heads(subject, runner)


def _asking(result: Stage, names: dict[str, object]) -> Stage:
    return replace(result, questions=WORDS.questions(names, len(result.frames) - 1))


def _walk(subject: Walk, runner: Runner) -> Stage:
    run = runner.run(subject.request)
    shuffled = [stage.Tab("shuffle", "Shuffled, compared")] if subject.plain else []
    more, live = [*shuffled, stage.BUILDS, stage.DATA], runner.live_gpu()
    return walk.stage_of(run, subject.name, subject.colour, runner.provenance(run), more, live, subject.names)


def _partitions(both: Partitions, runner: Runner) -> Stage:
    whole, cut = runner.run(both.whole), runner.run(both.cut)
    more = [stage.Tab("blocks", "Enough blocks"), stage.BUILDS, stage.DATA]
    result = partitions.stage_of(whole, cut, both.name, runner.provenance(cut), more, *(runner.live_gpu() or ())[:1])
    whole_threads = threads.own_view(whole, "threads_v1", "Threads of V1", "v1_lines")
    cut_threads = threads.own_view(cut, "threads_v2", "Threads of V2", "v2_lines")
    return replace(result, views=[*result.views, *whole_threads, *cut_threads])


def _ranges(subject: Ranges, runner: Runner) -> Stage:
    run = runner.run(subject.request)
    more, live = [stage.BUILDS, stage.DATA], runner.live_gpu()
    followed, provenance = subject.place, runner.provenance(run)
    result = ranges.stage_of(run, subject.names, subject.colours, followed, provenance, more, live)
    return result


def _heads(heads: Heads, runner: Runner) -> Stage:
    runs = [runner.run(request) for request in heads.requests]
    found = [kv_heads.reads(run) for run in runs]
    result = kv_heads.stage_of(found, runner.provenance(runs[0]), [stage.BUILDS, stage.DATA])
    return replace(result, views=[*result.views, *threads.own_view(runs[0])])


STORY = Paging()

"""The story of paging: a KV cache in pages, the kernels that read it, and the sharing between query heads."""

from dataclasses import replace

from explainers.models import threads
from explainers.stories.block_table import (
    kv_cache,
    kv_heads,
    partitions,
    place,
    ranges,
    serving,
    walk,
)
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

TABS = [stage.BUILDS, stage.DATA]  # of every kernel


class Paging(Story[Subject]):
    """A view of the cache, or a view of the kernels that read it."""

    WANTS = walk.WANTS

    def refusal(self, spec: KernelSpec) -> str:
        return walk.refusal(spec)

    def stage(self, subject: Subject, runner: Runner) -> Stage:
        match subject:
            case Serving():
                result = serving.stage_of(subject.scenario, subject.block_size, subject.layout)
                return serving.with_text(result, subject) if subject.scenario.texts else result
            case Cache():
                return kv_cache.stage_of(subject.scenario, subject.block_size, subject.layout)
            case Walk():
                return _walk(subject, runner)
            case Partitions():
                return _partitions(subject, runner)
            case Ranges():
                run, live, of = runner.run(subject.request), runner.live_gpu(), subject
                return ranges.stage_of(run, of.names, of.colours, of.place, runner.provenance(run), TABS, live)
            case Heads():
                runs = [runner.run(request) for request in subject.requests]
                result = kv_heads.stage_of([kv_heads.reads(run) for run in runs], runner.provenance(runs[0]), TABS)
                return replace(result, views=[*result.views, *threads.own_view(runs[0])])


def _walk(subject: Walk, runner: Runner) -> Stage:
    run = runner.run(subject.request)
    shuffled = [stage.Tab("shuffle", "Shuffled, compared")] if subject.plain else []
    provenance, tabs, live = runner.provenance(run), [*shuffled, *TABS], runner.live_gpu()
    result = walk.stage_of(run, subject.name, subject.colour, provenance, tabs, live, subject.names)
    views = [result.views[0], place.view(run, subject), *result.views[1:]]
    return replace(result, views=views, questions=place.questions(run, subject))


def _partitions(both: Partitions, runner: Runner) -> Stage:
    whole, cut = runner.run(both.whole), runner.run(both.cut)
    more, provenance = [stage.Tab("blocks", "Enough blocks"), *TABS], runner.provenance(cut)
    result = partitions.stage_of(whole, cut, both.name, provenance, more, *(runner.live_gpu() or ())[:1])
    whole_threads = threads.own_view(whole, "threads_v1", "Threads of V1", "v1_lines")
    cut_threads = threads.own_view(cut, "threads_v2", "Threads of V2", "v2_lines")
    return replace(result, views=[*result.views, *whole_threads, *cut_threads])


STORY = Paging()

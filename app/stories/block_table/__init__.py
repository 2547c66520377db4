"""Paging: a KV cache in pages, the kernels that read it, and the sharing between query heads."""

from dataclasses import replace
from functools import lru_cache

from app.choices.page import Page
from app.parts import running, tabs
from app.parts.explained import story_of
from app.parts.story import tab_of
from app.stories.block_table import choices, corrections
from app.stories.block_table.subjects import subject
from explainers.stories.block_table import kv_cache, partitions, story
from explainers.stories.block_table import walk as walking
from explainers.stories.block_table.subjects import Cache, Heads, Partitions, Ranges, Run, Walk
from explainers.story import stage
from explainers.story.stage import Block
from kernels.build import DEFAULT_ARCH
from kernels.build.occupancy import machine
from kernels.catalog import Catalog, current
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.kv_cache.manager import Change, KVCache
from kernels.kv_cache.scenarios import SHOWN_PARTITION, write_event

MOST_NAMED = 24  # slots in a sentence


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
        elsewhere=lambda kernel: choices.view_of(catalog, kernel),
        correct=corrections.correct,
        adapt=corrections.adapt,
        describe=choices.describe,
    )


# ---- tabs that are made when they are opened ----


def _requests(subject: Run) -> list[Request]:
    match subject:
        case Walk() | Ranges():
            return [subject.request]
        case Partitions():
            return [subject.whole, subject.cut]
        case Heads():
            return [subject.requests[0]]


def builds(subject: Run) -> list[Block]:
    return [block for request in _requests(subject) for block in tabs.builds(request)]


def data(subject: Run) -> list[Block]:
    return [*(block for request in _requests(subject) for block in tabs.data(request)[:2]), *tabs.labels()]


def shuffle(walk: Walk) -> list[Block]:
    assert walk.plain
    plain, shuffled = running.run(walk.plain), running.run(walk.request)
    return walking.shuffle_blocks(plain, shuffled, walk.names, walk.seed)


def blocks(both: Partitions) -> list[Block]:
    """The context from which V2 has enough blocks to fill the GPU: this machine's, or a well-known one."""
    known = machine(DEFAULT_ARCH)
    count, name = running.live_gpu() or (known.multiprocessors, f"An {known.gpu}")
    return partitions.enough_blocks(running.run(both.whole), running.run(both.cut), count, name)


def writes(subject: Cache) -> list[Block]:
    """The stores of the kernels that write a cache, for the event, from their own traces."""
    after, change = subject.scenario.states(subject.block_size)[subject.moment]
    event = f"Event {subject.moment}" + (f", {write_event(change.event)}," if change else "")
    if change is None or not (change.written or change.copied):
        return [stage.text(f"{event} writes no key and no value. Step to an event that adds tokens.")]
    if subject.backend == "recorded":
        return [stage.text("The kernels' writes are not recorded for every event. Choose another backend to run them.")]
    blocks = [stage.heading(f"{event} stores:")]
    if change.copied and (request := _request("copy", subject, after, change)):
        run, table = running.run(request), running.traffic(request).table
        stored = int(table[table.kind == "store"].bytes.sum())
        said = f"Page {change.copied[0]} to page {change.copied[1]}: {stored:,} bytes stored, K and V of all KV heads."
        blocks.append(stage.text(f"{stage.headline(request.kernel)} {said}", run.provenance))
    if request := _request("write", subject, after, change):  # the slots of the new tokens, and the named bytes
        slots = request.problem.slots
        run = running.run(replace(request, scope=Scope(0, len(slots))))
        named = ", ".join(map(str, slots[:MOST_NAMED])) + (" ..." if len(slots) > MOST_NAMED else "")
        said = f"{stage.headline(request.kernel)} Slots of the {len(slots)} new tokens: {named}."
        caption = "The bytes of the probed stores, over all KV heads, for the first 64 tokens."
        blocks += [stage.text(said, run.provenance), stage.table(kv_cache.addresses_table(run), caption)]
    return blocks


def _request(does: str, subject: Cache, cache: KVCache, change: Change) -> Request | None:
    """The run of the first kernel that writes or copies for an event, or None for an event without a write."""
    kernel = next(iter(current().using_cache(does, "").values()))
    problem = kernel.problem_type.of_change(cache, change, **dict(subject.shape))
    return Request(kernel, problem, backend=subject.backend) if problem else None


STORY = story_of(
    story.STORY,
    path="block_table",
    title="Paging",
    look="Follow an entry of the block table to its page. The pages of one sequence are anywhere in the pool, in no "
    "order. See the cost, one more read for each page, and the gain: nobody reserves slots.",
    order=40,
    page=page,
    subject=subject,
    parts={
        "writes": tab_of(Cache, writes),
        "shuffle": tab_of(Walk, shuffle, lambda walk: walk.plain),
        "blocks": tab_of(Partitions, blocks),
        "builds": tab_of(Run, builds),
        "data": tab_of(Run, data),
    },
)

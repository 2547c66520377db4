"""The subjects of Paging: a frozen value for each view, made from the state in the web process."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.choices.page import Page, State
from app.stories.block_table import choices
from app.stories.block_table.choices import CACHE_DTYPES, EIGHT_BIT_PAGE, WITH_RANGES
from app.stories.block_table.history import BY_HAND
from app.stories.block_table.moment import Moment, moment_of
from explainers.stories.block_table import partitions
from explainers.story.glossary import listed
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.kv_cache.layout import Layout
from kernels.kv_cache.scenarios import Scenario
from kernels.recordings import run_index


@dataclass(frozen=True)
class Cache:
    """The cache, event by event.

    moment: the event of the shown writes.
    layout: of the cache; None if no kernel can run on it.
    shape: the fields of the writing problem.
    cache_dtype: the type of the cache, or "" for the type of K and V.
    """

    scenario: Scenario
    block_size: int
    moment: int
    by_hand: bool
    layout: Layout | None
    shape: tuple[tuple[str, object], ...]
    cache_dtype: str
    backend: str


@dataclass(frozen=True)
class Walk:
    """The walk of a query head.

    plain: the walk over pages as allocated, if the others are shuffled.
    names: of the cache's sequences.
    name, colour: of the walked sequence.
    seed: of the shuffle.
    """

    request: Request
    plain: Request | None
    names: tuple[str, ...]
    name: str
    colour: str
    seed: int


@dataclass(frozen=True)
class Partitions:
    """A kernel for whole contexts, and one for partitions.

    name: of the sequence.
    """

    whole: Request
    cut: Request
    name: str


@dataclass(frozen=True)
class Heads:
    """The whole cache at several ratios of query heads to KV heads, with the chosen ratio."""

    requests: tuple[Request, ...]


@dataclass(frozen=True)
class Serving:
    """The cache of a server, step by step.

    layout: None if no kernel can run on the cache.
    """

    scenario: Scenario
    block_size: int
    layout: Layout | None


@dataclass(frozen=True)
class Reads:
    """The whole cache by every kernel that reads one, at several ratios of query heads to KV heads.

    absent: why other kernels are missing.
    names, colours, tables: of the cache's sequences.
    """

    requests: tuple[Request, ...]
    absent: tuple[str, ...]
    names: tuple[str, ...]
    colours: tuple[str, ...]
    tables: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Ranges:
    """The whole cache by a kernel with a work list.

    other: the run with the other type of cache, 8 or 16 bits, if pages are large enough.
    names, colours: of the cache's sequences.
    place: the followed sequence and query head.
    """

    request: Request
    other: Request | None
    names: tuple[str, ...]
    colours: tuple[str, ...]
    place: tuple[int, int]


Run = Walk | Partitions | Heads | Reads | Ranges
Subject = Cache | Serving | Run


def subject(page: Page, state: State, backend: str) -> Subject:
    return _SUBJECTS[state["view"]](moment_of(page, state, backend))


def _cache(moment: Moment) -> Cache:
    state, layout = moment.state, moment.layout()
    shape = tuple((name, state[name]) for name in ("num_kv_heads", "head_dim", "dtype", "seed"))
    by_hand = state["scenario"] == BY_HAND
    dtype, size = state["cache_dtype"], state["block_size"]
    layout = replace(layout, dtype=dtype) if layout and dtype else layout
    return Cache(moment.scenario, size, state["moment"], by_hand, layout, shape, dtype, moment.backend)


def _serving(moment: Moment) -> Serving:
    return Serving(moment.scenario, moment.state["block_size"], moment.layout())


def _walk(moment: Moment) -> Walk:
    name, seed = moment.sequence_name(), moment.state["shuffle"]
    plain = moment.request(cache=moment.plain) if seed else None
    names, colours = moment.sequences()
    return Walk(moment.request(), plain, names, name, colours[moment.state["sequence"]], seed)


def _partitions(moment: Moment) -> Partitions:
    whole, cut = (moment.first_kernel(accepts) for accepts in (partitions.accepts_whole, partitions.accepts))
    return Partitions(moment.request(whole), moment.request(cut), moment.sequence_name())


def _heads(moment: Moment) -> Heads:
    kernel = moment.first_kernel(partitions.accepts_whole)
    return Heads(tuple(moment.whole_request(kernel, num_kv_heads=count) for count in moment.ratios()))


def _reads(moment: Moment) -> Reads:
    requests: list[Request] = []
    absent: list[str] = []
    ratios = moment.ratios()
    for kernel in choices.page_readers(moment.page.catalog):
        refused: dict[str, list[int]] = {}
        for heads in ratios:
            try:
                requests.append(moment.whole_request(kernel, num_kv_heads=heads))
            except ProblemError as error:
                refused.setdefault(error.brief, []).append(heads)
        absent += [not_shown(kernel, heads if heads != ratios else [], why) for why, heads in refused.items()]
    tables = tuple(sequence.table for sequence in moment.cache.sequences)
    return Reads(tuple(requests), tuple(absent), *moment.sequences(), tables)


def not_shown(kernel: KernelSpec, kv_heads: list[int], why: str) -> str:
    """The sentence that a kernel is missing, with these numbers of KV heads or with any."""
    some = f" with {listed([str(n) for n in kv_heads])} KV head{'s' * (kv_heads != [1])}" if kv_heads else ""
    return f"{kernel.name}{some} is not shown. {why}"


def _ranges(moment: Moment) -> Ranges:
    state = moment.state
    kernel = choices.kernels_with_ranges(moment.page.catalog)[state["view"]]
    if moment.backend == "recorded" and not run_index.of(kernel):
        raise ProblemError(f"Nothing is recorded of the present code of {kernel.name}. Choose another backend.")
    other_dtype = next(dtype for dtype in CACHE_DTYPES if dtype != state["cache_dtype"])
    fits = state["block_size"] >= EIGHT_BIT_PAGE
    other = moment.request_with_ranges(cache_dtype=other_dtype) if fits else None
    return Ranges(moment.request_with_ranges(), other, *moment.sequences(), (state["sequence"], state["head"]))


_SUBJECTS: dict[str, Callable[[Moment], Subject]] = {
    "cache": _cache,
    "serving": _serving,
    "walk": _walk,
    "partitions": _partitions,
    **dict.fromkeys(WITH_RANGES, _ranges),
    "heads": _heads,
    "reads": _reads,
}

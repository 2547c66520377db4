"""The subjects of Paging: a frozen value for each view, made from the state in the web process."""

from collections.abc import Callable
from dataclasses import replace

from app.choices.page import Page, State
from app.stories.block_table import choices
from app.stories.block_table.choices import CACHE_DTYPES, EIGHT_BIT_PAGE, WITH_RANGES
from app.stories.block_table.history import BY_HAND
from app.stories.block_table.moment import Moment, moment_of
from explainers.stories.block_table import partitions
from explainers.stories.block_table.subjects import (
    Cache,
    Heads,
    Partitions,
    Ranges,
    Reads,
    Serving,
    Subject,
    Walk,
    not_shown,
)
from kernels.core.request import Request
from kernels.errors import ProblemError
from kernels.recordings import run_index


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
    backend = moment.backend if moment.scenario.texts else ""
    return Serving(moment.scenario, moment.state["block_size"], moment.layout(), backend)


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

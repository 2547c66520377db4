"""The cache at a moment, and the subjects of Paging made from it: a frozen value for each view, in the web process."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from app.choices.choice import of_field
from app.choices.page import Page, State
from app.stories.block_table import choices, history
from app.stories.block_table.choices import MODELLED, WITH_RANGES
from app.stories.block_table.corrections import recorded_state
from app.stories.block_table.history import States
from explainers.stories.block_table import kv_cache, partitions
from explainers.stories.block_table.subjects import (
    Cache,
    Heads,
    Partitions,
    Ranges,
    Serving,
    Subject,
    Walk,
)
from kernels.core.fields import fields_of
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.kv_cache.layout import Layout
from kernels.kv_cache.manager import KVCache
from kernels.kv_cache.scenarios import PRESETS, Scenario
from kernels.recordings import run_index


@dataclass(frozen=True)
class Moment:
    """The cache of a state, the source of a subject.

    states: of the scenario, before its first event and after each.
    plain: the cache at the moment.
    cache: the cache with the chosen shuffle of its pages.
    """

    page: Page
    state: State
    scenario: Scenario
    states: States
    plain: KVCache
    cache: KVCache
    backend: str

    def problem(self, cache: KVCache, kernel: KernelSpec, **changes: object) -> Any:
        """A kernel's problem on a cache. Raises ProblemError if the cache holds no sequence or the shape cannot be."""
        self.check_sequences(cache)
        shape = {name: self.state[name] for name in self.page.fields(self.state) if name != "block_size"}
        return kernel.problem_type.of_cache(cache, **{**shape, **changes})

    def request(self, kernel: KernelSpec | None = None, cache: KVCache | None = None, **changes: object) -> Request:
        """The Request of the chosen query head on the cache. Raises ProblemError.

        kernel: the chosen kernel by default.
        cache: the cache at the moment by default.
        changes: of the problem's fields.
        """
        kernel = kernel or self.page.kernel_of(self.state)
        problem = self.problem(cache or self.cache, kernel, **changes)
        settings = tuple(self.page.settings_of(self.state, kernel=kernel).items())
        head = self.state["sequence"] * self.state["num_heads"] + self.state["head"]
        return Request(kernel, problem, settings, Scope(head), self.backend)

    def whole_request(self, kernel: KernelSpec, **changes: object) -> Request:
        """The Request over the whole cache. Raises ProblemError."""
        request = self.request(kernel, None, **changes)
        return replace(request, scope=Scope.everything(request.plan))

    def request_with_ranges(self) -> Request:
        """The Request of the view's kernel with a work list, over the whole cache. It has the default of each field
        whose value it does not take. Raises ProblemError."""
        kernel, state = choices.kernels_with_ranges(self.page.catalog)[self.state["view"]], self.state
        known = {name: of_field(field) for name, field in fields_of(kernel.problem_type).items()}
        defaults = {name: known[name].default for name in self.page.fields(state) if not known[name].takes(state[name])}
        return self.whole_request(kernel, **defaults, ranges=state["ranges"])

    def sequences(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        shown, colours = self.cache.sequences, kv_cache.sequence_colours(self.states)
        return tuple(s.name for s in shown), tuple(colours[kv_cache.identity(s)] for s in shown)

    def sequence_name(self) -> str:
        """The name of the sequence that is followed. Raises ProblemError if there is none."""
        self.check_sequences(self.cache)
        return self.cache.sequences[self.state["sequence"]].name

    def layout(self) -> Layout | None:
        """The layout of the cache, or None if no kernel can run on it."""
        filled = next((cache for cache, _ in reversed(self.states) if cache.sequences), None)
        try:
            return self.problem(filled, self.page.kernel_of(self.state)).layout if filled else None
        except ProblemError:
            return None

    def first_kernel(self, accepts: Callable[[KernelSpec], bool]) -> KernelSpec:
        return next(kernel for kernel in self.page.kernels.values() if accepts(kernel))

    def check_sequences(self, cache: KVCache) -> None:
        if not cache.sequences:
            raise ProblemError(
                f"After event {self.state['moment']} the cache holds no sequence, so there is nothing to attend to. "
                "Choose another event."
            )


def moment_of(page: Page, state: State, backend: str) -> Moment:
    """The cache that a state looks at. Raises ProblemError."""
    if backend == "recorded" and state["view"] not in MODELLED:
        if state["scenario"] not in PRESETS:
            raise ProblemError("Serving is not recorded. Choose another scenario, or another backend.")
        state = recorded_state(page, state)
    states = history.states_of(state)
    plain = states[state["moment"]][0]
    cache = plain.shuffled(state["shuffle"]) if state["shuffle"] else plain
    return Moment(page, state, history.scenario_of(state), states, plain, cache, backend)


# ---- the subjects ----


def subject(page: Page, state: State, backend: str) -> Subject:
    return _SUBJECTS[state["view"]](moment_of(page, state, backend))


def _cache(moment: Moment) -> Cache:
    state, layout = moment.state, moment.layout()
    shape = tuple((name, state[name]) for name in ("num_kv_heads", "head_dim", "dtype", "seed"))
    return Cache(moment.scenario, state["block_size"], state["moment"], layout, shape, moment.backend)


def _serving(moment: Moment) -> Serving:
    backend = moment.backend if moment.scenario.texts else ""
    return Serving(moment.scenario, moment.state["block_size"], moment.layout(), backend)


def _walk(moment: Moment) -> Walk:
    name, seed = moment.sequence_name(), moment.state["shuffle"]
    plain = moment.request(cache=moment.plain) if seed else None
    names, colours = moment.sequences()
    place = moment.scenario, moment.state["moment"]
    return Walk(moment.request(), plain, names, name, colours[moment.state["sequence"]], seed, *place)


def _partitions(moment: Moment) -> Partitions:
    whole, cut = (moment.first_kernel(accepts) for accepts in (partitions.accepts_whole, partitions.accepts))
    return Partitions(moment.request(whole), moment.request(cut), moment.sequence_name())


def _heads(moment: Moment) -> Heads:
    kernel = moment.first_kernel(partitions.accepts_whole)
    ratios = dict.fromkeys((moment.state["num_heads"], moment.state["num_kv_heads"], 1))
    return Heads(tuple(moment.whole_request(kernel, num_kv_heads=count) for count in ratios))


def _ranges(moment: Moment) -> Ranges:
    state = moment.state
    kernel = choices.kernels_with_ranges(moment.page.catalog)[state["view"]]
    if moment.backend == "recorded" and not run_index.of(kernel):
        raise ProblemError(f"Nothing is recorded of the present code of {kernel.name}. Choose another backend.")
    return Ranges(moment.request_with_ranges(), *moment.sequences(), (state["sequence"], state["head"]))


_SUBJECTS: dict[str, Callable[[Moment], Subject]] = {
    "cache": _cache,
    "serving": _serving,
    "walk": _walk,
    "partitions": _partitions,
    **dict.fromkeys(WITH_RANGES, _ranges),
    "heads": _heads,
}

"""The history of a cache that a state names: its scenario, its states after each event, and the moment looked at."""

from functools import lru_cache

from app.choices.page import State
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.kv_cache.manager import Change, KVCache
from kernels.kv_cache.scenarios import PRESETS, SERVED, Scenario
from kernels.kv_cache.scheduler import alone, read_visits, serve

REQUESTS = "requests"  # the scenario that a reader makes
LAST = 500  # the most events, and a moment that nobody chose
SHARED = "shared_prompt"  # a scenario whose sequences share pages
States = list[tuple[KVCache, Change | None]]


def scenario_of(state: State) -> Scenario:
    """The Scenario that a state names. Raises ProblemError if its requests cannot be served."""
    known = {**PRESETS, **SERVED}
    if state["scenario"] in known:
        return known[state["scenario"]]
    pages, block_size = state["num_blocks"], state["block_size"]
    visits = read_visits(state["requests"])
    longest = max(visit.prompt + visit.answer for visit in alone(visits, serve(visits, pages, block_size)))
    return Scenario("Your own requests", "A tab below changes them.", (), pages * block_size, longest, visits)


def count_events(state: State) -> int:
    """The events of the history. Raises ProblemError if its requests cannot be served."""
    return len(scenario_of(state).history(state["block_size"]))


def states_of(state: State) -> States:
    """The cache before the first event and after each. Raises ProblemError."""
    return _states(scenario_of(state), state["block_size"])


@lru_cache(maxsize=64)
def _states(scenario: Scenario, block_size: int) -> States:
    return scenario.states(block_size)


def cache_at(state: State) -> KVCache:
    """The cache at the moment of a state, or after the last event. Raises ProblemError."""
    states = states_of(state)
    return states[min(state["moment"], len(states) - 1)][0]


def moments_with_sharing(state: State, kernel: KernelSpec) -> list[bool]:
    """For each moment, whether two sequences share a whole page, as a kernel with shared prefixes needs."""
    return _sharing(scenario_of(state), state["block_size"], kernel)


@lru_cache(maxsize=64)
def _sharing(scenario: Scenario, block_size: int, kernel: KernelSpec) -> list[bool]:
    found = []
    for cache, _ in _states(scenario, block_size):
        try:
            found.append(bool(kernel.problem_type.of_cache(cache)))
        except ProblemError:
            found.append(False)
    return found

"""The block table story's own choices: a scenario at a moment, where its pages lie, and the query head that is
walked."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.choices.asked import Asked, State
from app.choices.choice import Choice
from app.choices.page import Page
from kernels.core.request import Request, Scope
from kernels.errors import ProblemError
from kernels.families.paged import scenarios
from kernels.families.paged.kv_cache import KVCache
from kernels.families.paged.scenarios import PRESETS, SHOWN_PARTITION, Scenario
from kernels.run.backends import Survey

__all__ = ["GIVEN", "OWN", "SHOWN_PARTITION", "VIEWS", "Chosen", "settle", "sidebar"]
BY_HAND, LAST = "by_hand", 500  # the scenario of one's own events; a moment past every scenario's end
VIEWS = {"cache": "The cache", "walk": "The walk", "partitions": "V1 beside V2", "heads": "Heads and size"}
HEADS = (1, 2, 4, 8, 16, 32)
GIVEN = (
    "context_lens",
    "num_blocks",
    "block_tables",
    "token_ids",
    "families",
)  # fields of the problem that the cache says


def _read_events(text: str) -> None:
    if text.strip():
        scenarios.read_events(text)


OWN = {
    "view": Choice("cache", tuple(VIEWS)),
    "scenario": Choice("two_chats", (*PRESETS, BY_HAND)),
    "events": Choice("add A 20, add B 9", check=_read_events),
    "moment": Choice(LAST, low=0, high=LAST, meaning="how many events have been played"),
    "shuffle": Choice(
        0,
        low=0,
        high=1000,
        meaning="0: where the block manager put them; any other number: a random permutation of all pages",
    ),
    "num_blocks": Choice(16, low=1, high=128, meaning="pages in the pool"),
    "sequence": Choice(0, low=0, high=100),
    "head": Choice(0, low=0, high=127),
}


@dataclass(frozen=True)
class Chosen:
    """What is looked at. states: of the scenario, before its first event and after each; cache: at the moment, shuffled
    if asked."""

    page: Page
    scenario: Scenario
    states: list
    cache: KVCache
    backend: str

    def problem(self, cache: KVCache, **changes: Any) -> Any:
        """The problem on a cache. ProblemError if it holds no sequence, or if the chosen shape cannot be."""
        state = self.page.state
        shape = {name: state[name] for name in self.page.fields(state) if name != "block_size"}
        return scenarios.problem_at(cache, **{**shape, **changes})

    def request(
        self, kernel: str = "", cache: KVCache | None = None, everything: bool = False, **changes: Any
    ) -> Request:
        """A Request on the cache as it stands, or on another; over the chosen query head, or over everything.
        ProblemError."""
        page = self.page
        spec, problem = page.kernels[kernel or page["kernel"]], self.problem(cache or self.cache, **changes)
        request = Request(spec, problem, tuple(page.settings(kernel=spec).items()), backend=self.backend)
        scope = (
            Scope.everything(request.plan) if everything else Scope(page["sequence"] * problem.num_heads + page["head"])
        )
        return Request(spec, problem, request.settings, scope, self.backend)


def scenario_of(state: State) -> Scenario:
    """The Scenario that a state names."""
    if state["scenario"] != BY_HAND:
        return PRESETS[state["scenario"]]
    events = scenarios.read_events(state["events"]) if state["events"].strip() else ()
    return Scenario(
        "By hand", "Add, append, fork and free as you like.", events, state["num_blocks"] * state["block_size"], 128
    )


def settle(page: Asked, state: State) -> list[tuple[str, str]]:
    """Puts what does not fit together at its beginning, in place; (name, sentence) of each."""
    moved, events = [], len(scenario_of(state).events)
    heads = ("num_heads", "num_kv_heads")
    if state["num_heads"] not in HEADS or state["num_heads"] % state["num_kv_heads"]:
        said = f"num_heads is {state['num_heads']} and num_kv_heads {state['num_kv_heads']}; here num_heads is one of "
        said += f"{', '.join(map(str, HEADS))} and a multiple of num_kv_heads."
        moved += [(name, said) for name in heads]
        state |= {name: page.fields(state)[name].begin for name in heads}
    if state["moment"] > events:
        moved.append(("moment", f"moment is {state['moment']}; here it can be 0 to {events}."))
        state["moment"] = events
    try:
        cache = scenario_of(state).states(state["block_size"])[state["moment"]][0]
    except ProblemError:
        return moved  # the page says what is wrong with the events
    for name, count in (("sequence", len(cache.sequences)), ("head", state["num_heads"])):
        if state[name] >= max(count, 1):
            moved.append((name, f"{name} is {state[name]}; here it can be 0 to {max(count, 1) - 1}."))
            state[name] = 0
    return moved


def sidebar(page: Page, survey: Survey) -> Chosen:
    """Draws the sidebar, writes the link, and says what is looked at. ProblemError if the events cannot be played."""
    titles = {name: scenario.title for name, scenario in PRESETS.items()} | {BY_HAND: "By hand"}
    state = page.state
    with st.sidebar:
        before = state["scenario"]
        if (
            page.widget("scenario", st, "Scenario", format_func=titles.__getitem__) != before
        ):  # another one begins at its end
            state |= {"moment": LAST, "sequence": 0, "shuffle": 0}
            page.forget(("moment", "sequence", "shuffle"))
        backend = page.choose_backend(survey)
        if backend == "recorded":
            _recorded(page)
        else:
            if state["scenario"] == BY_HAND:
                page.widget("num_blocks", st, "Pages in the pool")
            page.widgets(options={"num_heads": lambda now: HEADS, "num_kv_heads": _divisors})
        page.forget(name for name, _ in settle(page, state))
        scenario = scenario_of(state)
        states = scenario.states(state["block_size"])
        cache = states[state["moment"]][0]
        _place(page, cache)
    page.write_link(without=() if state["scenario"] == BY_HAND else ("events",))
    moved = cache.shuffled(state["shuffle"]) if state["shuffle"] else cache
    return Chosen(page, scenario, states, moved, backend)


def _divisors(state: State) -> list[int]:
    return [n for n in HEADS if state["num_heads"] % n == 0]


def _recorded(page: Page) -> None:
    """Recordings are of each preset's last moment with the default shape, as allocated or under the first shuffle."""
    st.caption("Recorded: each preset's last moment, as allocated and under shuffle 1, with the default shape.")
    state = page.state
    state |= {name: choice.begin for name, choice in {**page.fields(state), **page.constants(state)}.items()}
    state |= {"moment": LAST, "shuffle": min(state["shuffle"], scenarios.SHUFFLE_SEED)}
    page.forget(("moment", "shuffle"))


def _place(page: Page, cache: KVCache) -> None:
    """Which query head of which sequence is walked, and where its pages lie."""
    st.markdown("**Traced query head**")
    left, right = st.columns(2)
    names, last = [s.name for s in cache.sequences], page["num_heads"] - 1
    options = range(max(len(names), 1))
    page.widget(
        "sequence", left, options=options, format_func=lambda n: names[n] if names else "none", disabled=len(names) < 2
    )
    page.widget("head", right, "query head", high=last, disabled=not last)
    page.widget("shuffle", st, "Shuffle of the pages")

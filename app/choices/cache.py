"""The block table story's own choices: a scenario at a moment, where its pages lie, and the query head that is
walked."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from app.choices.asked import Asked, State
from app.choices.choice import Choice, of_field
from app.choices.recordings import is_recorded
from explainers.stories.block_table import ranges
from explainers.story import probed
from kernels.catalog import using_cache
from kernels.core.fields import fields_of, write_value
from kernels.core.request import Request, Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.kv_cache import scenarios
from kernels.kv_cache.manager import KVCache
from kernels.kv_cache.scenarios import PRESETS, SERVED, SHOWN_PARTITION, SHOWN_RANGES, Scenario
from kernels.kv_cache.scheduler import alone, read_visits, serve

__all__ = [
    "GIVEN",
    "OWN",
    "SHOWN_PARTITION",
    "SHOWN_RANGES",
    "VIEWS",
    "Chosen",
    "changed",
    "chosen",
    "narrowed",
    "settle",
]
BY_HAND, REQUESTS, LAST = "by_hand", "requests", 500  # scenarios of one's own; a moment that nobody chose
VIEWS = {
    "walk": "The walk",
    "cache": "The cache",
    "serving": "Serving",
    "partitions": "V1 beside V2",
    "ranges": "V3, equal ranges",
    "prefix": "V3, a shared prefix",
    "heads": "Heads and size",
    "reads": "Who reads a page",
}
MODELLED = ("cache", "serving")  # for which no kernel runs
BY_RANGES = {
    view: next(spec for spec in probed.accepting(ranges).values() if ranges.shares(spec) == (view == "prefix"))
    for view in ("ranges", "prefix")
}
"""view -> the kernel that it shows, which goes by a work list."""
TYPED = (*BY_RANGES, "cache")  # where the type of the cache can be chosen
ONE_HEAD = ("walk", "partitions", *BY_RANGES)  # that follow one query head of one sequence
FORKED = "shared_prompt"  # a scenario whose sequences share pages
CACHE_DTYPES = {"": "as K and V come, 16 bits", "float8_e4m3": "8 bits (fp8 e4m3)"}
EIGHT_BIT_PAGE = 16  # slots that a page of 8-bit numbers has at least
READS_DTYPE = "float16"  # which every kernel takes that a page's reads are counted of
HEADS = (1, 2, 4, 8, 16, 32)
# Fields of the problem that the cache says.
GIVEN = ("context_lens", "num_blocks", "block_tables", "token_ids", "families")


def _read_events(text: str) -> None:
    if text.strip() and (count := len(scenarios.read_events(text))) > LAST:
        raise ProblemError(f"events are {count:,}; at most {LAST} can be played. Leave some out.")


def _read_requests(text: str) -> None:
    read_visits(text)


OWN = {
    "view": Choice("walk", tuple(VIEWS)),
    "scenario": Choice("churn", (*PRESETS, *SERVED, BY_HAND, REQUESTS)),  # its tables name pages in no order
    "events": Choice("add A 20, add B 9", check=_read_events),
    "requests": Choice(
        "S 1 40 0, A 2 6 8 S, B 3 10 6 S, C 4 20 5",
        check=_read_requests,
        meaning="of each its name, the step in which it arrives, the tokens of its prompt and of its answer, and "
        "perhaps the name of the one that it is forked from",
    ),
    "moment": Choice(LAST, low=0, high=LAST, meaning="how many events have been played"),
    "shuffle": Choice(
        0,
        low=0,
        high=1000,
        meaning="0: where the block manager put them; any other number: a random permutation of all pages",
    ),
    "num_blocks": Choice(16, low=1, high=128, meaning="pages in the pool"),
    "sequence": Choice(1, low=0, high=100, meaning="which sequence is walked"),
    "head": Choice(0, low=0, high=127),
    "ranges": Choice(SHOWN_RANGES, low=1, high=16, meaning="equal pieces that all pages are cut into"),
    "cache_dtype": Choice("", tuple(CACHE_DTYPES), meaning="what a number of K and V is kept in"),
}


@dataclass(frozen=True)
class Chosen:
    """What is looked at. states: of the scenario, before its first event and after each; plain: the cache at the
    moment; cache: the same, shuffled if asked."""

    asked: Asked
    state: State
    scenario: Scenario
    states: list
    plain: KVCache
    cache: KVCache
    backend: str

    @property
    def sequence(self) -> Any:
        """The one that is walked. ProblemError if there is none."""
        self._check(self.cache)
        return self.cache.sequences[self.state["sequence"]]

    def problem(self, cache: KVCache, **changes: Any) -> Any:
        """The problem on a cache. ProblemError if it holds no sequence, or if the chosen shape cannot be."""
        self._check(cache)
        shape = {name: self.state[name] for name in self.asked.fields(self.state) if name != "block_size"}
        kind = changes.pop("kind", self.asked.spec_of(self.state).problem_type)
        return kind.of_cache(cache, **{**shape, **changes})

    def by_ranges(self, **changes: Any) -> Request:
        """A Request of the view's kernel over everything. What the kernel does not take is as it begins; settle() has
        said so. ProblemError."""
        spec, state = BY_RANGES[self.state["view"]], self.state
        known = {name: of_field(field) for name, field in fields_of(spec.problem_type).items()}
        fits = {name: known[name].begin for name in self.asked.fields(state) if not known[name].takes(state[name])}
        own = {name: state[name] for name in ("ranges", "cache_dtype")}
        return self.request(spec, everything=True, **{**fits, **own, **changes})

    def _check(self, cache: KVCache) -> None:
        if not cache.sequences:
            raise ProblemError(
                f"After event {self.state['moment']} the cache holds no sequence, so there is nothing to attend to. "
                "Choose another event, or look at the cache and add a sequence."
            )

    def request(
        self,
        kernel: str | KernelSpec = "",
        cache: KVCache | None = None,
        everything: bool = False,
        **changes: Any,
    ) -> Request:
        """A Request on the cache as it stands, or on another; over the chosen query head, or over everything. kernel:
        one that is listed, by name, or any that solves a problem of this kind. ProblemError."""
        state = self.state
        spec = kernel if isinstance(kernel, KernelSpec) else self.asked.kernels[kernel or state["kernel"]]
        if "ranges" in fields_of(spec.problem_type):
            changes = {"ranges": SHOWN_RANGES, **changes}
        problem = self.problem(cache or self.cache, kind=spec.problem_type, **changes)
        request = Request(
            spec, problem, tuple(self.asked.settings_of(state, kernel=spec).items()), backend=self.backend
        )
        first = state["sequence"] * problem.num_heads + state["head"]
        scope = Scope.everything(request.plan) if everything else Scope(first)
        return Request(spec, problem, request.settings, scope, self.backend)


def chosen(asked: Asked, state: State, backend: str) -> Chosen:
    """What a state asks to look at. ProblemError if its events cannot be played."""
    if backend == "recorded" and state["view"] not in MODELLED:
        if state["scenario"] == BY_HAND:
            raise ProblemError("Events by hand are not recorded. Choose another scenario, or another backend.")
        if state["scenario"] not in PRESETS:
            raise ProblemError("What is served is not recorded. Choose another scenario, or another backend.")
        state = _recorded(asked, state)
    scenario = scenario_of(state)
    states = _states(scenario, state["block_size"])
    cache = states[state["moment"]][0]
    moved = cache.shuffled(state["shuffle"]) if state["shuffle"] else cache
    return Chosen(asked, state, scenario, states, cache, moved, backend)


def scenario_of(state: State) -> Scenario:
    """The Scenario that a state names."""
    if state["scenario"] in PRESETS or state["scenario"] in SERVED:
        return {**PRESETS, **SERVED}[state["scenario"]]
    if state["scenario"] == REQUESTS:
        visits = read_visits(state["requests"])
        slots = state["num_blocks"] * state["block_size"]
        longest = max(
            v.prompt + v.answer for v in alone(visits, serve(visits, state["num_blocks"], state["block_size"]))
        )
        return Scenario("Your own requests", "A tab below changes them.", (), slots, longest, visits)
    events = scenarios.read_events(state["events"]) if state["events"].strip() else ()
    return Scenario(
        "By hand", "Add, append, fork and free as you like.", events, state["num_blocks"] * state["block_size"], 128
    )


def _last(state: State) -> int:
    """How many events the history has. ProblemError if its requests cannot be served."""
    return len(scenario_of(state).history(state["block_size"]))


@lru_cache(maxsize=64)
def _states(scenario: Scenario, block_size: int) -> list:
    return scenario.states(block_size)


def settle(page: Asked, state: State) -> list[tuple[str, str]]:
    """Puts what does not fit together at its beginning, in place; (name, sentence) of each. A moment that nobody chose
    is the first where the cache is looked at, event by event, and the last elsewhere."""
    moved: list[tuple[str, str]] = []
    if state["view"] == "serving" and state["scenario"] not in (*SERVED, REQUESTS):
        said = f"scenario is {state['scenario']}; what is served is one of {', '.join((*SERVED, REQUESTS))}."
        moved.append(("scenario", said))
        state["scenario"] = next(iter(SERVED))
    if state["view"] == "reads" and state["dtype"] != READS_DTYPE and not is_recorded(state):
        moved.append(("dtype", f"dtype is {state['dtype']}; here it is {READS_DTYPE}, which all these kernels take."))
        state["dtype"] = READS_DTYPE
    if state["view"] in BY_RANGES and not is_recorded(state):
        moved += _fit(page, state, BY_RANGES[state["view"]].problem_type)
    if state["view"] == "cache" and state["cache_dtype"]:
        moved += _fit(page, state, _writes(state))
    try:
        events = _last(state)
    except ProblemError:
        return moved  # the page says what is wrong with the requests
    if state["view"] == "prefix":
        moved += _sharing(state)
        events = _last(state)
    heads = ("num_heads", "num_kv_heads")
    if state["num_heads"] not in HEADS or state["num_heads"] % state["num_kv_heads"]:
        said = f"num_heads is {state['num_heads']} and num_kv_heads {state['num_kv_heads']}; here num_heads is one of "
        said += f"{', '.join(map(str, HEADS))} and a multiple of num_kv_heads."
        moved += [(name, said) for name in heads]
        state |= {name: page.fields(state)[name].begin for name in heads}
    if state["moment"] == LAST:
        state["moment"] = 0 if state["view"] in MODELLED and state["scenario"] != BY_HAND else events
    elif state["moment"] > events:
        moved.append(("moment", f"moment is {state['moment']}; here it can be 0 to {events}."))
        state["moment"] = events
    if is_recorded(state) and state["view"] not in MODELLED and state["scenario"] in PRESETS:
        there = _recorded(page, state)
        differ = [name for name in there if there[name] != state[name]]
        moved += [(n, f"{n} is {write_value(state[n])}; recorded is {write_value(there[n])}.") for n in differ]
        state |= there
    try:
        cache = _states(scenario_of(state), state["block_size"])[state["moment"]][0]
    except ProblemError:
        return moved  # the page says what is wrong with the events
    for name, count in (("sequence", len(cache.sequences)), ("head", state["num_heads"])):
        if state[name] >= max(count, 1) and state["view"] not in MODELLED:  # there none is walked
            moved.append((name, f"{name} is {state[name]}; here it can be 0 to {max(count, 1) - 1}."))
            state[name] = min(OWN[name].begin, max(count, 1) - 1)
    return moved


def _writes(state: State) -> Any:
    """The class of the problems that write the chosen cache."""
    return next(iter(using_cache("write", state["cache_dtype"]).values())).problem_type


def _fit(page: Asked, state: State, kind: Any) -> list[tuple[str, str]]:
    """Puts in place what a problem of that kind takes; what was moved, as settle() says it."""
    known, moved = fields_of(kind), []
    for name, choice in page.fields(state).items():
        if name not in known or name in GIVEN or of_field(known[name]).takes(state[name]):
            continue
        takes = ", ".join(map(str, _both(choice, known[name])))
        moved.append((name, f"{name} is {write_value(state[name])}; here it can be {takes}."))
        state[name] = known[name].default
    if state["cache_dtype"] and state["block_size"] < EIGHT_BIT_PAGE:
        said = f"block_size is {state['block_size']}; a page of 8-bit numbers needs {EIGHT_BIT_PAGE} slots."
        moved.append(("block_size", said))
        state["block_size"] = EIGHT_BIT_PAGE
    if state["view"] not in BY_RANGES:
        return moved
    most = kind.cache_use.most_group
    if (group := state["num_heads"] // state["num_kv_heads"]) > most:
        said = f"num_kv_heads is {state['num_kv_heads']}, so that {group} query heads read a KV head; here at most "
        moved.append(("num_kv_heads", f"{said}{most} do."))
        state["num_kv_heads"] = state["num_heads"] // most
    if state["view"] == "prefix" and state["alibi"]:
        moved.append(("alibi", f"alibi is {write_value(True)}; over a shared prefix it is not computed."))
        state["alibi"] = False
    return moved


def _both(choice: Choice, field: Any) -> list[Any]:
    """What the page and a kernel's field take, of a choice with options."""
    return [value for value in choice.allowed or () if of_field(field).takes(value)]


def _sharing(state: State) -> list[tuple[str, str]]:
    """Goes to a moment at which sequences share a page, in place; what was moved, as settle() says it."""
    shared = _shared_moments(scenario_of(state), state["block_size"])
    if not any(shared):
        said = f"scenario is {state['scenario']}, in which no two sequences share a whole page; here it is {FORKED}."
        state |= {"scenario": FORKED, "moment": LAST}
        return [("scenario", said)]
    moment = min(state["moment"], len(shared) - 1)
    if shared[moment]:
        return []
    nearest = min((n for n, there in enumerate(shared) if there), key=lambda n: abs(n - moment))
    said = f"After {moment} events no two sequences share a whole page; after {nearest} they do."
    moved = [("moment", said)] if state["moment"] != LAST else []
    state["moment"] = nearest
    return moved


@lru_cache(maxsize=64)
def _shared_moments(scenario: Scenario, block_size: int) -> list[bool]:
    """Of each moment, whether sequences that stand side by side share a whole page."""

    def shares(cache: KVCache) -> bool:
        try:
            return bool(BY_RANGES["prefix"].problem_type.of_cache(cache))
        except ProblemError:
            return False

    return [shares(cache) for cache, _ in _states(scenario, block_size)]


def changed(asked: Asked, state: State, name: str) -> None:
    """Another scenario begins anew; that of one's own events is made beside the cache. A new event is the one that is
    looked at. Of a moment with fewer sequences the last one is walked. ProblemError if the events cannot be played in
    this pool."""
    if name == "scenario":
        state |= {"moment": LAST, "sequence": OWN["sequence"].begin, "shuffle": 0}
        if state["scenario"] == BY_HAND:
            state["view"] = "cache"
        if state["scenario"] == REQUESTS:
            state["view"] = "serving"
    if name == "view" and state["view"] == "serving" and state["scenario"] not in (*SERVED, REQUESTS):
        state |= {"scenario": next(iter(SERVED)), "moment": LAST}
        return
    if name == "requests":  # those of a scenario are changed into one's own, in a pool as large
        slots = state["num_blocks"] * state["block_size"] if state["scenario"] == REQUESTS else scenario_of(state).slots
        state |= {"scenario": REQUESTS, "moment": LAST, "num_blocks": slots // state["block_size"]}
        _last(state)
        return
    if name == "events":
        state["moment"] = _last(state)
    if name == "moment" and state["moment"] > (last := _last(state)):
        raise ProblemError(f"moment is {state['moment']}; here it can be 0 to {last}.")
    if name in ("events", "num_blocks", "block_size"):
        _states(scenario_of(state), state["block_size"])
    if name in ("view", "moment"):
        states = _states(scenario_of(state), state["block_size"])
        cache = states[min(state["moment"], len(states) - 1)][0]
        state["sequence"] = max(0, min(state["sequence"], len(cache.sequences) - 1))


def narrowed(asked: Asked, state: State) -> dict[str, dict[str, Any]]:
    """What the choices are called, and how far they can go with the others. ProblemError if the events cannot be
    played."""
    scenario, view = scenario_of(state), state["view"]
    states = _states(scenario, state["block_size"])
    names = [s.name for s in states[min(state["moment"], len(states) - 1)][0].sequences]
    own, last = state["scenario"] in (BY_HAND, REQUESTS), state["num_heads"] - 1
    titles = {name: served.title for name, served in SERVED.items()} | {REQUESTS: "Your own requests"}
    if view != "serving":
        titles = {name: preset.title for name, preset in PRESETS.items()} | titles | {BY_HAND: "By hand"}
    if view not in MODELLED and is_recorded(state):  # of what is chosen all the same the page says that it is not
        titles = {name: title for name, title in titles.items() if name in (*PRESETS, state["scenario"])}
    one_head, shuffle = view in ONE_HEAD, state["shuffle"]
    pages = {0: "As allocated", shuffle or 1: "Shuffled"} | ({shuffle + 1: "Shuffle again"} if shuffle else {})
    types: dict[str, dict[str, Any]] = {}
    if view == "reads":
        types["dtype"] = {"kind": "select", "options": {READS_DTYPE: READS_DTYPE}}
    if view in BY_RANGES or (view == "cache" and state["cache_dtype"]):
        by_type = _writes(state)
        known = fields_of(BY_RANGES[view].problem_type if view in BY_RANGES else by_type)
        for name in ("dtype", "head_dim", "block_size"):
            options = _both(asked.fields(state)[name], known[name])
            types[name] = {"kind": "select", "options": {value: str(value) for value in options}}
    if view == "prefix":
        types["alibi"] = {"disabled": "over a shared prefix it is not computed"}
    most = BY_RANGES[view].problem_type.cache_use.most_group if view in BY_RANGES else state["num_heads"]
    kv_heads = [n for n in HEADS if state["num_heads"] % n == 0 and state["num_heads"] <= most * n]
    return types | {
        "ranges": {"hidden": view not in BY_RANGES, "label": "ranges", "group": "place"},
        "cache_dtype": {
            "hidden": view not in TYPED,
            "kind": "select",
            "label": "KV cache",
            "options": CACHE_DTYPES,
            "group": "problem",
        },
        "kernel": {"hidden": view != "walk"},
        "view": {"label": "Look at", "options": VIEWS},
        "scenario": {"label": "Scenario", "options": titles},
        "events": {"hidden": True},  # the form beside the cache writes them
        "requests": {"hidden": True},  # the form in a tab of Serving writes them
        "moment": {"hidden": view in MODELLED, "high": len(states) - 1, "label": "events played", "group": "place"},
        "shuffle": {"hidden": view != "walk", "kind": "select", "label": "Pages", "options": pages},
        "num_blocks": {"hidden": not own, "label": "pages in the pool", "group": "problem"},
        "sequence": {
            "hidden": not one_head,
            "kind": "select",
            "label": "Sequence",
            "options": dict(enumerate(names or ["none"])),
            "disabled": "" if len(names) > 1 else "there is only one",
        },
        "head": {
            "hidden": not one_head,
            "high": last,
            "label": "query head",
            "disabled": "" if last else "there is only one",
            "group": "place",
        },
        "num_heads": {"kind": "select", "options": {n: str(n) for n in HEADS}},
        "num_kv_heads": {"kind": "select", "options": {n: str(n) for n in kv_heads}},
    }


def _recorded(asked: Asked, state: State) -> State:
    """Recordings are of each preset's last moment with the default shape, as allocated or under the first shuffle; by
    ranges as allocated, in as many as pages begin with."""
    begin = {name: choice.begin for name, choice in {**asked.fields(state), **asked.constants(state)}.items()}
    last, shuffle = _last(state), min(state["shuffle"], scenarios.SHUFFLE_SEED)
    if state["view"] in BY_RANGES:
        kind, shuffle = fields_of(BY_RANGES[state["view"]].problem_type), 0
        begin |= {"ranges": SHOWN_RANGES, "dtype": kind["dtype"].default}
    return state | begin | {"moment": last, "shuffle": shuffle}

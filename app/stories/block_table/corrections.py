"""Corrects and adapts the choices of Paging: the view, its kernel, its scenario and its moment have to go together."""

from app.choices.choice import of_field
from app.choices.page import Correction, Page, State, put
from app.choices.recordings import is_recorded
from app.stories.block_table import choices, history
from app.stories.block_table.choices import ANY, CHURN, GIVEN, HEADS, MODELLED, ONE_LONG, OWN, READERS, WITH_RANGES
from app.stories.block_table.history import LAST, REQUESTS, SHARED
from kernels.core.fields import fields_of, write_value
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.kv_cache import scenarios
from kernels.kv_cache.scenarios import PRESETS, SERVED, SHOWN_RANGES

Corrections = list[Correction]


def correct(page: Page, state: State) -> Corrections:
    """Corrects choices that do not go together, in place. The default moment is the first one for the cache, and the
    last one elsewhere."""
    corrections = _correct_view(page, state)
    try:
        history.count_events(state)
    except ProblemError:
        return corrections  # the page reports the error of the requests
    if state["view"] == "prefix":
        corrections += _correct_sharing(page, state)
    corrections += [*_correct_heads(page, state), *_correct_moment(state)]
    if is_recorded(state) and state["view"] not in MODELLED and state["scenario"] in PRESETS:
        corrections += _correct_recording(page, state)
    return corrections + _correct_sequence(state)


def _correct_view(page: Page, state: State) -> Corrections:
    corrections = Corrections()
    if state["view"] == READERS:
        corrections.append(put(state, "view", "heads", "Now heads counts the reads of K and V."))
    view = state["view"]
    if view == "serving" and state["scenario"] not in (*SERVED, REQUESTS):
        rule = f"Serving has {', '.join((*SERVED, REQUESTS))}."
        corrections.append(put(state, "scenario", next(iter(SERVED)), rule))
    if view in WITH_RANGES and not is_recorded(state):
        kernel = choices.kernels_with_ranges(page.catalog)[view]
        corrections += _correct_fields(page, state, kernel) + _correct_group(state, kernel)
    return corrections


def _correct_fields(page: Page, state: State, kernel: KernelSpec) -> Corrections:
    """Replaces values that a kernel's problem does not take by its defaults, in place."""
    known, corrections = fields_of(kernel.problem_type), Corrections()
    for name in page.fields(state):
        if name not in known or name in GIVEN or of_field(known[name]).takes(state[name]):
            continue
        allowed = ", ".join(map(str, choices.both_take(page, state, name, kernel)))
        corrections.append(put(state, name, known[name].default, f"Here it can be {allowed}."))
    return corrections


def _correct_group(state: State, kernel: KernelSpec) -> Corrections:
    """The query heads of a KV head, and the choices without a meaning for a shared prefix."""
    corrections = Corrections()
    most, group = kernel.problem_type.cache_use.most_group, state["num_heads"] // state["num_kv_heads"]
    if group > most:
        said = (
            f"num_kv_heads is {state['num_kv_heads']}, so {group} query heads share a KV head. Here at most {most} do."
        )
        corrections.append(Correction("num_kv_heads", said))
        state["num_kv_heads"] = state["num_heads"] // most
    if state["view"] == "prefix" and state["alibi"]:
        corrections.append(put(state, "alibi", False, "Over a shared prefix it is not computed."))
    return corrections


def _correct_sharing(page: Page, state: State) -> Corrections:
    """Goes to a moment at which sequences share a page, in place."""
    shared = history.moments_with_sharing(state, choices.kernels_with_ranges(page.catalog)["prefix"])
    if not any(shared):
        said = f"In scenario {state['scenario']}, no two sequences share a whole page. Here it is {SHARED}."
        state |= {"scenario": SHARED, "moment": LAST}
        return [Correction("scenario", said)]
    moment = min(state["moment"], len(shared) - 1)
    if shared[moment]:
        return []
    nearest = min((n for n, shares in enumerate(shared) if shares), key=lambda n: abs(n - moment))
    said = f"After {moment} events no two sequences share a whole page. After {nearest} they do."
    corrections = [Correction("moment", said)] if state["moment"] != LAST else []
    state["moment"] = nearest
    return corrections


def _correct_heads(page: Page, state: State) -> Corrections:
    if state["num_heads"] in HEADS and state["num_heads"] % state["num_kv_heads"] == 0:
        return []
    said = f"num_heads is {state['num_heads']} and num_kv_heads {state['num_kv_heads']}. Here num_heads is one of "
    said += f"{', '.join(map(str, HEADS))} and a multiple of num_kv_heads."
    names = ("num_heads", "num_kv_heads")
    state |= {name: page.fields(state)[name].default for name in names}
    return [Correction(name, said) for name in names]


def _correct_moment(state: State) -> Corrections:
    events, moment = history.count_events(state), state["moment"]
    if moment == LAST:
        state["moment"] = 0 if state["view"] in MODELLED else events
    elif moment > events:
        return [put(state, "moment", events, f"Here it can be 0 to {events}.")]
    return []


def _correct_recording(page: Page, state: State) -> Corrections:
    recorded = recorded_state(page, state)
    differing = [name for name in recorded if recorded[name] != state[name]]
    return [put(state, name, recorded[name], f"Recorded is {write_value(recorded[name])}.") for name in differing]


def _correct_sequence(state: State) -> Corrections:
    cache = history.states_of(state)[state["moment"]][0]
    corrections = Corrections()
    lengths = [len(sequence.tokens) for sequence in cache.sequences]
    if state["sequence"] == ANY and state["view"] not in MODELLED:
        longest = lengths.index(max(lengths, default=0)) if lengths else 0
        state["sequence"] = longest if state["view"] == "partitions" else min(1, max(len(lengths), 1) - 1)
    for name, count in (("sequence", len(lengths)), ("head", state["num_heads"])):
        last = max(count, 1) - 1
        if state[name] > last and state["view"] not in MODELLED:  # these views follow no head
            value = min(1, last) if name == "sequence" else OWN[name].default
            corrections.append(put(state, name, value, f"Here it can be 0 to {last}."))
    return corrections


def recorded_state(page: Page, state: State) -> State:
    """The state of the recording of a preset: its last moment with the default shape. The walk is recorded as allocated
    and under the first shuffle, work lists only as allocated and with the default count of ranges."""
    defaults = {name: choice.default for name, choice in {**page.fields(state), **page.constants(state)}.items()}
    shuffle = min(state["shuffle"], scenarios.SHUFFLE_SEED)
    if state["view"] in WITH_RANGES:
        kernel, shuffle = choices.kernels_with_ranges(page.catalog)[state["view"]], 0
        defaults |= {"ranges": SHOWN_RANGES, "dtype": fields_of(kernel.problem_type)["dtype"].default}
    return state | defaults | {"moment": history.count_events(state), "shuffle": shuffle}


def adapt(page: Page, state: State, name: str) -> None:
    """Adapts the view, the scenario and the moment to a new value, in place. Raises ProblemError if the requests
    cannot be served in this pool."""
    if name == "scenario":
        state |= {"moment": LAST, "sequence": OWN["sequence"].default, "shuffle": 0}
        if state["scenario"] == REQUESTS:
            state["view"] = "serving"
    if name == "view":
        _adapt_to_view(state)
    if name == "requests":
        _take_requests(state)
        return
    if name == "moment" and state["moment"] > (last := history.count_events(state)):
        raise ProblemError(f"moment is {state['moment']}. Here it can be 0 to {last}.")
    if name in ("num_blocks", "block_size"):
        history.states_of(state)
    if name == "moment":
        last_sequence = len(history.cache_at(state).sequences) - 1
        state["sequence"] = max(0, min(state["sequence"], last_sequence))


def _adapt_to_view(state: State) -> None:
    """Goes to the scenario of a new view, in place. The scenario that Serving opens with does not stay afterwards."""
    view, scenario, served = state["view"], state["scenario"], next(iter(SERVED))
    if view == "serving" and scenario not in (*SERVED, REQUESTS):
        state |= {"scenario": served, "moment": LAST}
    elif view not in MODELLED and scenario == served:
        state |= {"scenario": CHURN, "moment": LAST, "sequence": ANY}
    if view == "partitions":
        if state["scenario"] == CHURN:
            state |= {"scenario": ONE_LONG, "moment": LAST}
        state["sequence"] = ANY
    if view not in MODELLED and not history.cache_at(state).sequences:
        state["moment"] = LAST
    last = max(len(history.cache_at(state).sequences) - 1, 0)
    if state["sequence"] != ANY:
        state["sequence"] = min(state["sequence"], last)


def _take_requests(state: State) -> None:
    """Goes to the reader's own requests, in place, with a pool as large as before. Raises ProblemError if a request
    cannot be served."""
    slots = state["num_blocks"] * state["block_size"]
    if state["scenario"] != REQUESTS:
        slots = history.scenario_of(state).slots
    state |= {"scenario": REQUESTS, "moment": LAST, "num_blocks": slots // state["block_size"]}
    history.count_events(state)

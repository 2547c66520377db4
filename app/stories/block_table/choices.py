"""The choices of Paging: a view, a scenario at a moment, the order of its pages, and a query head."""

from functools import lru_cache

from app.choices.choice import Choice, of_field
from app.choices.described import kernel_options
from app.choices.page import Descriptions, Page, State
from app.choices.recordings import is_recorded
from app.stories.block_table import history
from app.stories.block_table.history import LAST, REQUESTS
from explainers.stories.block_table import ranges, story
from explainers.story import probed
from kernels.catalog import Catalog
from kernels.core.fields import fields_of
from kernels.core.spec import KernelSpec
from kernels.kv_cache.scenarios import PRESETS, SERVED, SHOWN_RANGES
from kernels.kv_cache.scheduler import read_visits

VIEWS = {
    "walk": "Pages",
    "cache": "Cache",
    "serving": "Serving",
    "partitions": "Partitions",
    "ranges": "Equal ranges (V3)",
    "prefix": "Shared prefix (V3)",
    "heads": "Grouped heads",
}
CHURN, ONE_LONG = "churn", "one_long"  # tables that name pages in no order, and a context for partitions
ANY = 100  # a sequence that nobody chose: the second one, or the longest one next to its partitions
MODELLED = ("cache", "serving")  # the views without a kernel
WITH_RANGES = ("ranges", "prefix")  # the views of a kernel with a work list
ONE_HEAD = ("walk", "partitions", *WITH_RANGES)  # the views that follow one query head of one sequence
READERS = "reads"  # a former view of who reads a page, in old links
HEADS = (1, 2, 4, 8, 16, 32)
GIVEN = ("context_lens", "num_blocks", "block_tables", "token_ids", "families", "numbers")  # fields that the cache sets


OWN = {
    "view": Choice("walk", tuple(VIEWS), stays=True, also=READERS),
    "scenario": Choice(CHURN, (*PRESETS, *SERVED, REQUESTS)),
    "requests": Choice(
        "S 1 40 0, A 2 6 8 S, B 3 10 6 S, C 4 20 5",
        check=read_visits,
        meaning="each with its name, its step of arrival, the tokens of its prompt and of its answer, and perhaps the "
        "name of its parent",
    ),
    "moment": Choice(LAST, low=0, high=LAST, meaning="events so far"),
    "shuffle": Choice(
        0,
        low=0,
        high=1000,
        meaning="0: the pages of the block manager. Any other number: a random permutation of all pages",
    ),
    "num_blocks": Choice(16, low=1, high=128, meaning="pages in the pool"),
    "sequence": Choice(ANY, low=0, high=ANY, meaning="the sequence of the walk"),
    "head": Choice(0, low=0, high=127),
    "ranges": Choice(SHOWN_RANGES, low=1, high=16, meaning="equal pieces of the list of all pages"),
}


# ---- the kernels ----


@lru_cache(maxsize=2)
def kernels_with_ranges(catalog: Catalog) -> dict[str, KernelSpec]:
    """view -> its kernel with a work list."""
    kernels = list(probed.accepting(ranges, catalog.kernels).values())
    return {view: next(k for k in kernels if ranges.shares(k) == (view == "prefix")) for view in WITH_RANGES}


def view_of(catalog: Catalog, kernel: KernelSpec) -> dict[str, object]:
    """The view of a kernel with a work list, as a choice. Empty for another kernel."""
    views = [view for view, own in kernels_with_ranges(catalog).items() if own == kernel]
    return {"view": views[0]} if views else {}


@lru_cache(maxsize=2)
def walkers(catalog: Catalog) -> dict[str, KernelSpec]:
    """The kernels of the page: all with the problem of the first kernel that walks a block table."""
    walked = probed.first(story.STORY, catalog.kernels)
    accepted = probed.accepting(story.STORY, catalog.kernels)
    return {name: kernel for name, kernel in accepted.items() if kernel.same_problems(walked)}


# ---- descriptions ----


def both_take(page: Page, state: State, name: str, kernel: KernelSpec) -> list[object]:
    field = of_field(fields_of(kernel.problem_type)[name])
    return [value for value in page.fields(state)[name].allowed or () if field.takes(value)]


def describe(page: Page, state: State) -> Descriptions:
    """The labels and the limits of the choices. Raises ProblemError if the requests cannot be served."""
    return _of_problem(page, state) | _of_view(page, state) | _of_place(state)


def _of_problem(page: Page, state: State) -> Descriptions:
    """The fields of the problem, as far as the view's kernel takes them."""
    view, found = state["view"], Descriptions()
    most_group = state["num_heads"]
    if view in WITH_RANGES:
        kernel = kernels_with_ranges(page.catalog)[view]
        most_group = kernel.problem_type.cache_use.most_group
        for name in ("dtype", "head_dim", "block_size"):
            options = {value: str(value) for value in both_take(page, state, name, kernel)}
            found[name] = {"kind": "select", "options": options}
    if view == "prefix":
        found["alibi"] = {"disabled": "not computed over a shared prefix"}
    kv_heads = [n for n in HEADS if state["num_heads"] % n == 0 and state["num_heads"] <= most_group * n]
    found["num_heads"] = {"kind": "select", "options": {n: str(n) for n in HEADS}}
    found["num_kv_heads"] = {"kind": "select", "options": {n: str(n) for n in kv_heads}}
    return found


def _of_view(page: Page, state: State) -> Descriptions:
    view, shuffle = state["view"], state["shuffle"]
    orders = {0: "As allocated", shuffle or 1: "Shuffled"} | ({shuffle + 1: "Shuffle again"} if shuffle else {})
    with_ranges = kernels_with_ranges(page.catalog).values()
    return {
        "view": {"label": "View", "options": VIEWS},
        "kernel": {"hidden": view not in ("walk", *WITH_RANGES), "value": page.shown_kernel(state).name}
        | {"options": kernel_options({**page.kernels, **{k.name: k for k in with_ranges}})},
        "scenario": {"label": "Scenario", "options": _scenario_titles(state)},
        "requests": {"hidden": True},  # the form in a tab of Serving writes them
        "shuffle": {"hidden": view != "walk", "kind": "select", "label": "Pages", "options": orders},
        "num_blocks": {"hidden": state["scenario"] != REQUESTS, "label": "pages in the pool", "group": "problem"},
        "ranges": {"hidden": view not in WITH_RANGES, "label": "ranges", "group": "place"},
    }


def _scenario_titles(state: State) -> dict[str, str]:
    titles = {name: served.title for name, served in SERVED.items()} | {REQUESTS: "Your own requests"}
    if state["view"] != "serving":
        titles = {name: preset.title for name, preset in PRESETS.items()} | titles
    if state["view"] in MODELLED or not is_recorded(state):
        return titles
    # the page says that a chosen scenario is not recorded
    return {name: title for name, title in titles.items() if name in (*PRESETS, state["scenario"])}


def _of_place(state: State) -> Descriptions:
    states, last_head = history.states_of(state), state["num_heads"] - 1
    names = [sequence.name for sequence in history.cache_at(state).sequences]
    moment = {"hidden": state["view"] in MODELLED, "high": len(states) - 1, "label": "events played"}
    one_head = {"hidden": state["view"] not in ONE_HEAD}
    sequence = {"kind": "select", "label": "Sequence", "options": dict(enumerate(names or ["none"]))}
    head = {"high": last_head, "label": "query head", "group": "place"}
    only_one = "there is only one"
    return {
        "moment": moment | {"group": "place"},
        "sequence": one_head | sequence | {"disabled": "" if len(names) > 1 else only_one},
        "head": one_head | head | {"disabled": "" if last_head else only_one},
    }

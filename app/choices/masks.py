"""The sparsity story's own choices: which head and query block are walked, and by which of its rows; and the fields of
the problem that say which mask there is, a matrix drawn by hand among them."""

from functools import lru_cache
from typing import Any

from app.choices import places, recordings
from app.choices.asked import Asked, State
from app.choices.choice import Choice
from app.choices.described import option
from explainers.stories.sparsity import block_mask
from explainers.story import probed
from kernels.core.request import Request, Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError

OWN = {
    **places.WHOLE_TILE,
    "at_tile": Choice(5, low=0, high=10**6, meaning="the block of queries whose list is walked"),
    "row": Choice(6, low=0, high=10**6, meaning="which of the query block's rows"),
}
_BEGIN = {"mask": "sinks", "window": 192, "num_heads": 1}  # in the sixth query block stand all kinds of blocks
DRAWN = "drawn"
TITLES = {
    "all": "No mask",
    "window": "Window",
    "sinks": "Window and sinks",
    "documents": "Documents",
    "strided": "Strided",
    "dilated": "Dilated",
    "hierarchical": "Own block, summaries",
    "random": "Random pairs",
    "random_blocks": "Random blocks",
    "top_blocks": "Best blocks",
    DRAWN: "Drawn by hand",
}
LABELS = {"mask_block": "block of the mask", DRAWN: "columns of each row of blocks"}


def beginning(spec: KernelSpec) -> dict[str, Any]:
    """Where a kernel's fields begin: at a mask that it takes."""
    found = _BEGIN if block_mask.has_lists(probed.sample(spec)) else _BEGIN | {"mask": spec.problem_type().mask}
    return {name: value for name, value in found.items() if name in spec.problem_type.__dataclass_fields__}


@lru_cache(maxsize=64)
def _same(request: Request) -> Request:
    """The first of equal requests: its problem has made its lists already."""
    return request


def limits(asked: Asked, state: State) -> dict[str, int]:
    """name -> the largest that each choice of a place can be, with what else is chosen. ProblemError."""
    size = block_mask.room(_same(asked.request_of(state)))
    tile = min(state["at_tile"], size.tiles - 1)
    last_row = min(size.queries, (tile + 1) * size.rows) - tile * size.rows - 1
    return {"at_batch": size.batches - 1, "at_head": size.heads - 1, "at_tile": size.tiles - 1, "row": last_row}


def settle(asked: Asked, state: State) -> list[tuple[str, str]]:
    """Puts what a smaller problem leaves out of range at the last that there is, in place; (name, sentence) of each."""
    moved: list[tuple[str, str]] = []
    try:
        for name in OWN:  # the row's limit depends on the query block
            high = limits(asked, state)[name]
            if state[name] > high:
                moved.append((name, f"{name} is {state[name]}; here it can be 0 to {high}."))
                state[name] = high
    except ProblemError:
        pass  # the page says what is wrong with the problem
    return moved


def request(asked: Asked, state: State, backend: str) -> Request:
    """The Request, its scope the query block that is walked. ProblemError."""
    whole = _same(asked.request_of(state))
    size = block_mask.room(whole)
    first = (state["at_batch"] * size.heads + state["at_head"]) * size.tiles + state["at_tile"]
    return Request(whole.kernel, whole.problem, whole.settings, Scope(first), backend)


def changed(asked: Asked, state: State, name: str) -> None:
    """A mask begun by hand shows each query block the first key block and its own, in both directions; what no longer
    fits the problem's blocks is let go of. ProblemError if the mask cannot be."""
    if DRAWN not in state or state.get("mask") != DRAWN:
        return
    if name == "mask":
        state["causal"] = False  # or half of what is drawn would have no effect
    rows, columns = _blocks(asked, state)
    if name == "mask" and not state[DRAWN]:
        state[DRAWN] = tuple(tuple(sorted({0, min(row, columns - 1)})) for row in range(rows))
    if name != DRAWN:
        state[DRAWN] = tuple(tuple(c for c in row if c < columns) for row in state[DRAWN][:rows])
    asked.problem_of(state)


def _blocks(asked: Asked, state: State) -> tuple[int, int]:
    """Rows and columns of blocks of the mask."""
    problem = asked.problem_of(state, drawn=())
    return -(-problem.query_count // problem.mask_block), -(-problem.key_count // problem.mask_block)


def narrowed(asked: Asked, state: State) -> dict[str, dict[str, Any]]:
    """What the choices are called, how far they can go, and which fields the mask looks at."""
    fields, found = asked.fields(state), dict[str, dict[str, Any]]()
    titles = {**TITLES, "all": "Causal alone"} if state["causal"] else TITLES
    options = [
        option(mask, titles.get(mask, mask), _refused(asked, state, mask)) for mask in fields["mask"].allowed or ()
    ]
    group = {} if recordings.is_recorded(state) else {"group": "own"}  # in front, unless a recording says it
    found["preset"] = {"hidden": True}  # the mask is what presets choose
    found["mask"] = {"label": "Mask", "options": options} | group
    mask_fields = asked.spec_of(state).problem_type.mask_fields
    for name in {name for names in mask_fields.values() for name in names} & set(fields):
        looked_at = name in mask_fields.get(state["mask"], ())
        found[name] = {"hidden": not looked_at, "label": LABELS.get(name, name)} | group
    if not state["causal"]:
        found["causal"] = {"label": "causal"} | group  # drawing by hand turns it off, and it stays so
    try:
        high = limits(asked, state)
    except ProblemError:
        return found  # the page says what is wrong with the problem
    for name, most in high.items():
        label = {"row": "row of the query block", "at_tile": "query block"}.get(name, name.removeprefix("at_"))
        found[name] = {"high": most, "label": label, "disabled": "" if most else "there is only one"}
    return found


def _refused(asked: Asked, state: State, mask: str) -> str:
    """Why the kernel does not take a mask; nothing where it does. One that goes over lists takes any."""
    if block_mask.has_lists(probed.sample(asked.spec_of(state))):
        return ""
    try:
        asked.request_of(state, mask=mask).plan  # noqa: B018
    except ProblemError as error:
        return str(error)
    return ""

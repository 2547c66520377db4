"""Sparsity: a mask as blocks, the list of a query block, and the gain and the cost of skipped blocks."""

from functools import lru_cache

import pandas as pd

from app.choices import estimates, pages, places, recordings
from app.choices.choice import Choice
from app.choices.described import option
from app.choices.page import Correction, Descriptions, Page, State, put
from app.measured import measuring
from app.parts import running
from app.parts.explained import story_of
from explainers.stories.sparsity import block_mask, costs, story
from explainers.stories.sparsity.story import Walked
from explainers.stories.timing import sweeps
from explainers.story import probed
from explainers.story.stage import Block
from kernels.catalog import Catalog
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError

OWN = {
    **places.WHOLE_TILE,
    "at_tile": Choice(5, low=0, high=10**6, meaning="the block of queries whose list is walked"),
    "row": Choice(6, low=0, high=10**6, meaning="which of the query block's rows"),
}
DEFAULTS = {"mask": "sinks", "window": 192, "num_heads": 1}  # the sixth query block then has all kinds of blocks
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


def page(catalog: Catalog) -> Page:
    return pages.accepted_by(
        story.STORY,
        catalog,
        own=OWN,
        defaults_of=defaults_of,
        one_what_if=True,
        refusal=story.STORY.refusal,
        correct=correct,
        adapt=adapt,
        describe=describe,
    )


def subject(page: Page, state: State, backend: str) -> Walked:
    walked = request(page, state, backend)
    return Walked(walked, block_mask.place_of(walked).first + state["row"])


def ledger_tab(walked: Walked) -> list[Block]:
    """The executed, masked and skipped blocks of the whole run, by count and by the lists, with times."""
    run = running.run(walked.request)
    return costs.ledger_blocks(run, running.traffic(walked.request), _times())


def elements_tab(walked: Walked) -> list[Block]:
    """The same mask as lists of keys and as blocks of several sizes."""
    return costs.element_blocks(running.run(walked.request), _times())


def _times() -> pd.DataFrame:
    """The recorded times. A worker does not know this server's results."""
    return sweeps.known((), measuring.Now()).table


# ---- the choices ----


def defaults_of(kernel: KernelSpec) -> dict[str, object]:
    """The default fields of a kernel's problem, with a mask that the kernel takes."""
    own = kernel.problem_type().values()
    defaults = DEFAULTS if block_mask.has_lists(probed.sample(kernel)) else DEFAULTS | {"mask": own["mask"]}
    return {name: value for name, value in defaults.items() if name in own}


@lru_cache(maxsize=64)
def _same(request: Request) -> Request:
    """The first of equal requests. Its problem has its lists already."""
    return request


def limits(page: Page, state: State) -> dict[str, int]:
    """name -> the largest value of each choice of a place. Raises ProblemError."""
    size = block_mask.room(_same(page.request_of(state)))
    tile = min(state["at_tile"], size.tiles - 1)
    last_row = min(size.queries, (tile + 1) * size.rows) - tile * size.rows - 1
    return {"at_batch": size.batches - 1, "at_head": size.heads - 1, "at_tile": size.tiles - 1, "row": last_row}


def correct(page: Page, state: State) -> list[Correction]:
    """Replaces places that a smaller problem does not have by the last place, in place."""
    corrections: list[Correction] = []
    try:
        for name in OWN:  # the row's limit depends on the query block
            high = limits(page, state)[name]
            if state[name] > high:
                corrections.append(put(state, name, high, f"Here it can be 0 to {high}."))
    except ProblemError:
        pass  # the page reports the error of the problem
    return corrections


def request(page: Page, state: State, backend: str) -> Request:
    """The Request whose scope is the query block. Raises ProblemError."""
    whole = _same(page.request_of(state))
    size = block_mask.room(whole)
    first = (state["at_batch"] * size.heads + state["at_head"]) * size.tiles + state["at_tile"]
    return Request(whole.kernel, whole.problem, whole.settings, Scope(first), backend)


def adapt(page: Page, state: State, name: str) -> None:
    """Adapts a mask drawn by hand, in place. A new one shows each query block the first key block and its own block,
    in both directions. Blocks outside the problem are dropped. Raises ProblemError."""
    if DRAWN not in state or state.get("mask") != DRAWN:
        return
    if name == "mask":
        state["causal"] = False  # or half of the drawing would have no effect
    mask = page.problem_of(state, drawn=()).masks[0]
    rows, columns = -(-mask.queries // mask.block), -(-mask.keys // mask.block)  # blocks of the mask
    if name == "mask" and not state[DRAWN]:
        state[DRAWN] = tuple(tuple(sorted({0, min(row, columns - 1)})) for row in range(rows))
    if name != DRAWN:
        state[DRAWN] = tuple(tuple(c for c in row if c < columns) for row in state[DRAWN][:rows])
    page.problem_of(state)


def describe(page: Page, state: State) -> Descriptions:
    """The labels and the limits of the choices, and the fields that the mask reads."""
    fields, found = page.fields(state), Descriptions()
    titles = {**TITLES, "all": "Causal alone"} if state["causal"] else TITLES
    options = [
        option(mask, titles.get(mask, mask), _refused(page, state, mask)) for mask in fields["mask"].allowed or ()
    ]
    group = {} if recordings.is_recorded(state) else {"group": "own"}  # in front, unless a recording sets it
    found["preset"] = {"hidden": True}  # the mask is what presets choose
    found["mask"] = {"label": "Mask", "options": options} | group
    mask_fields = page.kernel_of(state).problem_type.mask_fields
    for name in {name for names in mask_fields.values() for name in names} & set(fields):
        looked_at = name in mask_fields.get(state["mask"], ())
        found[name] = {"hidden": not looked_at, "label": LABELS.get(name, name)} | group
    if not state["causal"]:
        found["causal"] = {"label": "causal"} | group  # drawing by hand turns it off, and it stays so
    try:
        high = limits(page, state)
    except ProblemError:
        return found  # the page reports the error of the problem
    labels = places.LABELS | {"row": "row of the query block", "at_tile": "query block"}
    return found | places.describe(page, state, lambda page, state: high, labels)


def _refused(page: Page, state: State, mask: str) -> str:
    """The reason why the kernel does not take a mask, or "". A kernel with lists takes any mask."""
    if block_mask.has_lists(probed.sample(page.kernel_of(state))):
        return ""
    try:
        page.request_of(state, mask=mask).plan  # noqa: B018
    except ProblemError as error:
        return str(error)
    return ""


STORY = story_of(
    story.STORY,
    path="sparsity",
    title="Sparsity",
    look="Follow a block of queries through its list of key blocks. Then draw a mask of your own, and see the cost of "
    "each hidden pair.",
    page=page,
    subject=subject,
    order=70,
    launches={"ledger": lambda walked: estimates.traffic([walked.request])},
    parts={"ledger": ledger_tab, "elements": elements_tab},
)

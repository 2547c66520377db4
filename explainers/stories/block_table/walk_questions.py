"""The questions about a walk through a block table: the way to a key, the two phases, and the grid."""

from collections.abc import Sequence

from explainers.stories.block_table import paging
from explainers.stories.block_table.paging import Paged
from explainers.stories.block_table.walk_types import WalkFrame
from explainers.story.glossary import count
from explainers.story.questions import idea
from explainers.story.stage import Question, Stage
from kernels.run.results import Run


def walk(run: Run, made: Stage, name: str) -> list[Question]:
    """Returns the questions about a walk. name: the sequence."""
    frames = made.frames
    steps = [n for n, frame in enumerate(frames) if "page" in frame]
    if not steps:
        return []
    length = int(paging.lengths(run)[Paged(run.request).place[0]])
    return [*_way(run, frames, steps, name, length), *_phases(frames, steps, length), *_grid(run, made, name, length)]


def _way(run: Run, frames: Sequence[WalkFrame], steps: Sequence[int], name: str, length: int) -> list[Question]:
    """The way to the key of a token. Its page is not the page after the one before it."""
    size, table = Paged(run.request).block_size, paging.pages_of(run, Paged(run.request).place[0])
    of_k = [n for n in steps if frames[n].get("role") == "k"]
    jumps = [n for n in of_k if (entry := frames[n]["logical"]) and table[entry] not in (table[entry - 1] + 1, entry)]
    if not jumps:
        return []
    step = jumps[-1]
    frame = frames[step]
    token, entry, page = frame["tokens"][0], frame["logical"], frame["page"]
    before = table[entry - 1]
    candidates = {page, entry, before + 1}  # the colour of a page tells whose it is
    return [
        idea(
            "check_block_table",
            "How does the block table change memory access? "
            f"A page has {size} slots: where is the key of token {token}?",
            f"In page {page}, because entry {entry} of the block table names it",
            {
                f"In page {entry}, because {token} / {size} is {entry}": (
                    f"{token} / {size} = {entry} is an entry of the block table. The entry names page {page}."
                ),
                f"In page {before + 1}, right after token {token - 1}": (
                    f"Token {token - 1} is in page {before}. The next page of {name} is page {page}, for pages have no "
                    "order."
                ),
                "Somewhere in the pool: the kernel searches for it": (
                    f"Nothing is searched. The kernel reads entry {entry}, 4 bytes, and knows the page."
                ),
            },
            f"The kernel first reads entry {token} / {size} = {entry}, then goes to page {page}. "
            "Each page costs one more read, and any free page will do.",
            step=step,
            view="walk",
            hides=[f"page {page}", f"{frame['base']:,} of {frame['tensor']}"],
            covers=[
                {"token": frame["tokens"], "part": "table"},
                *(_in_pool(candidate, table, size) for candidate in sorted(candidates)),
            ],
            shows={"token": token, "part": "table"},
        )
    ]


def _in_pool(page: int, table: Sequence[int], size: int) -> dict[str, object]:
    """A page of the pool as the picture locates it: by its tokens, or as a page of another sequence."""
    if page not in table:
        return {"other": page}
    first = list(table).index(page) * size
    return {"token": [first, first + size - 1], "part": "pool"}


def _phases(frames: Sequence[WalkFrame], steps: Sequence[int], length: int) -> list[Question]:
    """The two phases of a walk. steps: the steps with a page."""
    by_role = {role: [n for n in steps if frames[n].get("role") == role] for role in ("k", "v")}
    if not all(by_role.values()):
        return []
    pages, first_v = count(len(by_role["k"]), "page"), by_role["v"][0]
    return [
        idea(
            "check_two_phases",
            "Which two phases does PagedAttention have?",
            "First the keys of all pages, then the values of all pages",
            {
                "The keys of a page, then the values of the same page": (
                    f"The first value is loaded in step {first_v + 1}, after the keys of {pages}."
                ),
                "The first half of the pages, then the second half": f"Each phase visits the {pages} of the context.",
                "First the whole block table, then the pages": (
                    f"The kernel reads an entry just before its page: {count(len(steps), 'look-up')} in this walk."
                ),
            },
            f"A value counts with its weight, and V1 has the weights only after the softmax over all "
            f"{count(length, 'score')}. So the values wait until step {first_v + 1}. "
            "An online softmax could take both page by page.",
            step=first_v,
            view="walk",
        )
    ]


def _grid(run: Run, made: Stage, name: str, length: int) -> list[Question]:
    """The grid of the kernel, shown at the step with the most running blocks."""
    view = next((view for view in made.views if view.kind == "grid"), None)
    if view is None:
        return []
    running = next(state["values"] for state in view.meta["state"] if state["name"] == "blocks running")
    launch, paged = run.request.plan.launches[0], Paged(run.request)
    heads, sequences, parts = paged.num_heads, len(paging.lengths(run)), launch.blocks_per_item
    blocks = heads * sequences * parts
    each = "query head, sequence and partition" if parts > 1 else "query head of each sequence"
    product = " x ".join(str(n) for n in (heads, sequences, parts)[: 3 if parts > 1 else 2])
    asks = idea(
        "check_grid",
        "How does PagedAttention share its work among blocks?",
        f"One block for each {each}, as none needs another",
        {
            "One block for each page, as pages are apart in memory": (
                "V1 keeps all scores of a query head in one block."
            ),
            "One block for each token of the context, as each has a key": (
                f"Only the newest token has a query. The {length} tokens of {name} are keys and values."
            ),
            "One block for each sequence, as its heads share a block table": (
                f"The query heads of a sequence have their own scores. This launch has {blocks} blocks "
                f"for {count(sequences, 'sequence')}."
            ),
        },
        f"The grid is {product} = {blocks} blocks. Each has its own scores and its own output, so all can run at once."
        + (" V2 has a block for each partition of each query head of each sequence." if parts == 1 else ""),
        step=running.index(max(running)),
        view=view.id,
        covers=[{"part": "cell"}],
        hides=[f"of {blocks}"],
    )
    return [asks]

"""The picture `pages`: reserved slots against pages, and a token's place in pages under the reader's hand.

The block manager gives the pages. The run gives the block table and the addresses. A token's place follows from
the rule of app/stage/views/slots_rule.js.
"""

from collections.abc import Iterable
from typing import TypedDict

from explainers.stories.block_table import kv_cache
from explainers.stories.block_table.paging import WORDS, Paged, counted, marked
from explainers.stories.block_table.subjects import Walk
from explainers.story import axes, stage
from explainers.story.frames import Frame
from explainers.story.words import Row
from kernels.kv_cache import manager
from kernels.run.results import Run

BEFORE = ("reserved", "pages", "free", "later")  # the steps without a value of the run


class Held(TypedDict):
    """A sequence at a step.

    first: its first slot in memory without pages, or -1 with pages.
    table: its pages in order. Without both, it waits.
    """

    name: str
    colour: str
    tokens: int
    first: int
    table: list[int]


class SlotsMeta(TypedDict):
    """The fields of the view `slots`.

    phases: reserved, pages, free, later, table, path or hand, at each step.
    held: the sequences at each step.
    pages, size: of memory: its pages and their slots. max_len: reserved slots of a sequence.
    name: of the followed sequence. bases: the byte of K at which each of its pages begins, for one KV head.
    piece: bytes from a slot to the next. example: the token of the question.
    words: the sentences under a hand.
    provenances: the source of each step. None: the page's.
    """

    frames: list[Frame]
    phases: list[str]
    held: list[list[Held]]
    pages: int
    size: int
    max_len: int
    name: str
    kernel: str
    bases: list[int]
    piece: int
    example: int
    words: dict[str, str]
    provenances: list[dict[str, str] | None]


def view(run: Run, walk: Walk) -> stage.View:
    """The picture of a walk."""
    paged, data = Paged(run.request), data_of(run, walk)
    kv_head = paged.kv_head_of(paged.place[1])
    lines = _table_lines(run, paged)
    steps = [{**step, "lines": lines if step["phase"] in ("path", "hand") else {}} for step in data["steps"]]
    colours = kv_cache.sequence_colours(walk.scenario.states(data["size"]))
    held: list[list[Held]] = [
        [
            {
                "name": one.name,
                "colour": colours[kv_cache.identity(one)],
                "tokens": len(one.tokens),
                "first": n * data["max_len"] if step["phase"] == "reserved" and n < data["fitting"] else -1,
                "table": [] if step["phase"] == "reserved" else list(one.table),
            }
            for n, one in enumerate(step["cache"].sequences)
        ]
        for step in data["steps"]
    ]
    modelled = {"label": "modelled", "said": WORDS.say("pool_model", {})}
    meta: SlotsMeta = {
        "frames": WORDS.frames(steps, {**data, "view": "place"}),
        "phases": [step["phase"] for step in data["steps"]],
        "held": held,
        "pages": data["pages"],
        "size": data["size"],
        "max_len": data["max_len"],
        "name": data["name"],
        "kernel": run.request.kernel.name,
        "bases": [axes.byte_of(paged.k[1], page=page, kv_head=kv_head) for page in data["followed"].table],
        "piece": axes.byte_of(paged.k[1], slot=1),
        "example": data["example"]["token"],
        "words": WORDS.table("place"),
        "provenances": [modelled if step["phase"] in BEFORE else None for step in data["steps"]],
    }
    return stage.View("slots", "pages", "Pages", {**meta, "clock": True, "state": []})


def _table_lines(run: Run, paged: Paged) -> dict[str, int]:
    """The line of code that first reads the block table."""
    records = marked(run)[1]
    reads = records[(records.tensor == paged.tables[0]) & (records.step >= 0)]
    lines: dict[str, int] = counted(reads[reads.step == reads.step.min()])["lines"]
    return lines


def questions(run: Run, walk: Walk) -> list[stage.Question]:
    """The questions about the steps of the picture."""
    data = data_of(run, walk)
    step_of = {step["phase"]: n for n, step in enumerate(data["steps"])}
    names = {**data["steps"][0], **data, "view": "place", "step_of": step_of, "table": data["followed"].table}
    return WORDS.questions(names, len(data["steps"]) - 1)


def data_of(run: Run, walk: Walk) -> Row:
    """The steps of the picture, each with its cache, and the names for its words.

    fitting: sequences with room for max_len reserved slots each.
    followed: the sequence of the walk. example: a token in its last page, and its place. other: another one.
    """
    paged, scenario = Paged(run.request), walk.scenario
    size, pages = paged.block_size, axes.length(paged.k[1], "page")
    cache = scenario.states(size)[walk.moment][0]
    cache = cache.shuffled(walk.seed) if walk.seed else cache
    followed = cache.find(walk.name)
    fitting = scenario.slots // scenario.max_len
    steps = [*_history(walk, size, fitting), *({"phase": phase, "cache": cache} for phase in ("table", "path", "hand"))]
    entry = len(followed.table) - 1
    token = min(len(followed.tokens) - 1, entry * size + 3)
    between = next((n for n in range(1, entry) if followed.table[n] != n), None)  # its page has another number

    def place(token: int) -> Row:
        entry, slot = divmod(token, size)
        return {"token": token, "entry": entry, "slot": slot, "page": followed.table[entry]}

    common = {"tile": -1, "length": len(followed.tokens), "sequences": len(cache.sequences)}
    return {
        **{"size": size, "pages": pages, "max_len": scenario.max_len, "fitting": fitting, "name": walk.name},
        **{"steps": [{**common, **step} for step in steps], "followed": followed, "example": place(token)},
        "other": place(token if between is None else between * size + 5),
    }


def _history(walk: Walk, size: int, fitting: int) -> list[Row]:
    """The steps before the block table: the first moment with more sequences than reserved slots have room for, the
    same moment with pages, the first moment with pages of ended sequences in the followed sequence, and the run's.

    waits: the first sequence without room. ended: the sequences that ended until then. used, reserved: slots of those
    with room. usage: KVCache.usage. said: what changed until the run, a clause for each kind of change.
    [] without this moment, for shared pages and for shuffled ones.
    """
    states, scenario = walk.scenario.states(size)[: walk.moment + 1], walk.scenario
    first = next((n for n, (cache, _) in enumerate(states) if len(cache.sequences) > fitting), 0)
    cache = states[first][0]
    if not first or walk.seed or max(cache.ref_counts.values()) > 1:
        return []
    inside, usage = cache.sequences[:fitting], cache.usage(scenario.max_len)
    used, reserved = sum(len(one.tokens) for one in inside), fitting * scenario.max_len
    now = {"waits": cache.sequences[fitting].name, "used": used, "reserved": reserved, "usage": usage, "cache": cache}
    steps: list[Row] = [{**now, "phase": "reserved"}, {**now, "phase": "pages"}]
    ended: list[str] = []
    free: set[int] = set()
    for later, change in states[first + 1 :]:
        if change and change.event.action == "free":
            ended, free = [*ended, change.event.name], free | {*change.released}
        mine = next((one for one in later.sequences if one.name == walk.name), None)
        if mine and free & {*mine.table}:
            said = _changes(later.sequences, states[-1][0].sequences)
            last: list[Row] = [{"said": said, "phase": "later", "cache": states[-1][0]}] if said else []
            return [*steps, {"ended": ended, "phase": "free", "cache": later}, *last]
    return steps


def _changes(before: Iterable[manager.Sequence], after: Iterable[manager.Sequence]) -> list[str]:
    """The sequences that end, that come and that grow, a clause for each."""
    then, now = ({one.name: len(one.tokens) for one in some} for some in (before, after))
    found = {
        "end": [name for name in then if name not in now],
        "come": [name for name in now if name not in then],
        "grow": [name for name in now if now[name] > then.get(name, now[name])],
    }
    return [f"{' and '.join(who)} {does}{'s' if len(who) == 1 else ''}" for does, who in found.items() if who]

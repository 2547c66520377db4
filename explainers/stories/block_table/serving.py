"""A serving scenario over a paged KV cache: requests on one axis of steps, and the pool below.

No kernel runs. A scheduler plays the block manager. The comparison without pages uses the same scheduler, with pages as
large as the reservation of a request, and nothing shared.
"""

from collections.abc import Container, Sequence
from typing import TypedDict

import pandas as pd

from explainers.charts.palette import PHASES
from explainers.stories.block_table import kv_cache
from explainers.stories.block_table.kv_cache import HeldPages, State
from explainers.story import scene, stage
from explainers.story.frames import Frame
from explainers.story.glossary import count, listed
from explainers.story.scene import Group, Lane, Lanes, Link, Span
from kernels.errors import ProblemError
from kernels.kv_cache.layout import Layout
from kernels.kv_cache.manager import Change, KVCache
from kernels.kv_cache.scenarios import Scenario
from kernels.kv_cache.scheduler import Step, alone, serve


class ServedVisit(TypedDict):
    """A served request, in steps of the scheduler.

    arrives, start, end, gone: its arrival, its admission, its last token and the free of its pages (None if it
        stays).
    prompt, answer: tokens.
    shared: tokens that it takes over from its parent.
    """

    name: str
    colour: str
    arrives: int
    start: int
    end: int
    gone: int | None
    prompt: int
    answer: int
    shared: int
    parent: str


class ServingFrame(Frame, HeldPages):
    """The KV cache after a step of the scheduler. The first frame is before all steps.

    new: slots written.
    copies: (from, to) pages.
    released: pages freed.
    usage, waste: see PoolFrame.
    waiting: the requests before admission.
    """

    new: list[int]
    copies: list[tuple[int, int]]
    released: list[int]
    usage: dict[str, int]
    waste: str
    waiting: tuple[str, ...]


LIMITS = (
    "This scheduler is simpler than a server's. It admits a request when the pages up to its last token are certain. "
    "It prefills a whole prompt in one step. vLLM admits a request when the pages of its next tokens are free, and it "
    "prefills a long prompt in parts. When pages run out, vLLM frees the pages of a request and computes them again "
    "later. It shares only the full pages of a prefix. Here the last page is shared, too, and copied on write, as in "
    "the paper on PagedAttention."
)


def stage_of(scenario: Scenario, block_size: int, layout: Layout | None) -> stage.Stage:
    """Returns the whole stage, with a step for each of the scheduler's steps and one before them.

    layout: the cache's layout, None if no kernel can run.
    """
    steps, played, max_len = scenario.steps(block_size), scenario.states(block_size), scenario.max_len
    ends = ends_of(steps)
    slot_bytes = 2 * layout.num_kv_heads * layout.page_bytes // block_size if layout else 0
    frames = serving_frames(scenario, block_size, slot_bytes)
    visits = visits_of(scenario, steps, played)
    prefixes = prefixes_of(scenario)
    at_ends = [played[end] for end in ends]
    usage = stage.chart(
        kv_cache.usage_chart(kv_cache.usage_table(at_ends, max_len, prefixes), "step"),
        "Slots used, held in pages and reserved contiguously after each step. A rule marks the step",
        f"After the last step. {frames[-1]['waste']}",
        f"Slots after each step. Contiguous: {max_len} reserved for each request",
    )
    compared = [
        stage.text(compared_sentence(scenario, block_size)),
        stage.table(requests_table(scenario, block_size), "In steps. A request waits until the server admits it."),
        stage.text(LIMITS),
    ]
    return stage.Stage(
        headline=f"{scenario.title}. {scenario.about}",
        frames=kv_cache.stage_frames(frames),
        views=[picture(frames, visits, scenario, layout, slot_bytes)],
        state=states(steps, frames, slot_bytes),
        tabs=[
            stage.Tab("requests", "Requests, with and without pages", compared),
            stage.Tab("usage", "Slots over time", [usage]),
            stage.Tab("own", "Change the requests", [stage.live("requests", {"visits": visits})]),
        ],
        provenance=stage.Provenance(
            "modelled",
            "The scheduler and the block manager of kernels/kv_cache, step by step. The kernels take its tables as "
            "they are. Nothing ran for this picture.",
        ),
        summary=gain_sentence(scenario, block_size),
        step_choice="moment",
        step_values=ends,
    )


def picture(
    frames: list[ServingFrame], visits: list[ServedVisit], scenario: Scenario, layout: Layout | None, slot_bytes: int
) -> stage.View:
    """The requests on an axis of steps, and the pool after the step. slot_bytes: of K and V of a token, or 0."""
    size = scenario.slots // len(frames[0]["free"])
    spans = [span for row, visit in enumerate(visits) for span in _spans(row, visit, len(frames))]
    rows = {visit["name"]: row for row, visit in enumerate(visits)}
    forks = [
        Link(start=(rows[v["parent"]], v["start"] - 0.5), end=(rows[v["name"]], v["start"] - 0.5))
        for v in visits
        if not v["prompt"]
    ]
    marked: list[tuple[float, float] | None] = [None, *((step, step + 1) for step in range(len(frames) - 1))]
    requests = Lanes(
        groups=[
            Group(
                title="Requests: prompt + answer in tokens, and the tokens and empty slots after the step",
                marked=marked,
                begins=[0],
            )
        ],
        rows=[_lane(visit, frames, size, slot_bytes) for visit in visits],
        spans=spans,
        links=forks,
        length=len(frames) - 1,
        units=[],
    )
    legend = [
        (PHASES["prefill"], "prefill: all tokens of the prompt at once"),
        (PHASES["decode"], "decode: a token in each step"),
        *([("", "fork: one more answer, all pages shared")] if forks else []),
        *([("", "hatched: waits")] if any(v["arrives"] < v["start"] for v in visits) else []),
        *([("dim", "stays")] if any(span.colour == "dim" for span in spans) else []),
    ]
    return scene.view(
        "serving",
        "Serving",
        [
            [requests],
            [kv_cache.pool(frames, size, layout, "outlined: written in this step, dashed: freed")],
            [kv_cache.free_list(frames)],
            [kv_cache.usage_bars(frames, scenario.max_len)],
        ],
        legend=legend,
        note=[frame["waste"] for frame in frames],
        turns=kv_cache.turns(frames),
    )


def _lane(visit: ServedVisit, frames: list[ServingFrame], size: int, slot_bytes: int) -> Lane:
    """The row of a request: its tokens after each step, and a tip for each step."""
    parts = " + ".join(str(tokens) for tokens in (visit["prompt"], visit["answer"]) if tokens)
    parent = f"{visit['parent']} + " if visit["parent"] else ""
    ends = []
    for frame in frames:
        own = next((s for s in frame["sequences"] if s["name"] == visit["name"]), None)
        slack = len(own["table"]) * size - own["length"] if own else 0
        amount = f" = {slack * slot_bytes:,} B" if slot_bytes else ""
        waits = "waits" if visit["name"] in frame["waiting"] else ""
        ends.append(f"{own['length']} tokens, {slack} empty{amount}" if own else waits)
    return Lane(
        name=f"{visit['name']}  {parent}{parts}",
        colour=visit["colour"],
        datum={"request": visit["name"]},
        end=ends,
        moments=[_told(visit, step) for step in range(1, len(frames))],
    )


def _spans(row: int, visit: ServedVisit, steps: int) -> list[Span]:
    """The phases of a request. steps: with the one before all."""
    name, start, end = visit["name"], visit["start"], visit["end"]
    gone, answer = visit["gone"] or steps, visit["answer"]
    phases = [
        ("waits", visit["arrives"], start, "text", ["waits"]),
        ("prefill", start, start + 1, PHASES["prefill"], [str(visit["prompt"])] if visit["prompt"] else ["fork"]),
        ("decode", start + 1, end + 1, PHASES["decode"], [f"{answer} tokens", str(answer)]),
        ("stays", end + 1, gone, "dim", []),
    ]
    return [
        Span(
            row=row,
            start=first - 1,
            end=after - 1,
            since=first,
            texts=texts,
            colour=colour if phase != "prefill" or visit["prompt"] else "panel",
            datum={"request": name, "phase": phase},
            hatch=phase == "waits",
        )
        for phase, first, after, colour, texts in phases
        if after > first
    ]


def _told(visit: ServedVisit, step: int) -> str:
    """The work of a request in a step."""
    name, start, end = visit["name"], visit["start"], visit["end"]
    parent, prompt, shared, gone = visit["parent"], visit["prompt"], visit["shared"], visit["gone"]
    tokens = shared + prompt + max(0, min(step, end) - start)
    if step < visit["arrives"]:
        did = "has not come"
    elif step < start:
        did = "waits"
    elif step == start and prompt:
        did = f"prefill, {prompt} tokens at once" + (f", after {shared} of {parent}" if parent else "")
    elif step == start:
        did = f"forked from {parent} with {shared} tokens, all shared"
    elif step <= end:
        did = f"decode, token {step - start} of {visit['answer']}; {tokens} in all"
    else:
        did = "has ended" if gone is not None and step >= gone else f"stays, {tokens} tokens"
    return f"{name}, step {step}: {did}"


def ends_of(steps: Sequence[Step]) -> list[int]:
    """Returns the number of events before the first step, and after each step."""
    ends = [0]
    for step in steps:
        ends.append(ends[-1] + len(step.events))
    return ends


def visits_of(scenario: Scenario, steps: Sequence[Step], played: Sequence[State]) -> list[ServedVisit]:
    """Returns every request with the first and last steps of its phases, in the order of the scenario."""
    colours = {key[0]: colour for key, colour in kv_cache.sequence_colours(played).items()}
    found: list[ServedVisit] = []
    for visit in scenario.visits:
        step = next(step for step in steps if visit.name in step.admitted)
        start = step.number
        found.append(
            {
                "name": visit.name,
                "colour": colours[visit.name],
                "arrives": visit.arrives,
                "start": start,
                "end": start + visit.answer,
                "gone": next((step.number for step in steps if visit.name in step.freed), None),
                "prompt": visit.prompt,
                "answer": visit.answer,
                "shared": step.begun[step.admitted.index(visit.name)],
                "parent": visit.parent,
            }
        )
    return found


def serving_frames(scenario: Scenario, block_size: int, slot_bytes: int) -> list[ServingFrame]:
    """Returns a frame before the first step and one after each step."""
    steps, played = scenario.steps(block_size), scenario.states(block_size)
    ends, colours = ends_of(steps), kv_cache.sequence_colours(played)
    frames, group = [_frame(None, played[0][0], [], scenario, colours, slot_bytes, 0)], 0
    for step, first, end in zip(steps, ends, ends[1:]):
        group += bool(step.freed or step.admitted)
        frames.append(_frame(step, played[end][0], played[first : end + 1], scenario, colours, slot_bytes, group))
    return frames


def _frame(
    step: Step | None,
    cache: KVCache,
    within: Sequence[State],
    scenario: Scenario,
    colours: dict[kv_cache.SequenceKey, str],
    slot_bytes: int,
    group: int,
) -> ServingFrame:
    """Returns the frame of a step. within: the states of the step, each with the change before it."""
    changes = changes_of(within)
    return {
        "tile": group,
        "title": f"Step {step.number}" if step else "Before the first step",
        "phase": "step",
        "before": step is None,
        "sentence": step_sentence(step, within, scenario) if step else opening_sentence(scenario, cache),
        **kv_cache.held(cache, colours),
        "new": [slot for change in changes for _, slot in change.written],
        "copies": [change.copied for change in changes if change.copied],
        "released": [page for change in changes for page in change.released if page in cache.free],
        "usage": kv_cache.usage_of(cache, scenario.max_len, prefixes_of(scenario)),
        "waste": waste_sentence(cache, scenario, slot_bytes),
        "waiting": step.waiting if step else (),
    }


def states(steps: Sequence[Step], frames: Sequence[ServingFrame], slot_bytes: int) -> list[stage.State]:
    """Returns the strip: tokens of the step by phase, slack in slots and bytes, reserved slots, free pages."""
    decoded = [0, *(len(step.decoded) for step in steps)]
    prefilled = [len(frame["new"]) - tokens for frame, tokens in zip(frames, decoded)]
    free = [len(frame["free"]) for frame in frames]
    usage = [frame["usage"] for frame in frames]
    bytes_ = [stage.State("slack", [u["slack"] * slot_bytes for u in usage], "B", deep=True)] if slot_bytes else []
    return [
        stage.State("tokens prefilled", prefilled, deep=True),
        stage.State("tokens decoded", decoded, deep=True),
        stage.State("empty slots", [u["slack"] for u in usage]),
        *bytes_,
        stage.State("held in pages", [u["held"] for u in usage], deep=True),
        stage.State("reserved contiguously", [u["reserved"] for u in usage], deep=True),
        stage.State("free pages", free, of=free[0]),
    ]


def requests_table(scenario: Scenario, block_size: int) -> pd.DataFrame:
    """Returns a row for each request: its tokens, its arrival, and its admission with pages and without."""
    steps = scenario.steps(block_size)
    with_pages, other = _admitted_at(steps), _admitted_at(_contiguous(scenario, steps) or ())
    rows = []
    for visit in scenario.visits:
        start = with_pages[visit.name]
        rows.append(
            {
                "request": visit.name,
                "forked from": visit.parent,
                "prompt": visit.prompt,
                "answer": visit.answer,
                "arrives at step": visit.arrives,
                "admitted at step": start,
                "waits": start - visit.arrives,
                "admitted without pages": other.get(visit.name),
                "waits without pages": other[visit.name] - visit.arrives if visit.name in other else None,
            }
        )
    return pd.DataFrame(rows).convert_dtypes()


def compared_sentence(scenario: Scenario, block_size: int) -> str:
    """Returns the number of steps with pages, and on a server with contiguous reservations."""
    steps = scenario.steps(block_size)
    other = _contiguous(scenario, steps)
    most = max(len(cache.sequences) for cache, _ in scenario.states(block_size))
    total = f"{count(most, 'sequence')} {'is' if most == 1 else 'are'} in the cache at once"
    pages = f"With pages, the last answer ends in step {len(steps)}, and up to {total}."
    if other is None:
        return f"{pages} Without pages, this pool cannot serve all requests."
    return (
        f"{pages} A server that reserves {scenario.max_len} slots for each request has room for "
        f"{scenario.slots // scenario.max_len}. Its last answer ends in step {len(other)}."
    )


def ends(scenario: Scenario, block_size: int) -> tuple[int, int | None]:
    """Returns the last step with pages, and with reserved slots: None if that cannot serve all requests."""
    steps = scenario.steps(block_size)
    other = _contiguous(scenario, steps)
    return len(steps), None if other is None else len(other)


def gain_sentence(scenario: Scenario, block_size: int) -> str:
    """Returns the gain of pages in steps."""
    paged, reserved = ends(scenario, block_size)
    if reserved is None:
        return "This pool cannot serve all requests without pages."
    return f"With pages, all answers end by step {paged}. With reserved slots they need {reserved} steps."


def _contiguous(scenario: Scenario, steps: tuple[Step, ...]) -> tuple[Step, ...] | None:
    """Returns the steps of a server without pages, None if it cannot serve these requests."""
    try:
        return serve(alone(scenario.visits, steps), scenario.slots // scenario.max_len, scenario.max_len)
    except ProblemError:
        return None


def _admitted_at(steps: Sequence[Step]) -> dict[str, int]:
    return {name: step.number for step in steps for name in step.admitted}


def prefixes_of(scenario: Scenario) -> set[str]:
    """Returns the names of the visits that only serve as a start for others."""
    return {visit.name for visit in scenario.visits if not visit.answer}


def opening_sentence(scenario: Scenario, cache: KVCache) -> str:
    first = sorted(prefixes_of(scenario))
    shares = "is a prompt" if len(first) == 1 else "are prompts"
    more = f" {listed(first)} {shares} that others share." if first else ""
    return (
        f"The pool has {count(cache.num_blocks, 'page')} of {cache.block_size} slots, all free. "
        f"{count(len(scenario.visits) - len(first), 'request')} will come.{more} A server that reserves "
        f"{scenario.max_len} slots for each request has room for {_at_once(scenario, cache)}."
    )


def _at_once(scenario: Scenario, cache: KVCache) -> int:
    """Returns the number of sequences of a server without pages in the same slots."""
    return cache.num_blocks * cache.block_size // scenario.max_len


def step_sentence(step: Step, within: Sequence[State], scenario: Scenario) -> str:
    """Returns the ends, tokens, admissions and waits of a step. within: as in serving._frame."""
    said = [
        *_ended(step, within, prefixes_of(scenario)),
        *_decoded(step, within),
        *(_admitted(name, step, within, scenario) for name in step.admitted),
        *_waits(step, len(within[-1][0].free)),
    ]
    return " ".join(said) if said else _idle(step, within[-1][0], scenario)


def changes_of(within: Sequence[State]) -> list[Change]:
    """Returns the changes between the states of a step."""
    return [change for _, change in within[1:] if change]


def _idle(step: Step, cache: KVCache, scenario: Scenario) -> str:
    """Returns the sentence of a step without events: the present sequences, if any."""
    names = [sequence.name for sequence in cache.sequences]
    if names:
        return f"{listed(names)} {'stays' if len(names) == 1 else 'stay'}, and nothing is written."
    came = any(visit.arrives < step.number for visit in scenario.visits)
    return "All requests have ended." if came else "No request is here yet."


def _ended(step: Step, within: Sequence[State], prefixes: Container[str]) -> list[str]:
    said = []
    for name in step.freed:
        change = next(c for c in changes_of(within) if c.event.action == "free" and c.event.name == name)
        before = within[0][0].find(name)
        kept = [page for page in before.table if page not in change.released]
        parts = []
        if change.released:
            are = "is" if len(change.released) == 1 else "are"
            parts.append(f"{_upper(kv_cache.pages_said(change.released))} {are} free.")
        if kept:
            stay = "stays" if len(kept) == 1 else "stay"
            parts.append(f"{_upper(kv_cache.pages_said(kept))} {stay} with others.")
        why = f"Nobody else shares {name}." if name in prefixes else f"{name} has ended."
        said.append(" ".join([why, *parts]))
    return said


def _decoded(step: Step, within: Sequence[State]) -> list[str]:
    if not step.decoded:
        return []
    taken = []
    for (cache, _), change in zip(within, changes_of(within)):
        if change.event.name in step.decoded and change.event.tokens == 1 and change.allocated:
            name, page, copied = change.event.name, change.allocated[0][1], ""
            if change.copied:
                others = [s.name for s in cache.sequences if change.copied[0] in s.table and s.name != name]
                copied = f" and copies page {change.copied[0]}, shared with {listed(others)}, into it"
            taken.append(f"{name} takes page {page}{copied}.")
    did = "decodes a token" if len(step.decoded) == 1 else "decode a token each"
    return [f"{listed(list(step.decoded))} {did}.", *taken]


def _admitted(name: str, step: Step, within: Sequence[State], scenario: Scenario) -> str:
    visit = next(v for v in scenario.visits if v.name == name)
    changes = [change for change in changes_of(within) if change.event.name == name]
    fork = next((c for c in changes if c.event.action == "fork"), None)
    filled = next((c for c in changes if c.written), None)
    waited = step.number - visit.arrives
    said = name + (f", after {count(waited, 'step')} of waiting," if waited else "")
    copied = filled.copied if filled else None
    if fork:
        shared = [page for page in fork.shared if not copied or page != copied[0]]
        shares = f" and shares its {kv_cache.pages_said(shared)}" if shared else ""
        copies = f" Page {copied[0]} is not full, so it is copied to page {copied[1]}." if copied else ""
        said += f" is a fork of {visit.parent}{shares}.{copies}"
    if not filled:
        begun = step.begun[step.admitted.index(name)]
        return f"{said} They hold {count(begun, 'token')}, and nothing is copied yet."
    pages = [page for _, page in filled.allocated]
    taken = f"in {kv_cache.pages_said(pages)}" if pages else "in slots that were left"
    return f"{said}{f' {name}' if fork else ''} is prefilled: {count(visit.prompt, 'token')} at once, {taken}."


def _waits(step: Step, free: int) -> list[str]:
    if not step.waiting:
        return []
    rest = step.waiting[1:]
    behind = f" Behind it {'waits' if len(rest) == 1 else 'wait'} {listed(list(rest))}." if rest else ""
    if step.sure < free:
        of = "it" if free == 1 else "them"
        pages = f". The pool has {count(free, 'free page')}, and the others may take {free - step.sure} of {of}"
    elif free:
        pages = f", and {count(free, 'page')} {'is' if free == 1 else 'are'} free"
    else:
        pages = ", and no page is free"
    return [f"{step.waiting[0]} waits. It may need {count(step.needed, 'page')}{pages}.{behind}"]


def _upper(said: str) -> str:
    return said[0].upper() + said[1:]


def waste_sentence(cache: KVCache, scenario: Scenario, slot_bytes: int) -> str:
    """Returns the waste of pages and of reservations, as shares and in bytes of K and V."""
    prefixes, max_len = prefixes_of(scenario), scenario.max_len
    usage = kv_cache.usage_of(cache, max_len, prefixes)
    if not usage["held"]:
        return "Nothing is held."

    def share(wasted: int, of: int, more: str) -> str:
        return f"{wasted / of:.0%}" + (f", {wasted * slot_bytes:,} bytes{more}" if slot_bytes else "")

    said = f"Last pages waste {share(usage['slack'], usage['held'], ' of K and V')}"
    served = sum(s.name not in prefixes for s in cache.sequences)
    if not served:
        return f"{said}."
    each = "the request" if served == 1 else "each request"
    return (
        f"{said}. With {max_len} slots reserved for {each}, {share(usage['empty'], usage['reserved'], '')} are empty."
    )


def asked(scenario: Scenario, block_size: int) -> dict[str, object]:
    """The names for the questions: the requests at once, the copies of the first fork, and the first wait.

    busiest: a step with the most requests, before the fork if possible.
    fork, wait: None if no request is forked, or none waits while pages are free.
    """
    frames = serving_frames(scenario, block_size, 0)
    visits = visits_of(scenario, scenario.steps(block_size), scenario.states(block_size))
    answered = {visit["name"] for visit in visits if visit["answer"]}
    present = [sum(s["name"] in answered for s in frame["sequences"]) for frame in frames]
    forked = next((visit for visit in visits if not visit["prompt"] and visit["parent"]), None)
    first = min((v["start"] for v in visits if not v["prompt"] and v["parent"]), default=len(frames))
    most = max(present[:first])  # the question on the fork is the next one, so none is in sight yet
    busiest = first - 1 if forked and present[first - 1] == most else present.index(most)
    tables = [sequence["table"] for sequence in frames[busiest]["sequences"]]
    waits = next((n for n, frame in enumerate(frames) if frame["waiting"] and frame["free"]), None)
    names: dict[str, object] = {
        **{"view": "serving", "max_len": scenario.max_len, "answered": len(answered), "pool": len(frames[0]["free"])},
        **{"most": most, "busiest": busiest, "usage": frames[busiest]["usage"]},
        "reserved": len(frames[0]["free"]) * block_size // scenario.max_len,
        **{"needed": sum(map(len, tables)), "held": len({page for table in tables for page in table})},
        **{"fork": None, "wait": None},
    }
    if forked:
        step = forked["start"]
        pages = next(s["table"] for s in frames[step]["sequences"] if s["name"] == forked["name"])
        later = range(step + 1, len(frames))
        copied = next((n for n in later if any(source == pages[-1] for source, _ in frames[n]["copies"])), None)
        names["fork"] = {
            **{"name": forked["name"], "parent": forked["parent"], "step": step, "copied": copied},
            **{"pages": [str(page) for page in pages], "covers": [{"page": page} for page in pages]},
        }
    if waits is not None:
        name = frames[waits]["waiting"][0]
        start = next(visit["start"] for visit in visits if visit["name"] == name)
        names["wait"] = {"step": waits, "name": name, "free": len(frames[waits]["free"]), "start": start}
    return names

"""A serving scenario over a paged KV cache: requests on one axis of steps, and the pool below.

No kernel runs. A scheduler plays the block manager. The comparison without pages uses the same scheduler, with pages as
large as the reservation of a request, and nothing shared.
"""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from explainers.charts.palette import PHASES
from explainers.stories.block_table import kv_cache
from explainers.stories.block_table.kv_cache import State
from explainers.stories.block_table.paging import WORDS
from explainers.stories.block_table.subjects import Serving
from explainers.story import scene, stage
from explainers.story.glossary import listed
from explainers.story.scene import Group, Lane, Lanes, Link, Span
from explainers.story.words import Names, Row
from kernels.errors import ProblemError
from kernels.kv_cache.layout import Layout
from kernels.kv_cache.manager import Change
from kernels.kv_cache.scenarios import Scenario
from kernels.kv_cache.scheduler import Step, alone, serve


def stage_of(scenario: Scenario, block_size: int, layout: Layout | None) -> stage.Stage:
    """The whole stage, with a step for each of the scheduler's steps and one before them.

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
    gain = compared(scenario, block_size)
    requests = [
        stage.text(WORDS.say("compared", gain)),
        stage.table(requests_table(scenario, block_size), "In steps. A request waits until the server admits it."),
        stage.text(WORDS.say("limits", {})),
    ]
    return stage.Stage(
        headline=f"{scenario.title}. {scenario.about}",
        frames=kv_cache.stage_frames(frames),
        views=[picture(frames, visits, scenario, layout, slot_bytes)],
        state=states(steps, frames, slot_bytes),
        tabs=[
            stage.Tab("requests", "Requests, with and without pages", requests),
            stage.Tab("usage", "Slots over time", [usage]),
            stage.Tab("own", "Change the requests", [stage.live("requests", {"visits": visits})]),
        ],
        provenance=stage.Provenance("modelled", WORDS.say("serving_model", {})),
        summary=WORDS.say("gain_of_serving", gain),
        questions=WORDS.questions(asked(scenario, block_size), len(frames) - 1),
        step_choice="moment",
        step_values=ends,
    )


def picture(
    frames: Sequence[Names], visits: list[Row], scenario: Scenario, layout: Layout | None, slot_bytes: int
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


def _lane(visit: Names, frames: Sequence[Names], size: int, slot_bytes: int) -> Lane:
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
        moments=[WORDS.say("moment", {**visit, "step": step}) for step in range(1, len(frames))],
    )


def _spans(row: int, visit: Names, steps: int) -> list[Span]:
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


def ends_of(steps: Sequence[Step]) -> list[int]:
    """The number of events before the first step, and after each step."""
    ends = [0]
    for step in steps:
        ends.append(ends[-1] + len(step.events))
    return ends


def visits_of(scenario: Scenario, steps: Sequence[Step], played: Sequence[State]) -> list[Row]:
    """A row for each request, in the order of the scenario, with steps of the scheduler.

    arrives, start, end, gone: its arrival, its admission, its last token and the free of its pages (None if it stays).
    prompt, answer: tokens. shared: tokens that it takes over from its parent.
    """
    colours = {key[0]: colour for key, colour in kv_cache.sequence_colours(played).items()}
    found: list[Row] = []
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


def serving_frames(scenario: Scenario, block_size: int, slot_bytes: int) -> list[Row]:
    """A row before the first step and one after each step, with its words: the content of the cache (kv_cache.held),
    and what the step did.

    new, copies, released, usage, waste: as in kv_cache.cache_frames. waiting: the requests before admission.
    slot_bytes: of K and V of a token, or 0.
    """
    steps, played = scenario.steps(block_size), scenario.states(block_size)
    ends, colours = ends_of(steps), kv_cache.sequence_colours(played)
    rows = [_row(None, played[:1], scenario, colours)]
    group = 0
    for step, first, end in zip(steps, ends, ends[1:]):
        group += bool(step.freed or step.admitted)
        rows.append({**_row(step, played[first : end + 1], scenario, colours), "tile": group})
    names = {"slot_bytes": slot_bytes, "max_len": scenario.max_len, "pages_said": kv_cache.pages_said}
    for row in rows:
        row["waste"] = WORDS.say("waste", {**names, **row})
    frames = WORDS.frames(rows, {"view": "serving", **names})
    return [{**row, **frame} for row, frame in zip(rows, frames)]


def _row(
    step: Step | None, within: Sequence[State], scenario: Scenario, colours: dict[kv_cache.SequenceKey, str]
) -> Row:
    """The row of a step. within: the states of the step, each with the change before it."""
    cache, prefixes = within[-1][0], prefixes_of(scenario)
    changes = [change for _, change in within[1:] if change]
    copies = [change.copied for change in changes if change.copied]
    usage = kv_cache.usage_of(cache, scenario.max_len, prefixes)
    row: Row = {
        **{"tile": 0, "phase": "step", "before": step is None, "waiting": step.waiting if step else ()},
        **kv_cache.held(cache, colours),
        **{"new": [slot for change in changes for _, slot in change.written], "copies": copies, "usage": usage},
        "released": [page for change in changes for page in change.released if page in cache.free],
        "served": sum(sequence.name not in prefixes for sequence in cache.sequences),
    }
    if step is None:
        shared, pool = sorted(prefixes), {"pool": cache.num_blocks, "size": cache.block_size}
        at_once = cache.num_blocks * cache.block_size // scenario.max_len
        return row | {**pool, "first": shared, "come": len(scenario.visits) - len(shared), "at_once": at_once}
    taken = []
    for (state, _), change in zip(within, changes):
        if change.event.name in step.decoded and change.event.tokens == 1 and change.allocated:
            name, source = change.event.name, change.copied and change.copied[0]
            others = [s.name for s in state.sequences if source in s.table and s.name != name]
            taken.append({"name": name, "page": change.allocated[0][1], "copied": source, "others": others})
    row |= {"number": step.number, "decoded": [*step.decoded], "taken": taken, "needed": step.needed}
    row |= {"ended": [_ended(name, within, changes, name in prefixes) for name in step.freed], "sure": step.sure}
    row["admitted"] = [_admitted(name, step, changes, scenario) for name in step.admitted]
    return row | {"came": any(visit.arrives < step.number for visit in scenario.visits)}


def _ended(name: str, within: Sequence[State], changes: Sequence[Change], prefix: bool) -> Row:
    """The end of a request: the pages that it frees, and the ones that others keep."""
    change = next(c for c in changes if c.event.action == "free" and c.event.name == name)
    kept = [page for page in within[0][0].find(name).table if page not in change.released]
    return {"name": name, "prefix": prefix, "released": change.released, "kept": kept}


def _admitted(name: str, step: Step, changes: Sequence[Change], scenario: Scenario) -> Row:
    """The start of a request: its parent and their shared pages if it is a fork, and its prompt in new pages."""
    visit = next(visit for visit in scenario.visits if visit.name == name)
    own = [change for change in changes if change.event.name == name]
    fork = next((change for change in own if change.event.action == "fork"), None)
    filled = next((change for change in own if change.written), None)
    copied = filled.copied if filled else None
    return {
        **{"name": name, "waited": step.number - visit.arrives, "fork": fork is not None, "parent": visit.parent},
        "shared": [page for page in fork.shared if not copied or page != copied[0]] if fork else [],
        **{"copied": copied, "filled": filled is not None, "prompt": visit.prompt},
        "pages": [page for _, page in filled.allocated] if filled else [],
        "begun": step.begun[step.admitted.index(name)],
    }


def states(steps: Sequence[Step], frames: Sequence[Names], slot_bytes: int) -> list[stage.State]:
    """The strip: tokens of the step by phase, slack in slots and bytes, reserved slots, free pages."""
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
    """A row for each request: its tokens, its arrival, and its admission with pages and without."""
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


def compared(scenario: Scenario, block_size: int) -> Row:
    """The last step with pages, and on a server with contiguous reservations (None if it cannot serve all)."""
    last, other = ends(scenario, block_size)
    most = max(len(cache.sequences) for cache, _ in scenario.states(block_size))
    at_once = scenario.slots // scenario.max_len
    return {"last": last, "other": other, "most": most, "max_len": scenario.max_len, "at_once": at_once}


def ends(scenario: Scenario, block_size: int) -> tuple[int, int | None]:
    """The last step with pages, and with reserved slots: None if that cannot serve all requests."""
    steps = scenario.steps(block_size)
    other = _contiguous(scenario, steps)
    return len(steps), None if other is None else len(other)


def _contiguous(scenario: Scenario, steps: tuple[Step, ...]) -> tuple[Step, ...] | None:
    """The steps of a server without pages, None if it cannot serve these requests."""
    try:
        return serve(alone(scenario.visits, steps), scenario.slots // scenario.max_len, scenario.max_len)
    except ProblemError:
        return None


def _admitted_at(steps: Sequence[Step]) -> dict[str, int]:
    return {name: step.number for step in steps for name in step.admitted}


def prefixes_of(scenario: Scenario) -> set[str]:
    """The names of the visits that only serve as a start for others."""
    return {visit.name for visit in scenario.visits if not visit.answer}


def asked(scenario: Scenario, block_size: int) -> Row:
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
    names: Row = {
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


# ---- the text of a model that answers the requests ----

SPACE = "\u00b7"
DEVICES = {"cpu": "cpu", "gpu": "cuda"}  # backend -> torch's device


def with_text(result: stage.Stage, subject: Serving) -> stage.Stage:
    """The stage of a served cache with the characters of each step, and a tab with the answers.

    The model runs the operators of kernels/ops on the cache's pages. Without a compiler and a GPU, torch's attention
    over contiguous keys makes the text, and the tab reports it.
    """
    from kernels.ops.generation import generate  # it imports torch, and the web process runs no model

    scenario, size = subject.scenario, subject.block_size
    texts, device = dict(scenario.texts), DEVICES.get(subject.backend, "")
    made = generate(scenario.visits, texts, scenario.slots // size, size, device)
    for frame, chosen in zip(result.frames[1:], made.chosen):
        if chosen:
            said = [f'"{_seen(character)}" for {name}' for name, character in chosen]
            frame["sentence"] += f" The model chooses {listed(said)}."
    table = pd.DataFrame(
        [
            {
                "request": name,
                "prompt": made.prompts[name],
                "generated text": _seen(text),
                "tokens of the prompt": len(made.prompts[name]),
                "reused": made.reused.get(name, 0),
                "computed": len(texts[name]),
            }
            for name, text in made.texts.items()
        ]
    )
    names = {"space": SPACE, "equal": made.equal, "reused": [*made.reused], "tokens": sum(made.reused.values())}
    names["total"] = int(table["tokens of the prompt"].sum())
    checked = WORDS.say("checked", names)
    if made.equal is False:
        verdict = stage.note(checked, "bad")
    else:
        label = "executed" if subject.backend == "cpu" else "measured"
        verdict = stage.text(checked, label) if made.equal else stage.text(checked)
    blocks = [stage.text(WORDS.say("model", names)), stage.table(table, WORDS.say("reused_tokens", names)), verdict]
    summary = f"{result.summary} {WORDS.say('reused', names)}"
    return replace(result, tabs=[stage.Tab("text", "Generated text", blocks), *result.tabs], summary=summary)


def _seen(text: str) -> str:
    return text.replace(" ", SPACE)

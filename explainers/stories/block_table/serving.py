"""A serving scenario over a paged KV cache: requests that arrive, are prefilled, decode token by token, fork and end,
one above the other on one axis of steps, and the pool beneath as it stands after each step.

Nothing runs for it: a scheduler (kernels/families/paged/serving.py) plays the block manager. What a server without
pages would do is the same scheduler with pages of as many slots as that reserves for each request, and nothing shared.
"""

from collections.abc import Container, Sequence
from typing import Any

import pandas as pd

from explainers.stories.block_table import kv_cache
from explainers.stories.tiling.tiling import listed
from explainers.story import stage
from explainers.story.frames import ServedVisit, ServingFrame, ServingMeta
from explainers.story.glossary import count
from kernels.errors import ProblemError
from kernels.families.paged.scenarios import Scenario
from kernels.families.paged.serving import Step, alone, serve

LIMITS = (
    "This scheduler is simpler than a server's: it admits a request when the pages for its last token are sure to be "
    "free, and prefills a prompt whole. vLLM admits one when the pages of its next tokens are free, prefills a long "
    "prompt in parts, and preempts a request when pages run out: it frees its pages and computes them again later. Of "
    "a prefix it shares full pages alone; here the last one, not full, is copied on write, as in the paper on "
    "PagedAttention."
)


def stage_of(scenario: Scenario, block_size: int, layout: Any) -> stage.Stage:
    """The whole stage: a step is one of the scheduler's, the first before all of them. layout: of the cache, None where
    no kernel can run on it."""
    steps, played, max_len = scenario.steps(block_size), scenario.states(block_size), scenario.max_len
    ends = ends_of(steps)
    slot_bytes = 2 * layout.num_kv_heads * layout.page_bytes // block_size if layout else 0
    frames = serving_frames(scenario, block_size, slot_bytes)
    visits = visits_of(scenario, steps, played)
    prefixes = prefixes_of(scenario)
    meta: ServingMeta = {
        "frames": frames,
        "visits": visits,
        "size": block_size,
        "max_len": max_len,
        "slot_bytes": slot_bytes,
    }
    at_ends = [played[end] for end in ends]
    usage = stage.chart(
        kv_cache.usage_chart(kv_cache.usage_table(at_ends, max_len, prefixes), "step"),
        "Slots used, held in pages and reserved contiguously after each step; a rule marks the step",
        f"After the last step. {frames[-1]['waste']}",
        f"Slots after each step; contiguous: {max_len} reserved for each request",
    )
    compared = [
        stage.text(compared_sentence(scenario, block_size)),
        stage.table(requests_table(scenario, block_size), "Of steps: a request waits until it is admitted."),
        stage.text(LIMITS),
    ]
    return stage.Stage(
        headline=f"{scenario.title}. {scenario.about}",
        frames=frames,
        views=[stage.View("serving", "serving", "Serving", meta)],
        state=states(steps, frames, slot_bytes),
        tabs=[
            stage.Tab("requests", "Requests, with and without pages", compared),
            stage.Tab("usage", "Slots over time", [usage]),
            stage.Tab("own", "Change the requests", [stage.live("requests", {"visits": visits})]),
        ],
        provenance=stage.Provenance(
            "modelled",
            "The scheduler and the block manager of kernels/families/paged, played step by step; the kernels are "
            "handed its tables as they are. Nothing ran for this picture.",
        ),
        step_choice="moment",
        step_values=ends,
    )


def ends_of(steps: Sequence[Step]) -> list[int]:
    """How many events have been played before the first step, and after each."""
    ends = [0]
    for step in steps:
        ends.append(ends[-1] + len(step.events))
    return ends


def visits_of(scenario: Scenario, steps: Sequence[Step], played: kv_cache.States) -> list[ServedVisit]:
    """Every request with the steps in which its phases begin and end, in the order of the scenario."""
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
    """One frame before the first step and one after each."""
    steps, played = scenario.steps(block_size), scenario.states(block_size)
    ends, colours = ends_of(steps), kv_cache.sequence_colours(played)
    frames, group = [_frame(None, played[0][0], [], scenario, colours, slot_bytes, 0)], 0
    for step, begin, end in zip(steps, ends, ends[1:]):
        group += bool(step.freed or step.admitted)
        frames.append(_frame(step, played[end][0], played[begin : end + 1], scenario, colours, slot_bytes, group))
    return frames


def _frame(
    step: Step | None, cache: Any, within: Any, scenario: Scenario, colours: dict, slot_bytes: int, group: int
) -> ServingFrame:
    """within: the states from the step's beginning to its end, with the change that led to each."""
    changes = [change for _, change in within[1:]]
    return {
        "tile": group,
        "title": f"Step {step.number}" if step else "Before the first step",
        "phase": "step",
        "sentence": step_sentence(step, within, scenario) if step else _beginning(scenario, cache),
        **kv_cache.held(cache, colours),
        "new": [slot for change in changes for _, slot in change.written],
        "copied": [change.copied for change in changes if change.copied],
        "released": [page for change in changes for page in change.released if page in cache.free],
        "usage": kv_cache.usage_of(cache, scenario.max_len, prefixes_of(scenario)),
        "waste": waste_sentence(cache, scenario, slot_bytes),
        "waiting": step.waiting if step else (),
    }


def prefixes_of(scenario: Scenario) -> set[str]:
    """Who is only there to be begun with."""
    return {visit.name for visit in scenario.visits if not visit.answer}


def _beginning(scenario: Scenario, cache: Any) -> str:
    first = sorted(prefixes_of(scenario))
    more = f", and {listed(first)}, which others are forked from" if first else ""
    return (
        f"The pool has {count(cache.num_blocks, 'page')} of {cache.block_size} slots, all free. "
        f"{count(len(scenario.visits) - len(first), 'request')} will come{more}. A server that reserves "
        f"{scenario.max_len} slots for each request has room for {_at_once(scenario, cache)} of them at once."
    )


def _at_once(scenario: Scenario, cache: Any) -> int:
    """How many sequences a server without pages can hold in the same slots."""
    return cache.num_blocks * cache.block_size // scenario.max_len


# ---- sentences ----


def step_sentence(step: Step, within: Any, scenario: Scenario) -> str:
    """What a step did: who ended, who wrote a token, who was admitted, who waits. within: as _frame takes it."""
    said = [
        *_ended(step, within, prefixes_of(scenario)),
        *_decoded(step, within),
        *(_admitted(name, step, within, scenario) for name in step.admitted),
        *_waits(step, len(within[-1][0].free)),
    ]
    return " ".join(said) if said else _idle(step, within[-1][0], scenario)


def _idle(step: Step, cache: Any, scenario: Scenario) -> str:
    """Of a step in which nothing happens and nobody waits: who is there, or whether anybody has been."""
    if names := [s.name for s in cache.sequences]:
        return f"{listed(names)} {'stays' if len(names) == 1 else 'stay'}; nothing is written."
    came = any(visit.arrives < step.number for visit in scenario.visits)
    return "Nobody is here any more: all who came have ended." if came else "Nobody is here yet."


def _ended(step: Step, within: Any, prefixes: Container[str]) -> list[str]:
    said = []
    for name in step.freed:
        change = next(c for _, c in within[1:] if c.event.action == "free" and c.event.name == name)
        before = within[0][0].find(name)
        kept = [page for page in before.table if page not in change.released]
        go = f"{kv_cache.pages_said(change.released)} {'is' if len(change.released) == 1 else 'are'} free"
        stays = f"{kv_cache.pages_said(kept)} {'stays' if len(kept) == 1 else 'stay'} with others"
        parts = [part for part, there in ((go, change.released), (stays, kept)) if there]
        why = f"Nobody else will be forked from {name}" if name in prefixes else f"{name} has ended"
        said.append(f"{why}: {'; '.join(parts)}.")
    return said


def _decoded(step: Step, within: Any) -> list[str]:
    if not step.decoded:
        return []
    taken = []
    for (cache, _), (_, change) in zip(within, within[1:]):
        if change.event.name in step.decoded and change.event.tokens == 1 and change.allocated:
            name, page, copied = change.event.name, change.allocated[0][1], ""
            if change.copied:
                others = [s.name for s in cache.sequences if change.copied[0] in s.table and s.name != name]
                copied = f" and copies page {change.copied[0]}, which it shares with {listed(others)}, into it"
            taken.append(f"{name} takes page {page}{copied}")
    did = "decodes a token" if len(step.decoded) == 1 else "decode a token each"
    return [f"{listed(list(step.decoded))} {did}{''.join(f'; {page}' for page in taken)}."]


def _admitted(name: str, step: Step, within: Any, scenario: Scenario) -> str:
    visit = next(v for v in scenario.visits if v.name == name)
    changes = [c for _, c in within[1:] if c.event.name == name]
    fork = next((c for c in changes if c.event.action == "fork"), None)
    filled = next((c for c in changes if c.written), None)
    waited = step.number - visit.arrives
    said = name + (f", after {count(waited, 'step')} of waiting," if waited else "")
    copied = filled.copied if filled else None
    if fork:
        shared = [page for page in fork.shared if not copied or page != copied[0]]
        shares = f" and shares its {kv_cache.pages_said(shared)}" if shared else ""
        copies = f"; page {copied[0]}, not full, is copied to {copied[1]}" if copied else ""
        said += f" is forked from {visit.parent}{shares}{copies}."
    if not filled:
        begun = step.begun[step.admitted.index(name)]
        return f"{said} They hold {count(begun, 'token')}; nothing is copied yet."
    pages = [page for _, page in filled.allocated]
    taken = f" in {kv_cache.pages_said(pages)}" if pages else " in slots that were left"
    return f"{said}{' It' if fork else ''} is prefilled: {count(visit.prompt, 'token')} at once,{taken}."


def _waits(step: Step, free: int) -> list[str]:
    if not step.waiting:
        return []
    rest = step.waiting[1:]
    behind = f" Behind it {'waits' if len(rest) == 1 else 'wait'} {listed(list(rest))}." if rest else ""
    there = f"{count(free, 'page')} {'is' if free == 1 else 'are'} free" if free else "no page is free"
    if step.sure < free:
        there = f"of {count(free, 'free page')} the others may still take {free - step.sure}"
    return [f"{step.waiting[0]} waits: it may come to need {count(step.needed, 'page')}, and {there}.{behind}"]


def waste_sentence(cache: Any, scenario: Scenario, slot_bytes: int) -> str:
    """The waste of both ways: of what is held, and in bytes of K and V."""
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
    each = "1 request" if served == 1 else f"each of {served} requests"
    return f"{said}; {max_len} slots reserved for {each} would waste {share(usage['empty'], usage['reserved'], '')}."


# ---- strip and tables ----


def states(steps: Sequence[Step], frames: Sequence[ServingFrame], slot_bytes: int) -> list[stage.State]:
    """The strip: tokens written in the step by phase, slack in slots and bytes, slots that would be reserved, free
    pages."""
    decoded = [0, *(len(step.decoded) for step in steps)]
    prefilled = [len(frame["new"]) - tokens for frame, tokens in zip(frames, decoded)]
    free = [len(frame["free"]) for frame in frames]
    usage = [frame["usage"] for frame in frames]
    bytes_ = [stage.State("slack", [u["slack"] * slot_bytes for u in usage], "B")] if slot_bytes else []
    return [
        stage.State("tokens prefilled", prefilled),
        stage.State("tokens decoded", decoded),
        stage.State("slack slots", [u["slack"] for u in usage]),
        *bytes_,
        stage.State("held in pages", [u["held"] for u in usage]),
        stage.State("reserved contiguously", [u["reserved"] for u in usage]),
        stage.State("free pages", free, of=free[0]),
    ]


def requests_table(scenario: Scenario, block_size: int) -> pd.DataFrame:
    """A row for each request: its tokens, when it came, and when it was admitted with pages and without."""
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
    """How many steps the requests take with pages, and on a server that reserves contiguous slots."""
    steps = scenario.steps(block_size)
    other = _contiguous(scenario, steps)
    most = max(len(cache.sequences) for cache, _ in scenario.states(block_size))
    there = f"{count(most, 'sequence')} {'is' if most == 1 else 'are'} there at once"
    pages = f"With pages the last token is written in step {len(steps)}, and up to {there}."
    if other is None:
        return f"{pages} Without pages they cannot all be served in this pool."
    return (
        f"{pages} A server that gives each {scenario.max_len} neighbouring slots for itself, and shares none, has room "
        f"for {scenario.slots // scenario.max_len} at once: the same scheduler then writes the last token in step "
        f"{len(other)}."
    )


def _contiguous(scenario: Scenario, steps: tuple[Step, ...]) -> tuple[Step, ...] | None:
    """The steps of a server without pages; None where it cannot serve these requests."""
    try:
        return serve(alone(scenario.visits, steps), scenario.slots // scenario.max_len, scenario.max_len)
    except ProblemError:
        return None


def _admitted_at(steps: Sequence[Step]) -> dict[str, int]:
    return {name: step.number for step in steps for name in step.admitted}

"""A serving scenario over a paged KV cache: requests on one axis of steps, and the pool below.

No kernel runs. A scheduler plays the block manager. The comparison without pages uses the same scheduler, with pages as
large as the reservation of a request, and nothing shared.
"""

from collections.abc import Sequence

import pandas as pd

from explainers.stories.block_table import kv_cache
from explainers.stories.block_table.cache_types import ServedVisit, ServingFrame, ServingMeta
from explainers.stories.block_table.serving_sentences import (
    changes_of,
    opening_sentence,
    prefixes_of,
    step_sentence,
    waste_sentence,
)
from explainers.story import stage
from explainers.story.glossary import count
from kernels.errors import ProblemError
from kernels.kv_cache.layout import Layout
from kernels.kv_cache.manager import KVCache
from kernels.kv_cache.scenarios import Scenario
from kernels.kv_cache.scheduler import Step, alone, serve

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
            "The scheduler and the block manager of kernels/kv_cache, step by step. The kernels take its tables as "
            "they are. Nothing ran for this picture.",
        ),
        summary=gain_sentence(scenario, block_size),
        step_choice="moment",
        step_values=ends,
    )


def ends_of(steps: Sequence[Step]) -> list[int]:
    """Returns the number of events before the first step, and after each step."""
    ends = [0]
    for step in steps:
        ends.append(ends[-1] + len(step.events))
    return ends


def visits_of(scenario: Scenario, steps: Sequence[Step], played: Sequence[kv_cache.State]) -> list[ServedVisit]:
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
    within: Sequence[kv_cache.State],
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
        "copied": [change.copied for change in changes if change.copied],
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

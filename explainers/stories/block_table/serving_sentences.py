"""The steps of a serving scenario in sentences."""

from collections.abc import Container, Sequence

from explainers.stories.block_table import kv_cache
from explainers.stories.block_table.kv_cache import State
from explainers.story.glossary import count, listed
from kernels.kv_cache.manager import Change, KVCache
from kernels.kv_cache.scenarios import Scenario
from kernels.kv_cache.scheduler import Step


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

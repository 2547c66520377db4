"""The most telling evidence of a wrong kernel, from the faults and reasons of all its problems.

check, the Workbench and the grades of exercises show the same evidence.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from kernels.run.plain.faults import Fault
from kernels.run.wrong.found import KINDS, Reason

BUILD, ENDLESS, HIDDEN = "does not compile", "endless loop", "hidden access"
UNRECORDED = ("static", "hidden store")
"""Kinds of accesses without a record. The races and counts of a kernel are then unknown."""
TELLING = (
    HIDDEN,
    *UNRECORDED,
    "divergent barrier",
    "divergent",
    "out of bounds",
    ENDLESS,
    "deadlock",
    "missing wait",
    "wait",
    "atomic",
    "barrier",
    "race",
    "unwritten read",
    "unset",
)
"""Kinds that explain others, first."""
_SAME = (
    *(("race", "warp race"), ("atomic", "block race"), ("divergent barrier", "divergent")),
    *(("missing wait", "wait"), ("unwritten read", "unset")),
)
"""Two kinds of one mistake: the second is left out next to the first."""


@dataclass(frozen=True)
class Evidence:
    """A found fault of a kernel.

    kind: of a fault (run/plain/faults.py), of a wrong result (run/wrong/found.py), or BUILD.
    text: a sentence.
    lines: of the kernel, or ()."""

    kind: str
    text: str
    lines: tuple[int, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "lines": list(self.lines)}


def evidence_of(faults: Iterable[Fault], reason: Reason | None) -> Iterator[Evidence]:
    """The faults with their lines, and the reason of a wrong result."""
    if reason:
        lines = lines_of(reason.sentence) or ((reason.line,) if reason.line else ())
        yield Evidence(reason.kind, reason.sentence, lines)
    for fault in faults:
        if fault.level == "error" or fault.kind in UNRECORDED:
            yield Evidence(fault.kind, fault.text, fault.lines)


def once(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """The first of each kind, the most telling first. Among several reasons, only the most frequent ones stay."""
    every, kept = list(evidence), dict[str, Evidence]()
    for one in every:
        kept.setdefault(one.kind, one)
    if len(kept) > 1:
        kept.pop("unknown", None)
    reasons = Counter(one.kind for one in every if one.kind in KINDS and one.kind in kept)
    for kind in [kind for kind, count in reasons.items() if count < max(reasons.values()) and kind not in TELLING]:
        kept.pop(kind)  # large scores may look like another mistake
    for told, again in _SAME:
        if told in kept:
            kept.pop(again, None)
    order = {kind: number for number, kind in enumerate(TELLING)}
    return tuple(sorted(kept.values(), key=lambda one: order.get(one.kind, len(order))))


def lines_of(sentence: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(line) for line in re.findall(r"\bline (\d+)", sentence, re.I)))

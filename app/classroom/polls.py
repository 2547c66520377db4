"""A question to the class: its answers, counts and time, and the file with all answers."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

COLUMNS = ("time (UTC)", "page", "question", "text", "answer", "count")


@dataclass
class Poll:
    """A question to the class.

    number: counts the questions of a room, from 1.
    asked: seconds since the epoch.
    story, question, kind, options, text, texts: messages.question.
    open: the answer is not shown yet.
    locked: no more votes.
    until: the end of its timer in seconds since the epoch, or None.
    answers: browser -> its answer, anonymous. A second answer replaces the first.
    """

    number: int
    asked: float
    story: str
    question: str
    kind: str
    options: int
    text: str = ""
    texts: list[str] = field(default_factory=list)
    open: bool = True
    locked: bool = False
    until: float | None = None
    answers: dict[str, float | bool] = field(default_factory=dict)

    def over(self, now: float) -> bool:
        """Whether the time of its timer is over."""
        return self.until is not None and now >= self.until

    def for_all(self, now: float) -> dict[str, object]:
        """Its state for each participant. left: seconds of its timer, or None."""
        names = ("number", "story", "question", "kind", "open", "locked")
        left = None if self.until is None else max(0.0, round(self.until - now, 1))
        return {name: getattr(self, name) for name in names} | {"left": left}

    def for_leader(self, now: float) -> dict[str, object]:
        return self.for_all(now) | {"counts": self.counts(), "answers": len(self.answers)}

    def counts(self) -> list[list[Any]]:
        """[[answer, count], ...]: all options in their order, or the given numbers by size."""
        found = Counter(self.answers.values())
        if self.kind == "options":
            return [[n, found[n]] for n in range(self.options)]
        if self.kind == "click":
            return [[right, found[right]] for right in (True, False)]
        return [[value, found[value]] for value in sorted(found)]

    def row(self) -> dict[str, Any]:
        """Its words and counts, for the file."""
        counts = [[self._worded(answer), count] for answer, count in self.counts()]
        return {"asked": self.asked, "story": self.story, "question": self.question, "text": self.text} | {
            "counts": counts
        }

    def _worded(self, answer: float | bool) -> str:
        if self.kind == "options":
            return self.texts[int(answer)] if int(answer) < len(self.texts) else f"option {int(answer) + 1}"
        if self.kind == "click":
            return "the right place" if answer else "another place"
        return f"{answer:.15g}"


def as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """A line for each question and answer."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in rows:
        asked = datetime.fromtimestamp(row["asked"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        for answer, count in row["counts"]:
            writer.writerow([asked, row["story"], row["question"], row["text"], answer, count])
    return made.getvalue()

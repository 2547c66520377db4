"""A class: its participants, the leader's moment, and the question."""

import asyncio
import json
import time
from dataclasses import dataclass, field

from app.classroom.polls import Poll


class Seat:
    """One participant of a room. It reads the newest state after each `news`.

    known: the server issued the id `who` to the browser
    """

    def __init__(self, who: str, leads: bool, address: str = "", known: bool = True):
        self.who, self.leads, self.address, self.known = who, leads, address, known
        self.gone = False  # replaced by another connection of this browser
        self.news = asyncio.Event()
        self.news.set()


@dataclass(eq=False)
class Room:
    """One class.

    code: entered by followers
    secret: SHA-256 of the leader's secret
    opened: seconds since the epoch
    led: time of a leader's last presence, in seconds since the epoch
    at: {link, step, pin} of the present moment
    past: the questions before, with their counts (Poll.row).
    voters: browser -> its address, for each answer. No file stores it.
    """

    code: str
    secret: str
    opened: float
    led: float
    at: dict[str, object] | None = None
    poll: Poll | None = None
    polls: int = 0
    past: list[dict[str, object]] = field(default_factory=list)
    ended: str = ""
    seats: set[Seat] = field(default_factory=set)
    voters: dict[str, str] = field(default_factory=dict)
    _text: str = ""  # the last JSON for followers

    @property
    def leaders(self) -> int:
        return sum(seat.leads for seat in self.seats)

    @property
    def followers(self) -> int:
        return len(self.seats) - self.leaders

    def state_for(self, seat: Seat, now: float | None = None) -> str:
        """The present state for a seat, as JSON. now: seconds since the epoch."""
        now = time.time() if now is None else now
        if seat.leads:
            poll = self.poll and self.poll.for_leader(now)
            asked = len(self.past) + (self.poll is not None)
            return as_json({"leads": True, "followers": self.followers, "at": self.at, "poll": poll, "asked": asked})
        if not self._text or (self.poll and self.poll.until):  # the time left differs at each moment
            poll = self.poll and self.poll.for_all(now)
            self._text = as_json({"at": self.at, "poll": poll, "led": self.leaders > 0})
        return self._text

    def wake(self, followers: bool = True) -> None:
        """Wakes all seats, or only the leaders."""
        if followers:
            self._text = ""
        for seat in self.seats:
            if followers or seat.leads:
                seat.news.set()


def as_json(value: object) -> str:
    """JSON for browsers, without NaN."""
    return json.dumps(value, allow_nan=False)

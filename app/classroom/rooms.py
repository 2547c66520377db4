"""Rooms: a leader shows a moment, all others in the room are told of it.

Nothing here knows of sockets: a Seat is whoever is in a room, and is woken when there is something new for it. It then
asks for the newest (`told`), so who is slow skips moments and never lags. Rooms outlive the server in a small file.

    the leader says   {at: {link, step, pin}} | {ask: {story, question, kind, options}} | {reveal: true} | {end: true}
    a follower says   {answer: NUMBER or true or false}, which counts once, and only while a question is open
"""

import asyncio
import hashlib
import hmac
import json
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from app.classroom import messages
from app.classroom.messages import RoomError

LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels, so no words
CODE = 5  # letters
MOST_FOLLOWERS = 300
MOST_ROOMS = 30
LASTS = 12 * 3600.0  # seconds
BACK = 60.0  # seconds that a leader has to come back in before others may do what is theirs
ALONE = 30 * 60.0  # seconds without a leader after which a room ends
MOST_OF_ADDRESS = 250  # followers, and answers, of one address, which a class may share
MOST_UNKNOWN = 20  # followers, and answers, of one address without cookies


@dataclass
class Poll:
    """A question that the class is asked. answers: who -> what, anonymous; who answers again changes the answer."""

    number: int
    story: str
    question: str
    kind: str
    options: int
    open: bool = True
    answers: dict[str, float | bool] = field(default_factory=dict)

    def counts(self) -> list[list[Any]]:
        """[[answer, how many], ...]: of options all, in their order; of numbers those given, by size."""
        found = Counter(self.answers.values())
        if self.kind == "options":
            return [[n, found[n]] for n in range(self.options)]
        if self.kind == "click":
            return [[right, found[right]] for right in (True, False)]
        return [[value, found[value]] for value in sorted(found)]


class Seat:
    """Whoever is in a room: it is told the newest after each `news`. known: the server gave `who` to its browser."""

    def __init__(self, who: str, leads: bool, address: str = "", known: bool = True):
        self.who, self.leads, self.address, self.known = who, leads, address, known
        self.gone = False  # another connection of the same browser has taken it
        self.news = asyncio.Event()
        self.news.set()


@dataclass(eq=False)
class Room:
    """code: what followers type. secret: SHA-256 of what the leader has. opened, led: seconds since the epoch; led:
    when a leader was last here. at: {link, step, pin} of the moment that is shown. voters: who answered the question ->
    the address, which no file keeps."""

    code: str
    secret: str
    opened: float
    led: float
    at: dict[str, Any] | None = None
    poll: Poll | None = None
    polls: int = 0
    ended: str = ""
    seats: set[Seat] = field(default_factory=set)
    voters: dict[str, str] = field(default_factory=dict)
    _text: str = ""  # for followers, as it was last written

    @property
    def leaders(self) -> int:
        return sum(seat.leads for seat in self.seats)

    @property
    def followers(self) -> int:
        return len(self.seats) - self.leaders

    def told(self, seat: Seat) -> str:
        """What that seat is to know now, as JSON."""
        if seat.leads:
            poll = self.poll and {
                **_of(self.poll),
                "counts": self.poll.counts(),
                "answers": len(self.poll.answers),
            }
            return _json({"leads": True, "followers": self.followers, "at": self.at, "poll": poll})
        if not self._text:
            poll = self.poll and _of(self.poll)
            self._text = _json({"at": self.at, "poll": poll, "led": self.leaders > 0})
        return self._text

    def tell(self, followers: bool = True) -> None:
        """Wakes all, or the leaders alone."""
        if followers:
            self._text = ""
        for seat in self.seats:
            if followers or seat.leads:
                seat.news.set()


def _of(poll: Poll) -> dict[str, Any]:
    return {name: getattr(poll, name) for name in ("number", "story", "question", "kind", "open")}


class Rooms:
    """The rooms of this server. place: the file that they are kept in, None for none. may_open(secret): whether who
    says that may open a room. stories: paths that a moment's link may lead to."""

    def __init__(
        self,
        place: Path | None = None,
        may_open: Callable[[str], bool] = lambda secret: True,
        stories: frozenset[str] = frozenset(),
        now: Callable[[], float] = time.time,
    ):
        self._place, self.may_open, self._stories, self._now = place, may_open, stories, now
        self._rooms: dict[str, Room] = {}
        self._changed = False
        self._read()

    def open(self, secret: str) -> tuple[str, str]:
        """(code, the leader's secret) of a new room. RoomError."""
        self.sweep()
        if not self.may_open(secret):
            raise RoomError("This is not the room secret of this server; who started it has it.")
        if len(self._rooms) >= MOST_ROOMS:
            raise RoomError(f"{MOST_ROOMS} classes are led on this server, which is the most. End one of them.")
        codes = ("".join(secrets.choice(LETTERS) for _ in range(CODE)) for _ in range(1000))
        code, own, now = next(c for c in codes if c not in self._rooms), secrets.token_urlsafe(24), self._now()
        self._rooms[code] = Room(code, _hash(own), now, now)
        self._changed = True
        return code, own

    def enter(
        self, code: str, who: str, secret: str | None = None, address: str = "", known: bool = True
    ) -> tuple[Room, Seat]:
        """A seat in a room: the leader's for who has its secret, else a follower's. A browser has one of each kind.
        RoomError. address: where it asks from. known: `who` is the id that the server gave to the browser; else the
        page made it up."""
        self.sweep()
        room = self._rooms.get(code.strip().upper())
        if room is None:
            said = code.strip().upper()[:12]
            raise RoomError(f"There is no class {said}. It may have ended; ask for its code.", gone=True)
        leads = secret is not None
        if leads and not hmac.compare_digest(_hash(secret or ""), room.secret):
            raise RoomError(f"This browser does not lead class {room.code}: its secret is another.", gone=True)
        seat = Seat(who[:40] if known else f"{address} {who[:40]}", leads, address, known)
        if not leads:
            _check_seats(room, seat)
        for before in [s for s in room.seats if s.who == seat.who and s.leads == leads]:
            before.gone = True  # who comes again takes the seat that was theirs
            before.news.set()
            room.seats.discard(before)
        room.seats.add(seat)
        self._note(room, leads)
        room.tell(followers=leads)
        return room, seat

    def leave(self, room: Room, seat: Seat) -> None:
        room.seats.discard(seat)
        self._note(room, seat.leads)
        room.tell(followers=seat.leads)

    def hear(self, room: Room, seat: Seat, text: str) -> None:
        """A message of a seat. RoomError says what is wrong with it; it then changed nothing."""
        said = messages.read(text)
        if not seat.leads:
            return self._answer(room, seat, said)
        if "at" in said:
            room.at = messages.moment(said["at"], self._stories)
        elif "ask" in said:
            asked = messages.question(said["ask"], self._stories)
            room.polls += 1
            room.poll, room.voters = Poll(room.polls, *asked), {}
        elif said.get("reveal") is True and room.poll:
            room.poll.open = False
        elif said.get("end") is True:
            self._end(room, "The class has ended.")
        else:
            raise RoomError(f"A leader says at, ask, reveal or end; not {', '.join(map(str, said))[:60]}.")
        self._changed = True
        room.tell()

    def sweep(self) -> None:
        """Ends the rooms whose time is over, or whose leader has been away for long."""
        now = self._now()
        for room in list(self._rooms.values()):
            if now - room.opened > LASTS:
                self._end(room, "The class has ended: twelve hours are over.")
            elif room.leaders:
                room.led = now
            elif now - room.led > ALONE:
                self._end(room, "The class has ended: its leader is gone.")

    def in_charge(self, code: str, secret: str) -> bool:
        """Whether who says that leads a class here; all are in charge while nobody does."""
        self.sweep()
        room = self._rooms.get(code)
        led = any(r.leaders or self._now() - r.led < BACK for r in self._rooms.values())
        return not led or (room is not None and hmac.compare_digest(_hash(secret), room.secret))

    def figures(self) -> list[dict[str, Any]]:
        """Of each room: followers, leaders, minutes since it was opened; never its code."""
        return [
            {"followers": r.followers, "leaders": r.leaders, "minutes": round((self._now() - r.opened) / 60)}
            for r in self._rooms.values()
        ]

    def _note(self, room: Room, leads: bool) -> None:
        """Somebody came or went."""
        if leads:
            room.led = self._now()
        self._changed = True

    def _end(self, room: Room, said: str) -> None:
        room.ended = said
        self._rooms.pop(room.code, None)
        self._changed = True
        room.tell()

    def _answer(self, room: Room, seat: Seat, said: dict[str, Any]) -> None:
        poll = room.poll
        if list(said) != ["answer"]:
            raise RoomError("A follower answers questions, and nothing else.")
        if not poll or not poll.open:
            raise RoomError("No question is open.")
        given = messages.answer(said["answer"], poll.kind, poll.options)
        own = sum(who.startswith(f"{seat.address} ") for who in poll.answers)
        if not seat.known and seat.who not in poll.answers and own >= MOST_UNKNOWN:
            raise RoomError(
                f"{MOST_UNKNOWN} browsers of this network that keep no cookie have answered. Allow cookies."
            )
        of_address = sum(address == seat.address != "" for address in room.voters.values())
        if seat.who not in poll.answers and of_address >= MOST_OF_ADDRESS:
            raise RoomError(f"{MOST_OF_ADDRESS} browsers of this network have answered, which is the most.")
        if seat.who not in poll.answers and len(poll.answers) >= 2 * MOST_FOLLOWERS:
            raise RoomError("This question has as many answers as it can hold.")
        poll.answers[seat.who] = given
        room.voters[seat.who] = seat.address
        self._changed = True
        room.tell(followers=False)

    # ---- over a restart of the server ----

    def _read(self) -> None:
        """Takes the rooms of the file. A file that no server has written is ignored, with a message."""
        try:
            text = self._place.read_text() if self._place else "[]"
            kept = messages.kept_rooms(text, self._stories)
        except FileNotFoundError:
            kept = []
        except (OSError, ValueError, TypeError, RecursionError, RoomError) as error:
            said = f"{type(error).__name__}: {error}"
            print(f"{self._place} is damaged, so its classes are lost: {said:.200}", file=sys.stderr)
            kept = []
        for held in kept:
            poll = held.pop("poll")
            room = Room(**held, poll=Poll(**poll) if poll else None)
            room.led = self._now()  # while the server was away nobody could lead
            self._rooms[room.code] = room
        self.sweep()

    def write_again(self) -> None:
        """What was asked of `unwritten` could not be written."""
        self._changed = True

    def unwritten(self) -> str | None:
        """What the file is to hold, if that has changed since this was last asked."""
        if not self._changed or not self._place:
            return None
        self._changed = False
        kept = ("code", "secret", "opened", "led", "at", "polls")
        rooms = self._rooms.values()
        return _json([{n: getattr(r, n) for n in kept} | {"poll": r.poll and asdict(r.poll)} for r in rooms])


def _check_seats(room: Room, seat: Seat) -> None:
    """RoomError if another follower cannot sit down. A browser may always take its own seat again."""
    others = [other for other in room.seats if not other.leads and other.who != seat.who]
    if len(others) >= MOST_FOLLOWERS:
        raise RoomError(f"Class {room.code} is full: {MOST_FOLLOWERS} follow it.")
    near = [other for other in others if other.address == seat.address != ""]
    if len(near) >= MOST_OF_ADDRESS:
        raise RoomError(f"Class {room.code} is full for this network: {MOST_OF_ADDRESS} follow the class from here.")
    if not seat.known and sum(not other.known for other in near) >= MOST_UNKNOWN:
        raise RoomError(f"{MOST_UNKNOWN} browsers without cookies follow from this network. Allow cookies.")


def _json(value: object) -> str:
    """JSON that browsers can read: it holds no NaN."""
    return json.dumps(value, allow_nan=False)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()

"""Rooms: a leader shows a moment, and all followers get it.

This module knows no sockets. A Seat is one participant. News wakes it, and it then reads the newest state
(`state_for`). A slow participant therefore skips moments and never lags. A small file lets rooms survive a restart.

    leader     {at: {link, step, pin}} | {ask: {story, question, kind, options, text, texts}} | {lock: true or false}
               | {timer: 30, 60 or 90} | {reveal: true} | {end: true}
    follower   {answer: NUMBER or true or false}, counted once, and only while the vote is open and not locked
"""

import asyncio
import csv
import hashlib
import hmac
import io
import json
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.classroom import messages
from app.classroom.messages import RoomError

COLUMNS = ("time (UTC)", "page", "question", "text", "answer", "count")  # of the exported answers
LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels, so no words
CODE = 5  # letters
MOST_FOLLOWERS = 300
MOST_ROOMS = 30
TIMES = (30, 60, 90)  # seconds of a timer
MOST_PAST = 200  # questions of a class in its file
LASTS = 12 * 3600.0  # seconds
BACK = 60.0  # seconds for a leader's return before others get the leader's rights
ALONE = 30 * 60.0  # seconds without a leader after which a room ends
MOST_OF_ADDRESS = 250  # followers, and answers, of one address, possibly shared by a class
MOST_UNKNOWN = 20  # followers, and answers, of one address without cookies


@dataclass
class Poll:
    """A question to the class.

    number: counts the questions of a room, from 1.
    asked: seconds since the epoch.
    story, question, kind, options, text, texts: messages.question.
    open: the answer is not shown yet.
    locked: no more votes.
    until: the end of its timer in seconds since the epoch, or None.
    answers: browser -> its answer, anonymous. A second answer replaces the first."""

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
        counts = []
        for answer, count in self.counts():
            if self.kind == "options":
                words = self.texts[int(answer)] if int(answer) < len(self.texts) else f"option {int(answer) + 1}"
            elif self.kind == "click":
                words = "the right place" if answer else "another place"
            else:
                words = f"{answer:.15g}"
            counts.append([words, count])
        asked = {"asked": self.asked, "story": self.story, "question": self.question, "text": self.text}
        return {**asked, "counts": counts}


class Seat:
    """One participant of a room. It reads the newest state after each `news`.

    known: the server issued the id `who` to the browser"""

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
    voters: browser -> its address, for each answer. No file stores it."""

    code: str
    secret: str
    opened: float
    led: float
    at: dict[str, object] | None = None
    poll: Poll | None = None
    polls: int = 0
    past: list[dict[str, Any]] = field(default_factory=list)
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


class Rooms:
    """The rooms of this server.

    file: stores the rooms, or None
    may_open(secret): whether this secret may open a room
    stories: allowed paths of the link of a moment"""

    def __init__(
        self,
        file: Path | None = None,
        may_open: Callable[[str], bool] = lambda secret: True,
        stories: frozenset[str] = frozenset(),
        now: Callable[[], float] = time.time,
    ):
        self._file, self.may_open, self._stories, self._now = file, may_open, stories, now
        self._rooms: dict[str, Room] = {}
        self._changed = False
        self._read()

    def open(self, secret: str) -> tuple[str, str]:
        """(code, leader's secret) of a new room. Raises RoomError."""
        self.sweep()
        if not self.may_open(secret):
            raise RoomError("This is not the room secret of this server. Ask the person in charge of the server.")
        if len(self._rooms) >= MOST_ROOMS:
            raise RoomError(f"This server has {MOST_ROOMS} classes, the maximum. End a class first.")
        codes = ("".join(secrets.choice(LETTERS) for _ in range(CODE)) for _ in range(1000))
        code, own, now = next(c for c in codes if c not in self._rooms), secrets.token_urlsafe(24), self._now()
        self._rooms[code] = Room(code, _hash(own), now, now)
        self._changed = True
        return code, own

    def enter(
        self, code: str, who: str, secret: str | None = None, address: str = "", known: bool = True
    ) -> tuple[Room, Seat]:
        """A seat in a room. The secret gives the leader's seat. A browser has one seat of each kind.

        address: of the browser
        known: the server issued the id `who`. Otherwise the page invented it.
        Raises RoomError."""
        self.sweep()
        room = self._rooms.get(code.strip().upper())
        if room is None:
            entered = code.strip().upper()[:12]
            raise RoomError(f"There is no class {entered}. It may have ended. Ask for its code.", gone=True)
        leads = secret is not None
        if leads and not hmac.compare_digest(_hash(secret or ""), room.secret):
            raise RoomError(f"This browser does not lead class {room.code}: its secret is different.", gone=True)
        seat = Seat(who[:40] if known else f"{address} {who[:40]}", leads, address, known)
        if not leads:  # a browser may always take its own seat again
            others = [other for other in room.seats if not other.leads and other.who != seat.who]
            near = [other for other in others if other.address == address != ""]
            if len(others) >= MOST_FOLLOWERS:
                raise RoomError(f"Class {room.code} is full: it has {MOST_FOLLOWERS} followers.")
            if len(near) >= MOST_OF_ADDRESS:
                raise RoomError(
                    f"Class {room.code} is full for this network: {MOST_OF_ADDRESS} followers come from it."
                )
            if not known and sum(not other.known for other in near) >= MOST_UNKNOWN:
                raise RoomError(f"{MOST_UNKNOWN} browsers without cookies follow from this network. Allow cookies.")
        for before in [s for s in room.seats if s.who == seat.who and s.leads == leads]:
            before.gone = True  # a returning browser takes its own seat again
            before.news.set()
            room.seats.discard(before)
        room.seats.add(seat)
        self._note(room, leads)
        room.wake(followers=leads)
        return room, seat

    def leave(self, room: Room, seat: Seat) -> None:
        room.seats.discard(seat)
        self._note(room, seat.leads)
        room.wake(followers=seat.leads)

    def hear(self, room: Room, seat: Seat, text: str) -> None:
        """Handles a message of a seat. Raises RoomError for a faulty one, without any change."""
        message = messages.read(text)
        if not seat.leads:
            return self._answer(room, seat, message)
        if "at" in message:
            room.at = messages.moment(message["at"], self._stories)
        elif "ask" in message:
            question = messages.question(message["ask"], self._stories)
            if room.poll:
                room.past = [*room.past, room.poll.row()][-MOST_PAST:]
            room.polls += 1
            room.poll, room.voters = Poll(room.polls, self._now(), **question), {}
        elif message.get("end") is True:
            self._end(room, "The class has ended.")
        elif room.poll and set(message) & {"lock", "timer", "reveal"}:
            self._turn(room.poll, message)
        else:
            sent = ", ".join(map(str, message))[:60]
            raise RoomError(f"A leader sends at, ask, lock, timer, reveal or end, not {sent}.")
        self._changed = True
        room.wake()

    def answers(self, code: str, secret: str) -> str:
        """The answers of a class as CSV, without names. Raises RoomError without the leader's secret."""
        room = self._rooms.get(code)
        if room is None or not hmac.compare_digest(_hash(secret), room.secret):
            raise RoomError("Only the leader of a class exports its answers.")
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(COLUMNS)
        for row in [*room.past, *([room.poll.row()] if room.poll else [])]:
            asked = datetime.fromtimestamp(row["asked"], UTC).strftime("%Y-%m-%d %H:%M:%S")
            for answer, count in row["counts"]:
                writer.writerow([asked, row["story"], row["question"], row["text"], answer, count])
        return file.getvalue()

    def _turn(self, poll: Poll, message: dict[str, Any]) -> None:
        """Locks or unlocks a vote, starts its timer, or shows its answer."""
        if not poll.open:
            raise RoomError("The answer is shown already. Ask the class again for another vote.")
        if "lock" in message:
            if type(message["lock"]) is not bool:
                raise RoomError(f"A lock is true or false, not {message['lock']!r:.60}.")
            poll.locked, poll.until = message["lock"], None
        elif "timer" in message:
            seconds = message["timer"]
            if type(seconds) is not int or seconds not in TIMES:
                raise RoomError(f"A timer has {', '.join(map(str, TIMES))} seconds, not {seconds!r:.60}.")
            poll.locked, poll.until = False, self._now() + seconds
        elif message["reveal"] is True:
            poll.open, poll.until = False, None
        else:
            raise RoomError("A leader reveals with {reveal: true}.")

    def sweep(self) -> None:
        """Ends rooms after their time, and rooms without a leader for long. Locks votes after their time."""
        now = self._now()
        for room in list(self._rooms.values()):
            if now - room.opened > LASTS:
                self._end(room, "The class has ended after twelve hours.")
            elif room.leaders:
                room.led = now
            elif now - room.led > ALONE:
                self._end(room, "The class has ended: its leader is gone.")
            if room.poll and room.poll.over(now):
                room.poll.locked, room.poll.until, self._changed = True, None, True
                room.wake()

    def in_charge(self, code: str, secret: str) -> bool:
        """Whether this secret leads the class `code`. Everybody is in charge on a server without leaders."""
        self.sweep()
        room = self._rooms.get(code)
        led = any(r.leaders or self._now() - r.led < BACK for r in self._rooms.values())
        return not led or (room is not None and hmac.compare_digest(_hash(secret), room.secret))

    def figures(self) -> list[dict[str, object]]:
        """Followers, leaders and minutes of each room, never its code."""
        return [
            {"followers": r.followers, "leaders": r.leaders, "minutes": round((self._now() - r.opened) / 60)}
            for r in self._rooms.values()
        ]

    def _note(self, room: Room, leads: bool) -> None:
        if leads:
            room.led = self._now()
        self._changed = True

    def _end(self, room: Room, reason: str) -> None:
        room.ended = reason
        self._rooms.pop(room.code, None)
        self._changed = True
        room.wake()

    def _answer(self, room: Room, seat: Seat, message: dict[str, Any]) -> None:
        poll = room.poll
        if list(message) != ["answer"]:
            raise RoomError("A follower may only answer questions.")
        if not poll or not poll.open:
            raise RoomError("No question is open.")
        if poll.locked or poll.over(self._now()):
            raise RoomError("The vote is locked. Your answer came too late.")
        given = messages.answer(message["answer"], poll.kind, poll.options)
        own = sum(who.startswith(f"{seat.address} ") for who in poll.answers)
        if not seat.known and seat.who not in poll.answers and own >= MOST_UNKNOWN:
            raise RoomError(f"{MOST_UNKNOWN} browsers without cookies have answered from this network. Allow cookies.")
        of_address = sum(address == seat.address != "" for address in room.voters.values())
        if seat.who not in poll.answers and of_address >= MOST_OF_ADDRESS:
            raise RoomError(f"{MOST_OF_ADDRESS} browsers of this network have answered, the maximum.")
        if seat.who not in poll.answers and len(poll.answers) >= 2 * MOST_FOLLOWERS:
            raise RoomError(f"This question has {2 * MOST_FOLLOWERS} answers, the maximum.")
        poll.answers[seat.who] = given
        room.voters[seat.who] = seat.address
        self._changed = True
        room.wake(followers=False)

    # ---- over a restart of the server ----

    def _read(self) -> None:
        try:
            text = self._file.read_text() if self._file else "[]"
            kept = messages.kept_rooms(text, self._stories)
        except FileNotFoundError:
            kept = []
        except (OSError, ValueError, TypeError, RecursionError, RoomError) as error:
            reason = f"{type(error).__name__}: {error}"
            print(f"{self._file} is damaged, so its classes are lost: {reason:.200}", file=sys.stderr)
            kept = []
        for held in kept:
            poll = held.pop("poll")
            room = Room(**held, poll=Poll(**poll) if poll else None)
            room.led = self._now()  # nobody could lead during the restart
            self._rooms[room.code] = room
        self.sweep()

    def write_again(self) -> None:
        """Notes a failed write of the text from `unwritten`."""
        self._changed = True

    def unwritten(self) -> str | None:
        """The new text of the file, or None without a change since the last call."""
        if not self._changed or not self._file:
            return None
        self._changed = False
        kept = ("code", "secret", "opened", "led", "at", "polls", "past")
        rooms = self._rooms.values()
        return as_json([{n: getattr(r, n) for n in kept} | {"poll": r.poll and asdict(r.poll)} for r in rooms])


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()

"""Checks the messages of a room, and the rooms in the file.

Each function returns a checked value, or raises RoomError with the fault. Numbers are finite, since browsers cannot
read NaN.
"""

import json
import math
from collections.abc import Collection
from typing import Any

from kernels.errors import WarpglassError

MOST_TEXT = 8192  # characters of a message, and of a link
MOST_POLLS = 10**6
KINDS = ("options", "number", "click")
MOST_OPTIONS = 12
LONGEST = 400  # characters of a question, and of an option
TIMES = (30, 60, 90)  # seconds of a timer
QUESTION = ("story", "question", "kind", "options", "text", "texts")
POLL = ("number", "asked", *QUESTION, "open", "locked", "until", "answers")
ROOM = ("code", "secret", "opened", "led", "at", "polls", "poll", "past")
ROWS = ("asked", "story", "question", "text", "counts")  # of a past question


class RoomError(WarpglassError):
    """A refusal of a room, in a sentence. gone: the room does not exist, or no longer."""

    def __init__(self, text: str, gone: bool = False):
        super().__init__(text)
        self.gone = gone


def read(text: str) -> dict[str, Any]:
    """The object in a message."""
    if len(text) > MOST_TEXT:
        raise RoomError(f"A message has at most {MOST_TEXT:,} characters. This one has {len(text):,}.")
    try:
        said = parsed(text)
    except (ValueError, RecursionError):
        raise RoomError("This message is not JSON.") from None
    if not isinstance(said, dict):
        raise RoomError("This message is not a JSON object.")
    return said


def parsed(text: str) -> object:
    """The value of a JSON text. Raises ValueError (also for NaN and Infinity, as in the standard) or RecursionError."""
    return json.loads(text, parse_constant=_no_number)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def moment(at: object, stories: Collection[str]) -> dict[str, object]:
    """{link, step, pin} of the leader's present moment. The link leads to a story."""
    link, step, pin = (at.get(name) for name in ("link", "step", "pin")) if isinstance(at, dict) else (None,) * 3
    if not isinstance(link, str) or link.partition("?")[0] not in stories:
        raise RoomError(f"The link of a moment leads to a story. {link!r:.60} does not.")
    if step is not None and (type(step) is not int or not 0 <= step < 10**7):
        raise RoomError(f"The step of a moment is {step!r:.60}. Use a whole number from 0.")
    if pin is not None and not _is_pin(pin):
        raise RoomError("The pin of a moment is {title, thing}. The thing has finite numbers and short texts.")
    return {"link": link, "step": step, "pin": pin}


def question(asked: object, stories: Collection[str]) -> dict[str, Any]:
    """The fields QUESTION of a question to the class.

    options: their number.
    text, texts: the words of the question and of its options, for the exported file. They may be absent.
    """
    given = asked if isinstance(asked, dict) else {}
    story, text, kind = (value if isinstance(value := given.get(n), str) else "" for n in ("story", "question", "kind"))
    if story not in stories or not isinstance(given.get("question"), str) or len(text) > 200 or kind not in KINDS:
        raise RoomError("A question is {story, question, kind, options} of a stop of the course.")
    options = given.get("options")
    if type(options) is not int or not 0 <= options <= MOST_OPTIONS:
        raise RoomError(f"A question has at most {MOST_OPTIONS} options, not {options!r:.60}.")
    words, texts = given.get("text", ""), given.get("texts", [])
    if not _is_text(words) or not isinstance(texts, list) or len(texts) > options or not all(map(_is_text, texts)):
        raise RoomError(f"The text of a question, and of each of its options, has at most {LONGEST} characters.")
    return dict(zip(QUESTION, (story, text, kind, options, words, texts)))


def lock(given: object) -> bool:
    """Whether the vote is locked."""
    if type(given) is not bool:
        raise RoomError(f"A lock is true or false, not {given!r:.60}.")
    return given


def timer(given: object) -> int:
    """The seconds of a timer."""
    if type(given) is not int or given not in TIMES:
        raise RoomError(f"A timer has {', '.join(map(str, TIMES))} seconds, not {given!r:.60}.")
    return given


def answer(given: Any, kind: str, options: int) -> float | bool:
    """A checked answer to a question of this kind."""
    fits = {
        "options": type(given) is int and 0 <= given < options,
        "number": _is_finite(given),
        "click": type(given) is bool,
    }
    if not fits[kind]:
        raise RoomError(f"{given!r:.60} is no answer to a question of {kind}.")
    return given


def kept_rooms(text: str, stories: Collection[str]) -> list[dict]:
    """The rooms in the file. Raises RoomError, ValueError or RecursionError."""
    rooms = parsed(text)
    if not isinstance(rooms, list):
        raise RoomError("it holds no list of rooms")
    return [_kept_room(held, stories) for held in rooms]


def _kept_room(held: object, stories: Collection[str]) -> dict:
    """A room with the fields of ROOM. Its `poll` is None or has the fields of POLL."""
    if not isinstance(held, dict) or set(held) != set(ROOM):
        raise RoomError(f"a room has {', '.join(ROOM)}")
    texts = all(isinstance(held[name], str) for name in ("code", "secret")) and isinstance(held["past"], list)
    times = all(_is_finite(held[name]) for name in ("opened", "led"))
    if not texts or not times or type(held["polls"]) is not int or not 0 <= held["polls"] < MOST_POLLS:
        raise RoomError("a room's code and secret are texts, its times and its number of polls are finite")
    at, poll = held["at"], held["poll"]
    past = [_past(asked) for asked in held["past"]]
    return held | {"at": at and moment(at, stories), "poll": poll and _kept_poll(poll, stories), "past": past}


def _past(held: object) -> dict:
    """A question of the past, with the fields of ROWS."""
    if not isinstance(held, dict) or set(held) != set(ROWS) or not _is_finite(held["asked"]):
        raise RoomError(f"a question of the past has {', '.join(ROWS)}")
    texts = all(_is_text(held[name]) for name in ("story", "question", "text"))
    if not texts or not all(_is_text(answer) and type(count) is int for answer, count in held["counts"]):
        raise RoomError("a question of the past has texts, and a whole number for each answer")
    return held


def _kept_poll(poll: object, stories: Collection[str]) -> dict:
    if not isinstance(poll, dict) or set(poll) != set(POLL) or not isinstance(poll["answers"], dict):
        raise RoomError(f"a question has {', '.join(POLL)}")
    if type(poll["number"]) is not int or not all(type(poll[name]) is bool for name in ("open", "locked")):
        raise RoomError("a question's number is whole, and it is open and locked or not")
    if not _is_finite(poll["asked"]) or not (poll["until"] is None or _is_finite(poll["until"])):
        raise RoomError("a question's times are finite")
    asked = question(poll, stories)
    answers = {who: answer(given, asked["kind"], asked["options"]) for who, given in poll["answers"].items()}
    return poll | asked | {"answers": answers}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 1e300 and math.isfinite(value)


def _is_pin(pin: object) -> bool:
    """{title: text, thing: {name: finite number, text, true, false or null}}, at most 1,024 characters."""
    if not isinstance(pin, dict) or set(pin) != {"title", "thing"} or not isinstance(pin["title"], str):
        return False
    thing = pin["thing"]
    flat = isinstance(thing, dict) and all(
        v is None or isinstance(v, (str, bool)) or _is_finite(v) for v in thing.values()
    )
    return flat and len(json.dumps(pin)) <= 1024

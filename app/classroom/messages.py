"""Checks the messages of a room, and the rooms in the file.

Each function returns a checked value, or raises RoomError with the fault. Numbers are finite, since browsers cannot
read NaN.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeGuard

from kernels.errors import WarpglassError

MOST_TEXT = 8192  # characters of a message, and of a link
MOST_POLLS = 10**6
KINDS = ("options", "number", "click")
MOST_OPTIONS = 12
LONGEST = 400  # characters of a question, and of an option
QUESTION = ("story", "question", "kind", "options", "text", "texts")


class RoomError(WarpglassError):
    """A refusal of a room, in a sentence. gone: the room does not exist, or no longer."""

    def __init__(self, text: str, gone: bool = False):
        super().__init__(text)
        self.gone = gone


def read(text: str) -> dict[str, Any]:
    if len(text) > MOST_TEXT:
        raise RoomError(f"A message has at most {MOST_TEXT:,} characters. This one has {len(text):,}.")
    try:
        message = _parsed(text)
    except (ValueError, RecursionError):
        raise RoomError("This message is not JSON.") from None
    if not isinstance(message, dict):
        raise RoomError("This message is not a JSON object.")
    return message


def _parsed(text: str) -> object:
    """The value of a JSON text. Raises ValueError (also for NaN and Infinity, as in the standard) or RecursionError."""

    def no_number(name: str) -> float:
        raise ValueError(f"{name} is not a JSON number")

    return json.loads(text, parse_constant=no_number)


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
    text, texts: the words of the question and of its options, for the exported file. They may be absent."""
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


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 1e300 and math.isfinite(value)


def _is_pin(pin: object) -> bool:
    """{title: text, thing: {name: finite number, text, true, false or null}}, at most 1,024 characters."""
    if not _has(pin, {"title": lambda title: isinstance(title, str), "thing": lambda thing: isinstance(thing, dict)}):
        return False
    flat = all(v is None or isinstance(v, (str, bool)) or _is_finite(v) for v in pin["thing"].values())
    return flat and len(json.dumps(pin)) <= 1024


# ---- the file ----

Fields = Mapping[str, Callable[[Any], bool]]  # name -> whether its value fits
ROOM: Fields = {
    **dict.fromkeys(("code", "secret"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("opened", "led"), _is_finite),
    "polls": lambda value: type(value) is int and 0 <= value < MOST_POLLS,
    "past": lambda value: isinstance(value, list) and all(_has(question, PAST) for question in value),
    **dict.fromkeys(("at", "poll"), lambda value: True),
}
PAST: Fields = {  # a question of the past
    "asked": _is_finite,
    **dict.fromkeys(("story", "question", "text"), _is_text),
    "counts": lambda value: all(_is_text(answer) and type(count) is int for answer, count in value),
}
POLL: Fields = {
    "number": lambda value: type(value) is int,
    "asked": _is_finite,
    **dict.fromkeys(QUESTION, lambda value: True),
    **dict.fromkeys(("open", "locked"), lambda value: type(value) is bool),
    "until": lambda value: value is None or _is_finite(value),
    "answers": lambda value: isinstance(value, dict),
}


def _has(value: object, fields: Fields) -> TypeGuard[dict[str, Any]]:
    if not isinstance(value, dict) or value.keys() != fields.keys():
        return False
    return all(fits(value[name]) for name, fits in fields.items())


def kept_rooms(text: str, stories: Collection[str]) -> list[dict]:
    """The rooms in the file. `poll` of a room is None or has the fields of POLL. Raises RoomError, ValueError,
    TypeError or RecursionError."""
    rooms = _parsed(text)
    if not isinstance(rooms, list):
        raise RoomError("it holds no list of rooms")
    kept = []
    for room in rooms:
        if not _has(room, ROOM):
            raise RoomError(f"a room has {', '.join(ROOM)}, and this is no room: {room!r:.60}")
        at, poll = room["at"], room["poll"]
        if poll:
            if not _has(poll, POLL):
                raise RoomError(f"a question has {', '.join(POLL)}, and this is no question: {poll!r:.60}")
            asked = question(poll, stories)
            answers = {who: answer(given, asked["kind"], asked["options"]) for who, given in poll["answers"].items()}
            poll = poll | asked | {"answers": answers}
        kept.append(room | {"at": at and moment(at, stories), "poll": poll})
    return kept

"""Rooms: what a leader shows reaches all, and followers change nothing."""

import csv
import io
import json
from unittest.mock import Mock

import pytest

from app.classroom import rooms as module
from app.classroom.rooms import (
    ALONE,
    BACK,
    LASTS,
    MOST_FOLLOWERS,
    MOST_OF_ADDRESS,
    MOST_ROOMS,
    MOST_UNKNOWN,
    RoomError,
    Rooms,
)

LINK = "tiling?kernel=03_flash"
QUESTION = {"story": "tiling", "question": "reads", "kind": "options", "options": 3}


@pytest.fixture
def clock():
    """A clock that a test sets."""
    now = Mock(time=1e9)
    now.side_effect = lambda: now.time
    return now


@pytest.fixture
def rooms(clock):
    return Rooms(stories=frozenset({"tiling", "start"}), now=clock)


@pytest.fixture
def led(rooms):
    code, secret = rooms.open("")
    room, leader = rooms.enter(code, "leader", secret)
    return rooms, room, leader, secret


def say(led, seat, **message):
    led[0].hear(led[1], seat, json.dumps(message))


def told(room, seat):
    return json.loads(room.state_for(seat))


def test_late_comers_are_told_where_the_class_is_at_once(led):
    rooms, room, leader, _ = led
    say(led, leader, at={"link": LINK, "step": 4, "pin": {"title": "Tiling", "thing": {"tensor": "Q", "query": 3}}})
    _, late = rooms.enter(room.code.lower(), "late")
    assert late.news.is_set()
    said = told(room, late)
    assert said["at"] == {"link": LINK, "step": 4, "pin": {"title": "Tiling", "thing": {"tensor": "Q", "query": 3}}}
    assert said["led"] and "followers" not in said and told(room, leader)["followers"] == 1


def test_who_is_slow_is_told_the_newest_alone(led):
    rooms, room, leader, _ = led
    _, seat = rooms.enter(room.code, "a")
    seat.news.clear()
    for step in range(5):
        say(led, leader, at={"link": LINK, "step": step})
    assert seat.news.is_set() and told(room, seat)["at"]["step"] == 4


@pytest.mark.parametrize(
    "message",
    [
        {"at": {"link": LINK, "step": 9}},
        {"ask": QUESTION},
        {"reveal": True},
        {"end": True},
        {"answer": 1, "at": {"link": LINK}},
        {"answer": 9},
        {"answer": "1"},
        {"answer": True},
        {"answer": None},
        {"secret": "x"},
        {},
        [],
        "answer",
        {"answer": [1] * 9000},
    ],
    ids=lambda message: json.dumps(message)[:30],
)
def test_followers_change_nothing(led, message):
    rooms, room, leader, _ = led
    say(led, leader, at={"link": LINK, "step": 1})
    say(led, leader, ask=QUESTION)
    _, seat = rooms.enter(room.code, "a")
    before = told(room, leader)
    with pytest.raises(RoomError):
        rooms.hear(room, seat, json.dumps(message))
    assert told(room, leader) == before and room.code in rooms._rooms


@pytest.mark.parametrize(
    ("kind", "answers", "counts"),
    [
        ("options", [0, 2, 2, 1, 1, 1], [[0, 1], [1, 3], [2, 2]]),
        ("number", [3, 2.5, 3, 7], [[2.5, 1], [3, 2], [7, 1]]),
        ("click", [True, False, True], [[True, 2], [False, 1]]),
    ],
)
def test_answers_are_counted_for_the_leader_alone_once_for_each_and_without_names(led, kind, answers, counts):
    rooms, room, leader, _ = led
    say(led, leader, ask={**QUESTION, "kind": kind})
    seats = [rooms.enter(room.code, f"who{n}")[1] for n in range(len(answers))]
    for seat, answer in zip(seats, answers):
        say(led, seat, answer=answers[-1])
        say(led, seat, answer=answer)
    poll = told(room, leader)["poll"]
    assert sorted(map(str, poll["counts"])) == sorted(map(str, counts)) and poll["answers"] == len(answers)
    assert "who" not in room.state_for(leader)
    assert set(told(room, seats[0])["poll"]) == {
        "number", "story", "question", "kind", "open", "locked", "left"
    }  # fmt: skip
    say(led, leader, reveal=True)
    assert not told(room, seats[0])["poll"]["open"]
    with pytest.raises(RoomError, match="No question is open"):
        say(led, seats[0], answer=1)


def test_a_locked_vote_takes_no_answer(led):
    rooms, room, leader, _ = led
    say(led, leader, ask=QUESTION)
    _, seat = rooms.enter(room.code, "a")
    say(led, seat, answer=1)
    say(led, leader, lock=True)
    assert told(room, seat)["poll"]["locked"] and told(room, seat)["poll"]["open"]
    with pytest.raises(RoomError, match="locked"):
        say(led, seat, answer=2)
    say(led, leader, lock=False)
    say(led, seat, answer=2)
    assert told(room, leader)["poll"]["counts"] == [[0, 0], [1, 0], [2, 1]]


def test_a_timer_locks_the_vote_at_its_end_and_all_see_it(led, clock):
    rooms, room, leader, _ = led
    say(led, leader, ask=QUESTION)
    _, seat = rooms.enter(room.code, "a")
    say(led, leader, timer=30)
    clock.time += 12
    assert json.loads(room.state_for(seat, clock.time))["poll"]["left"] == 18
    assert json.loads(room.state_for(leader, clock.time))["poll"]["left"] == 18
    say(led, seat, answer=1)
    clock.time += 18
    with pytest.raises(RoomError, match="locked"):
        say(led, seat, answer=2)
    seat.news.clear()
    rooms.sweep()
    assert seat.news.is_set()
    poll = told(room, seat)["poll"]
    assert poll["locked"] and poll["left"] is None and poll["open"]
    say(led, leader, timer=60)  # more time
    say(led, seat, answer=2)


@pytest.mark.parametrize(
    "message", [{"lock": 1}, {"lock": None}, {"timer": 31}, {"timer": "30"}, {"timer": True}, {"reveal": 1}], ids=str
)
def test_a_leader_turns_a_vote_only_as_the_page_can(led, message):
    rooms, room, leader, _ = led
    with pytest.raises(RoomError):  # no question
        say(led, leader, **message)
    say(led, leader, ask=QUESTION)
    before = told(room, leader)
    with pytest.raises(RoomError):
        say(led, leader, **message)
    assert told(room, leader) == before
    say(led, leader, reveal=True)
    for late in ({"lock": True}, {"timer": 30}, {"reveal": True}):
        with pytest.raises(RoomError, match="shown already"):
            say(led, leader, **late)


def test_a_leader_exports_the_answers_of_the_class(led, clock, tmp_path):
    place = tmp_path / "rooms.json"
    rooms = Rooms(place, stories=frozenset({"tiling"}), now=clock)
    code, secret = rooms.open("")
    room, leader = rooms.enter(code, "leader", secret)
    words = {"text": "How many, and why?", "texts": ["one", "two, or so", 'three "3"']}
    for asked in ({**QUESTION, **words}, {**QUESTION, "question": "where", "kind": "click", "options": 0}):
        rooms.hear(room, leader, json.dumps({"ask": asked}))
        for who, answer in (("a", 1), ("b", 1), ("c", 0)):
            seat = rooms.enter(code, who)[1]
            rooms.hear(room, seat, json.dumps({"answer": answer if asked["kind"] == "options" else answer == 1}))
        clock.time += 60
    assert told(room, leader)["asked"] == 2
    place.write_text(rooms.unwritten())
    for kept in (rooms, Rooms(place, stories=frozenset({"tiling"}), now=clock)):
        head, *lines = list(csv.reader(io.StringIO(kept.answers(code, secret))))
        assert head == ["time (UTC)", "page", "question", "text", "answer", "count"]
        first = ["2001-09-09 01:46:40", "tiling", "reads", "How many, and why?"]
        assert lines[:3] == [[*first, "one", "1"], [*first, "two, or so", "2"], [*first, 'three "3"', "0"]]
        assert [line[4:] for line in lines[3:]] == [["the right place", "2"], ["another place", "1"]]
        for wrong in ("", "x", secret[:-1]):
            with pytest.raises(RoomError, match="Only the leader"):
                kept.answers(code, wrong)


LONG = {"title": "Tiling", "thing": {"a": "x" * 2000}}
FAULTY = [
    *[{"at": at} for at in (None, {}, {"link": 3})],
    *[{"at": {"link": link}} for link in ("https://elsewhere.org/", "//elsewhere.org/tiling", "nowhere?x=1")],
    *[{"at": {"link": LINK, "step": step}} for step in (-1, True, 1.5)],
    *[{"at": {"link": LINK, "pin": pin}} for pin in ({"title": "Tiling", "thing": {"a": {"b": 1}}}, LONG, "Q")],
    *[
        {"ask": {**QUESTION, name: value}}
        for name, value in (("story", []), ("story", {}), ("kind", []), ("options", 13))
    ],
    *[{"ask": {**QUESTION, "text": text}} for text in (3, "x" * 500)],
    *[{"ask": {**QUESTION, "texts": texts}} for texts in ("abc", [1], ["a"] * 4)],
]
NO_NUMBERS = ("NaN", "-Infinity", "1e999", f"1{'0' * 400}")  # no browser can read them
PINNED = '{"at": {"link": "tiling", "pin": {"title": "T", "thing": {"a": %s}}}}'


@pytest.mark.parametrize(
    "text", [*map(json.dumps, FAULTY), *(PINNED % number for number in NO_NUMBERS)], ids=lambda text: text[:75]
)
def test_a_faulty_message_of_a_leader_changes_nothing(led, text):
    rooms, room, leader, _ = led
    with pytest.raises(RoomError):
        rooms.hear(room, leader, text)
    assert told(room, leader)["at"] is None and told(room, leader)["poll"] is None


def test_only_who_has_the_secret_leads(led):
    rooms, room, _, secret = led
    for wrong in ("", "x", secret[:-1], secret + "x"):
        with pytest.raises(RoomError, match="does not lead"):
            rooms.enter(room.code, "thief", wrong)
    _, again = rooms.enter(room.code, "leader", secret)
    assert again.leads and secret not in room.state_for(again) and room.secret not in room.state_for(again)


def test_while_a_class_is_led_its_leader_alone_is_in_charge(led, rooms, clock):
    _, room, leader, secret = led
    assert rooms.in_charge(room.code, secret)
    for code, said in ((room.code, ""), (room.code, "wrong"), ("", secret), ("XXXXX", secret)):
        assert not rooms.in_charge(code, said)
    rooms.leave(room, leader)
    assert not rooms.in_charge("", "")
    clock.time += BACK + 1  # it is not coming back
    assert rooms.in_charge("", "")


def test_a_room_holds_300_and_a_server_30_rooms(led):
    rooms, room, _, secret = led
    for n in range(MOST_FOLLOWERS):
        rooms.enter(room.code, f"{n}")
    with pytest.raises(RoomError, match="full: it has 300 followers"):
        rooms.enter(room.code, "one more")
    rooms.enter(room.code, "leader", secret)
    for _ in range(MOST_ROOMS - 1):
        rooms.open("")
    with pytest.raises(RoomError, match="30 classes"):
        rooms.open("")


def test_a_server_with_a_room_secret_opens_rooms_for_who_knows_it():
    rooms = Rooms(may_open=lambda secret: secret == "chalk")
    with pytest.raises(RoomError, match="room secret"):
        rooms.open("")
    assert len(rooms.open("chalk")[0]) == 5


def test_a_room_ends_with_its_leader_and_after_twelve_hours(led, clock):
    rooms, room, leader, secret = led
    _, seat = rooms.enter(room.code, "a")
    say(led, leader, end=True)
    assert room.ended and seat.news.is_set()
    with pytest.raises(RoomError, match="no class") as gone:
        rooms.enter(room.code, "a")
    assert gone.value.gone
    code, _ = rooms.open("")
    clock.time += LASTS + 1
    with pytest.raises(RoomError, match="no class"):
        rooms.enter(code, "a")


def test_a_room_waits_for_its_leader_for_a_while(led, clock):
    rooms, room, leader, secret = led
    _, seat = rooms.enter(room.code, "a")
    rooms.leave(room, leader)
    assert not told(room, seat)["led"]
    clock.time += ALONE - 1
    _, leader = rooms.enter(room.code, "leader", secret)
    assert told(room, seat)["led"]
    rooms.leave(room, leader)
    clock.time += ALONE + 1
    rooms.sweep()
    assert "leader is gone" in room.ended


def test_rooms_outlive_the_server(led, clock, tmp_path):
    place = tmp_path / "rooms.json"
    rooms = Rooms(place, stories=frozenset({"tiling"}), now=clock)
    code, secret = rooms.open("")
    room, leader = rooms.enter(code, "leader", secret)
    rooms.hear(room, leader, json.dumps({"at": {"link": LINK, "step": 7}}))
    rooms.hear(room, leader, json.dumps({"ask": QUESTION}))
    text = rooms.unwritten()
    assert secret not in text and rooms.unwritten() is None
    place.write_text(text)
    again = Rooms(place, stories=frozenset({"tiling"}), now=clock)
    room, seat = again.enter(code, "a")
    assert told(room, seat)["at"]["step"] == 7 and told(room, seat)["poll"]["open"]
    assert again.enter(code, "leader", secret)[1].leads
    for damaged in (text[:40], "[]", "{}", "[{}]", "null", ""):
        place.write_text(damaged)
        assert not Rooms(place, now=clock)._rooms


@pytest.mark.parametrize(
    "change",
    [
        {"opened": float("nan")},
        {"led": float("inf")},
        {"polls": "1"},
        {"at": {"link": "//x"}},
        {"poll": {"number": 1}},
        {"past": [{"asked": 1}]},
        {"past": {}},
    ],
    ids=str,
)
def test_a_damaged_file_of_rooms_is_ignored_with_a_message(clock, tmp_path, capsys, change):
    place = tmp_path / "rooms-8501.json"
    rooms = Rooms(place, stories=frozenset({"tiling"}), now=clock)
    rooms.open("")
    held = json.loads(rooms.unwritten())
    for text in (json.dumps([held[0] | change]), "[" * 200_000):
        place.write_text(text)
        again = Rooms(place, stories=frozenset({"tiling"}), now=clock)
        assert again.figures() == [] and again.open("")
        assert "rooms-8501.json is damaged, so its classes are lost" in capsys.readouterr().err


def test_one_address_fills_no_room(led):
    rooms, room, leader, _ = led
    for n in range(MOST_UNKNOWN):
        rooms.enter(room.code, f"{n}", address="10.0.0.1", known=False)
    with pytest.raises(RoomError, match="without cookies"):
        rooms.enter(room.code, "one more", address="10.0.0.1", known=False)
    for n in range(MOST_OF_ADDRESS - MOST_UNKNOWN):
        rooms.enter(room.code, f"known {n}", address="10.0.0.1")
    with pytest.raises(RoomError, match="full for this network"):
        rooms.enter(room.code, "one more", address="10.0.0.1")
    rooms.enter(room.code, "known 3", address="10.0.0.1")  # its own seat again
    assert rooms.enter(room.code, "from elsewhere", address="10.0.0.2")


def test_browsers_without_cookies_cast_few_votes(led):
    rooms, room, leader, _ = led
    say(led, leader, ask=QUESTION)
    for n in range(MOST_UNKNOWN + 5):
        _, seat = rooms.enter(room.code, f"{n}", address="10.0.0.1", known=False)
        if n < MOST_UNKNOWN:
            say(led, seat, answer=1)
        else:
            with pytest.raises(RoomError, match="Allow cookies"):
                say(led, seat, answer=1)
        rooms.leave(room, seat)
    assert told(room, leader)["poll"]["answers"] == MOST_UNKNOWN


def test_one_address_casts_as_many_votes_as_it_has_seats(led):
    rooms, room, leader, _ = led
    say(led, leader, ask=QUESTION)
    for n in range(MOST_OF_ADDRESS + 1):  # each with a new cookie
        _, seat = rooms.enter(room.code, f"known {n}", address="10.0.0.1")
        if n < MOST_OF_ADDRESS:
            say(led, seat, answer=1)
            say(led, seat, answer=2)
        else:
            with pytest.raises(RoomError, match="250 browsers of this network have answered"):
                say(led, seat, answer=1)
        rooms.leave(room, seat)
    _, elsewhere = rooms.enter(room.code, "from elsewhere", address="10.0.0.2")
    say(led, elsewhere, answer=1)
    assert told(room, leader)["poll"]["answers"] == MOST_OF_ADDRESS + 1
    say(led, leader, ask=QUESTION)
    say(led, rooms.enter(room.code, "known", address="10.0.0.1")[1], answer=1)


def test_a_codes_letters_make_no_words():
    assert not set(module.LETTERS) & set("AEIOUY0123456789")

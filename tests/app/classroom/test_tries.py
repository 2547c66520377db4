"""Tries of a secret: guessing gets slow, and a guesser delays a neighbour by one try."""

import asyncio
import time

import loops
import pytest

from app.classroom import tries
from app.classroom.tries import Tries


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(tries, "FREE", 3)
    monkeypatch.setattr(tries, "GAP", 0.05)
    monkeypatch.setattr(tries, "MOST_WAITING", 20)


def test_a_neighbour_of_a_guesser_waits_for_one_of_its_tries():
    made, order = Tries(), []

    async def attempt(browser):
        assert await made.turn("10.0.0.1", browser)
        order.append(browser)

    async def all_of():
        for _ in range(tries.FREE):
            made.wrong("10.0.0.1")
        guesses = [asyncio.create_task(attempt("guesser")) for _ in range(8)]
        await asyncio.sleep(0)
        await attempt("student")
        await asyncio.gather(*guesses)

    begin = time.monotonic()
    loops.run(all_of())
    assert order.index("student") <= 1 and time.monotonic() - begin > 8 * tries.GAP


COOKIES = [("MOST_WAITING", ["guesser"] * 5), ("MOST_OF_ADDRESS", [f"cookie {n}" for n in range(5)])]


@pytest.mark.parametrize(("limit", "cookies"), COOKIES)
def test_who_was_not_wrong_waits_for_nothing_and_a_browser_and_an_address_wait_with_a_few_tries(
    monkeypatch, limit, cookies
):
    monkeypatch.setattr(tries, limit, 2)
    made = Tries()

    async def all_of():
        for _ in range(tries.FREE):
            made.wrong("10.0.0.1")
        begin = time.monotonic()
        assert await made.turn("10.0.0.2", "") and time.monotonic() - begin < tries.GAP
        waiting = [asyncio.create_task(made.turn("10.0.0.1", cookie)) for cookie in cookies]
        assert sum(await asyncio.gather(*waiting)) == 2

    loops.run(all_of())


def test_who_was_right_before_waits_for_no_guesser():
    made = Tries()

    async def all_of():
        made.right("student")
        for _ in range(tries.FREE):
            made.wrong("10.0.0.1")
        guess = asyncio.create_task(made.turn("10.0.0.1", "guesser"))
        await asyncio.sleep(0)
        begin = time.monotonic()
        assert await made.turn("10.0.0.1", "student") and time.monotonic() - begin < tries.GAP
        await guess
        made.wrong("10.0.0.1", "student")  # who guesses loses it
        begin = time.monotonic()
        assert await made.turn("10.0.0.1", "student") and time.monotonic() - begin >= tries.GAP

    loops.run(all_of())


def test_addresses_are_forgotten(monkeypatch):
    monkeypatch.setattr(tries, "MOST_ADDRESSES", 10)
    made = Tries()
    for n in range(100):
        made.wrong(f"10.0.0.{n}")
    assert len(made._addresses) == 10

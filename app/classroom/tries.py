"""Tries of a password, a secret or a code. Guessing gets slow; a right word still gets in.

A class may share one address. So an address may send FREE wrong words in SPAN seconds. After that the server checks the
tries of the address one after the other, one in every GAP seconds. A guesser gets at most 60 answers at once, and then
120 a minute. The browsers of the address take turns (fair.py): each waits for one try of the guesser, not for all. A
browser with a right last word does not wait.
"""

import asyncio
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from kernels.run.workers.fair import Fair

FREE, SPAN = 60, 60.0  # wrong tries of one address, and their seconds
GAP = 0.5  # seconds between two tries of an address after these
MOST_WAITING = 8  # waiting tries of one browser
MOST_OF_ADDRESS = 250  # waiting tries of one address. It can have a new cookie for each try.
MOST_ADDRESSES = MOST_RIGHT = 4096  # remembered addresses, and browsers with a right last word


@dataclass
class _Address:
    """The tries of one address.

    wrong: the times of its last wrong tries, in seconds of time.monotonic
    waiting: futures of the waiting tries
    many: browser -> number of its waiting tries
    turns: the task with the queue"""

    wrong: deque[float] = field(default_factory=lambda: deque(maxlen=FREE))
    waiting: Fair = field(default_factory=Fair)
    many: dict[str, int] = field(default_factory=dict)
    turns: "asyncio.Task[None] | None" = None

    def slow(self) -> bool:
        return len(self.wrong) >= FREE and time.monotonic() - self.wrong[0] < SPAN


class Tries:
    """The tries of one kind of secret."""

    def __init__(self) -> None:
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._right: OrderedDict[str, None] = OrderedDict()

    async def turn(self, address: str, browser: str) -> bool:
        """Waits for the turn of this try. Returns False if too many tries of this browser or address wait already.

        browser: the id from the server, or ""
        """
        known = self._addresses.get(address)
        if not known or browser in self._right or (not known.slow() and not len(known.waiting)):
            return True
        if known.many.get(browser, 0) >= MOST_WAITING or len(known.waiting) >= MOST_OF_ADDRESS:
            return False
        future = asyncio.get_running_loop().create_future()
        known.many[browser] = known.many.get(browser, 0) + 1
        known.waiting.add(future, browser)
        if not known.turns or known.turns.done():
            known.turns = asyncio.create_task(_give_turns(known))
        try:
            await future
        finally:
            known.waiting.leave(future, browser)
            known.many[browser] -= 1
            if not known.many[browser]:
                del known.many[browser]
        return True

    def right(self, browser: str) -> None:
        if browser:
            self._right[browser] = None
            self._right.move_to_end(browser)
            while len(self._right) > MOST_RIGHT:
                self._right.popitem(last=False)

    def wrong(self, address: str, browser: str = "") -> None:
        self._right.pop(browser, None)
        known = self._addresses.setdefault(address, _Address())
        known.wrong.append(time.monotonic())
        self._addresses.move_to_end(address)
        while len(self._addresses) > MOST_ADDRESSES:
            self._addresses.popitem(last=False)


async def _give_turns(known: _Address) -> None:
    while len(known.waiting):
        await asyncio.sleep(GAP)
        taken = known.waiting.take(lambda client, future: not future.done())
        if taken:
            taken[1].set_result(None)

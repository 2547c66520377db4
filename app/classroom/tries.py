"""Tries of a password, a secret or a code. Guessing gets slow; a right word still gets in.

A class may share one address. So an address may send FREE wrong words in SPAN seconds. After that the server checks the
tries of the address one after the other, one in every GAP seconds. A guesser gets at most 60 answers at once, and then
120 a minute. The browsers of the address take turns (fair.py): each waits for one try of the guesser, not for all. A
browser whose last word was right waits for no turn.
"""

import asyncio
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from kernels.run.workers.fair import Fair

FREE, SPAN = 60, 60.0  # wrong tries of one address in so many seconds
GAP = 0.5  # seconds between two tries of an address that has used these
MOST_WAITING = 8  # waiting tries of one browser
MOST_OF_ADDRESS = 250  # waiting tries of one address, which gets a new cookie for each try that it wants
MOST_ADDRESSES = MOST_RIGHT = 4096  # addresses, and browsers whose last word was right, remembered at most


@dataclass
class _Address:
    """The tries of one address.

    wrong: the times of its last wrong tries, in seconds of time.monotonic
    waiting: futures of the tries that wait for their turn
    many: browser -> its tries that wait
    turns: the task that gives the turns
    """

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
        """Waits until this try may be checked. False if too many tries of this browser or address wait already.
        browser: the id that the server gave to it, or ""."""
        known = self._addresses.get(address)
        if not known or browser in self._right or (not known.slow() and not len(known.waiting)):
            return True
        if known.many.get(browser, 0) >= MOST_WAITING or len(known.waiting) >= MOST_OF_ADDRESS:
            return False
        mine = asyncio.get_running_loop().create_future()
        known.many[browser] = known.many.get(browser, 0) + 1
        known.waiting.add(mine, browser)
        if not known.turns or known.turns.done():
            known.turns = asyncio.create_task(_give_turns(known))
        try:
            await mine
        finally:
            known.waiting.leave(mine, browser)
            known.many[browser] -= 1
            if not known.many[browser]:
                del known.many[browser]
        return True

    def right(self, browser: str) -> None:
        """Notes a right try."""
        if browser:
            self._right[browser] = None
            self._right.move_to_end(browser)
            while len(self._right) > MOST_RIGHT:
                self._right.popitem(last=False)

    def wrong(self, address: str, browser: str = "") -> None:
        """Notes a wrong try."""
        self._right.pop(browser, None)
        known = self._addresses.setdefault(address, _Address())
        known.wrong.append(time.monotonic())
        self._addresses.move_to_end(address)
        while len(self._addresses) > MOST_ADDRESSES:
            self._addresses.popitem(last=False)


async def _give_turns(known: _Address) -> None:
    while len(known.waiting):
        await asyncio.sleep(GAP)
        mine = known.waiting.take(lambda _: True)
        if mine and not mine.done():
            mine.set_result(None)

"""A class on one server, each scenario's figures printed: python -m tests.load.classroom [open same different stepping
starving soak faults] [--clients 100] [--minutes 2] [--story tiling]

open: all sessions at once. same: one asks for a link, then all. different: each asks for a change of its own, within
ten seconds. starving: 30 browsers ask for long runs, and another for a short one. stepping: the cost of open pages
while they step. soak: sessions come, change and go; memory by minute. faults: workers die by kill -9 during runs.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable

import uvloop

from app.stories import STORIES
from kernels.catalog import current
from tests.load.client import Answer, Browser
from tests.load.figures import cpu_seconds, memory, percentiles, slope, zombies
from tests.load.server import Server

SPREAD = 10.0  # seconds in which different changes are asked for
STAY = (2.0, 8.0)  # seconds that a session of the soak reads between two changes
REST = 35.0  # seconds after which the web process has returned its memory (server.TIDY)
LONG = {"kernel": "02_tiled", "seq_len": "2048", "head_dim": "64", "num_heads": "2", "backend": "cpu"}
SMALL = {"backend": "cpu", "seq_len": "40", "BLOCK_Q": "16", "BLOCK_KV": "16"}


class Class:
    """What a scenario needs. seeds: a number that nobody has asked for yet."""

    def __init__(self, server: Server, clients: int, minutes: float, story: str):
        self.server, self.clients, self.minutes, self.story = server, clients, minutes, story
        self._seed = random.Random(time.time()).randrange(10**8)

    def change(self) -> tuple[str, str]:
        self._seed += 1
        return "seed", str(self._seed)

    async def browsers(self) -> list[Browser]:
        return [Browser(self.server.url) for _ in range(self.clients)]


def said(answers: list[Answer]) -> str:
    told = sum(bool(answer.places) for answer in answers)
    farthest = max((max(answer.places, default=0) for answer in answers), default=0)
    return (
        f"  first word {percentiles([a.first for a in answers])}\n"
        f"  answer     {percentiles([a.whole for a in answers])}\n"
        f"  {dict(Counter(a.outcome for a in answers))}; {told} were told a place, the farthest {farthest}"
    )


def choices_of(path):
    page = STORIES[path].page(current())
    return set(page.default_state())


async def opened(room: Class) -> None:
    browsers, before = await room.browsers(), memory(room.server.pid).web
    used, begin = cpu_seconds(room.server.pid), time.monotonic()

    async def one(browser: Browser) -> tuple[float, Answer]:
        begin = time.monotonic()
        await browser.open(room.story)
        first = await browser.ask(room.story, SMALL)
        await browser.bundle(first.said["bundle"])
        return time.monotonic() - begin, first

    seconds = await asyncio.gather(*(one(browser) for browser in browsers))
    whole, used = time.monotonic() - begin, cpu_seconds(room.server.pid) - used
    print(
        f"{room.clients} sessions opened at once in {whole:.1f} s; web process {1000 * used / room.clients:.0f} ms each"
    )
    print(f"  page, first run and bundle {percentiles([whole for whole, _ in seconds])}")
    print(said([first for _, first in seconds]), flush=True)
    most = memory(room.server.pid).web
    await asyncio.gather(*(browser.__aexit__() for browser in browsers))
    await asyncio.sleep(REST)
    kept = memory(room.server.pid).web
    print(
        f"  web process {before:,.0f} MB before, {most:,.0f} MB while they are open, {kept:,.0f} MB {REST:g} s later:"
    )
    print(f"  {1000 * (kept - before) / room.clients:+,.0f} KB for each session that was open", flush=True)


async def starving(room: Class) -> None:
    """30 browsers of one address ask for long runs. What another browser waits for a short one."""
    browsers = [Browser(room.server.url) for _ in range(31)]
    await asyncio.gather(*(browser.open(room.story) for browser in browsers))
    long = [asyncio.create_task(browser.ask(room.story, LONG, room.change())) for browser in browsers[1:]]
    await asyncio.sleep(3)
    print("30 browsers ask for long runs, and another for a short one")
    print(said([await browsers[0].ask(room.story, SMALL, room.change())]), flush=True)
    for task in long:
        task.cancel()
    await asyncio.gather(*long, return_exceptions=True)
    await asyncio.gather(*(browser.__aexit__() for browser in browsers))


async def same(room: Class) -> None:
    browsers, change = await room.browsers(), room.change()
    one = await browsers[0].ask(room.story, SMALL, change)
    print(f"one asks for a change: answered in {one.whole:.1f} s ({one.outcome}); then all ask for it at once")
    used = cpu_seconds(room.server.pid)
    answers = await asyncio.gather(*(browser.ask(room.story, SMALL, change) for browser in browsers))
    used = cpu_seconds(room.server.pid) - used
    print(said(list(answers)))
    print(f"  web process {1000 * used / len(browsers):.1f} ms a change")
    change = room.change()
    answers = await asyncio.gather(*(browser.ask(room.story, SMALL, change) for browser in browsers))
    print("all ask at once for a change that nobody has asked for")
    print(said(list(answers)), flush=True)
    await asyncio.gather(*(browser.__aexit__() for browser in browsers))


async def different(room: Class) -> None:
    browsers = await room.browsers()

    async def one(number: int) -> Answer:
        await asyncio.sleep(SPREAD * number / len(browsers))
        return await browsers[number].ask(room.story, SMALL, room.change())

    used = cpu_seconds(room.server.pid)
    answers = await asyncio.gather(*(one(number) for number in range(len(browsers))))
    used = cpu_seconds(room.server.pid) - used
    print(
        f"{len(browsers)} different changes within {SPREAD:g} s; web process {1000 * used / len(browsers):.0f} ms each"
    )
    print(said(list(answers)), flush=True)
    await asyncio.gather(*(browser.__aexit__() for browser in browsers))


async def stepping(room: Class) -> None:
    """A step is the browser's alone: open pages ask for nothing."""
    browsers = await room.browsers()
    await asyncio.gather(*(browser.connect() for browser in browsers))
    used, begin = cpu_seconds(room.server.pid), time.monotonic()
    await asyncio.sleep(10)
    used = cpu_seconds(room.server.pid) - used
    share = 100 * used / (time.monotonic() - begin)
    print(f"{len(browsers)} open sessions that step: the web process uses {share:.1f} % of a core", flush=True)
    await asyncio.gather(*(browser.__aexit__() for browser in browsers))


async def soak(room: Class) -> None:
    end, answers, sessions = time.monotonic() + 60 * room.minutes, [], 0
    chance, memories, minutes = random.Random(0), [], []
    stories = [path for path in STORIES if "seed" in choices_of(path)]

    async def reader() -> None:
        nonlocal sessions
        while time.monotonic() < end:
            async with Browser(room.server.url) as browser:
                sessions += 1
                await browser.open()
                for _ in range(chance.randint(1, 4)):
                    story = chance.choice(stories)
                    small = SMALL if "seq_len" in choices_of(story) else {}
                    change = room.change() if chance.random() < 0.5 else ("seed", str(chance.randint(0, 5)))
                    answer = await browser.ask(story, small, change, wanted=lambda: time.monotonic() < end)
                    answers.append(answer)
                    if bundle := answer.said.get("bundle"):
                        await browser.bundle(bundle)
                    await asyncio.sleep(chance.uniform(*STAY))

    async def watch() -> None:
        begin = time.monotonic()
        while time.monotonic() < end:
            memories.append(memory(room.server.pid))
            minutes.append((time.monotonic() - begin) / 60)
            await asyncio.sleep(min(10, max(0.1, end - time.monotonic())))

    await asyncio.gather(watch(), *(reader() for _ in range(min(room.clients, 20))))
    print(f"soak of {room.minutes:g} minutes: {sessions} sessions, {len(answers)} changes")
    print(said(answers))
    for number in range(0, len(minutes), 6):
        kept = memories[number]
        print(f"  minute {minutes[number]:.0f}: web {kept.web:,.0f} MB, below it {kept.below:,.0f} in {kept.processes}")
    web, below = slope(minutes, [m.web for m in memories]), slope(minutes, [m.below for m in memories])
    print(f"  slope without the first tenth: web {web}, below it {below}")
    print(f"  zombies: {zombies(room.server.pid)}", flush=True)


async def faults(room: Class) -> None:
    """Workers die by kill -9 while runs go on: whose run it was is told; a question asked again is answered."""
    browsers = (await room.browsers())[:20]
    asked = [asyncio.create_task(browser.ask(room.story, SMALL, room.change())) for browser in browsers]
    killed = 0
    while killed < 6 and not all(task.done() for task in asked):
        await asyncio.sleep(1)
        for worker in room.server.workers()[:1]:
            os.kill(worker.pid, signal.SIGKILL)
            killed += 1
    answers = await asyncio.gather(*asked)
    print(f"{killed} workers killed by signal 9 while {len(browsers)} changes were made")
    print(said(list(answers)))
    for text in {answer.said["error"] for answer in answers if "error" in answer.said}:
        print(f"  told: {text[:200]}")
    again = await asyncio.gather(*(browser.ask(room.story, SMALL, room.change()) for browser in browsers[:4]))
    print("afterwards, four new changes")
    print(said(list(again)), flush=True)
    await asyncio.gather(*(browser.__aexit__() for browser in browsers))


SCENARIOS: dict[str, Callable] = {
    "open": opened,
    "same": same,
    "different": different,
    "starving": starving,
    "stepping": stepping,
    "soak": soak,
    "faults": faults,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help=f"{', '.join(SCENARIOS)}; all if none is given"
    )
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--story", default="tiling")
    parser.add_argument("--cache", default="", help="WARPGLASS_CACHE of the server; a new folder if none is given")
    parser.add_argument("--cold", action="store_true", help="no visitor comes first")
    args = parser.parse_args()
    server = Server(args.cache)
    room = Class(server, args.clients, args.minutes, args.story)

    async def warm() -> None:
        async with Browser(server.url) as browser:
            await browser.open()
            await browser.ask(args.story, SMALL)

    try:
        if not args.cold:
            uvloop.run(warm())
        for name in args.scenarios or SCENARIOS:
            uvloop.run(SCENARIOS[name](room))
    finally:
        server.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())

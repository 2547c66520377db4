"""A class that follows its leader, over the sockets that browsers use; figures printed: python -m tests.load.rooms

[--followers 150] [--rate 10] [--seconds 20]

The leader steps at the rate; a step's time is from the leader's message to each follower's. Then the leader's
connection is dropped, and the server is killed and started again: how long until all are at the same moment.
"""

import argparse
import asyncio
import json
import time
import urllib.request
from collections.abc import Callable

import websockets

from tests.load import figures
from tests.load.server import Server

LINK = "tiling?kernel=03_flash"
AGAIN = (0.3, 0.6, 1.2, 2.5, 5.0)  # seconds, as app/stage/shell/room.js waits


class Member:
    """Who is in the room, and comes back when the connection is lost. at: the newest moment; heard(step) is called."""

    def __init__(self, url, code, who, secret="", heard=lambda step: None):
        self.address = f"{url.replace('http', 'ws', 1)}/wg/room/{code}"
        self.hello = {"who": who} | ({"secret": secret} if secret else {})
        with urllib.request.urlopen(f"{url}/") as page:  # the server gives each browser its id
            self.headers = {"cookie": page.headers["set-cookie"].partition(";")[0]}
        self.heard, self.at, self.socket, self.messages = heard, -1, None, 0
        self.task = asyncio.create_task(self._stay())

    async def _stay(self) -> None:
        tries = 0
        while True:
            try:
                async with websockets.connect(
                    self.address, additional_headers=self.headers, open_timeout=30, ping_interval=None
                ) as self.socket:
                    await self.socket.send(json.dumps(self.hello))
                    tries = 0
                    async for text in self.socket:
                        at = json.loads(text).get("at")
                        self.messages += 1
                        if at and at["step"] != self.at:
                            self.at = at["step"]
                            self.heard(self.at)
            except (OSError, websockets.WebSocketException):
                pass
            self.socket = None
            await asyncio.sleep(AGAIN[min(tries, len(AGAIN) - 1)])
            tries += 1

    async def say(self, step: int) -> None:
        if self.socket:
            await self.socket.send(json.dumps({"at": {"link": LINK, "step": step, "pin": None}}))


async def until(true: Callable[[], bool], seconds: float = 60.0) -> float:
    begin = time.monotonic()
    while not true() and time.monotonic() - begin < seconds:
        await asyncio.sleep(0.01)
    return time.monotonic() - begin if true() else float("nan")


async def classroom(followers: int, rate: float, seconds: float) -> None:
    server = Server()
    port = int(server.url.rpartition(":")[2])
    with urllib.request.urlopen(urllib.request.Request(f"{server.url}/wg/rooms", b"{}", method="POST")) as answer:
        room = json.loads(answer.read())
    sent, waits = {}, []

    def heard(step: int) -> None:
        if step in sent:
            waits.append(time.monotonic() - sent[step])

    leader = Member(server.url, room["code"], "leader", room["secret"])
    begin = time.monotonic()
    all_here = [Member(server.url, room["code"], f"follower {n}", heard=heard) for n in range(followers)]
    await until(lambda: leader.socket is not None)
    await leader.say(0)
    await until(lambda: all(one.at == 0 for one in all_here))
    print(f"{followers} followers came in and were told the moment in {time.monotonic() - begin:.2f} s")
    used, began = figures.cpu_seconds(server.pid), time.monotonic()
    for step in range(1, int(rate * seconds) + 1):
        sent[step] = time.monotonic()
        await leader.say(step)
        await asyncio.sleep(max(0.0, began + step / rate - time.monotonic()))
    last = step
    await until(lambda: all(one.at == last for one in all_here))
    used, lasted = figures.cpu_seconds(server.pid) - used, time.monotonic() - began
    missed = followers * last - len(waits)
    print(f"{rate:g} steps/s: {figures.percentiles(waits)}; {missed} skipped as a newer one was there")
    print(f"web process: {100 * used / lasted:.0f} % of a core, {figures.memory(server.pid).web:.0f} MB")

    await leader.socket.close()
    back = await until(lambda: leader.socket is not None)
    await leader.say(last + 1)
    same = await until(lambda: all(one.at == last + 1 for one in all_here))
    print(f"the leader's connection was dropped: back after {back:.2f} s, all at the moment {same:.2f} s later")

    await asyncio.sleep(2)  # rooms are written once a second
    cache = server.cache
    server.process.kill()
    server.process.wait(30)
    for one in all_here:
        one.at = -1
    begin = time.monotonic()
    server = await asyncio.to_thread(Server, cache, port)
    up = time.monotonic() - begin
    told = await until(lambda: all(one.at == last + 1 for one in all_here))
    print(f"the server was killed: it answered again after {up:.2f} s; all at the same moment {told:.2f} s later")
    print(f"tracebacks in its log: {server.tracebacks()}")
    for one in (leader, *all_here):
        one.task.cancel()
    print(f"processes that outlived it: {len(server.stop())}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--followers", type=int, default=150)
    parser.add_argument("--rate", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=20)
    given = parser.parse_args()
    asyncio.run(classroom(given.followers, given.rate, given.seconds))

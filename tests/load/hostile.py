"""Sends links that nobody should send to a server of its own, and prints what came of them:

python -m tests.load.hostile [--seed 0] [--count 2000] [--at-once 8] [--time-limit 60]

A link is answered when it has its bundle, a sentence that says why not, or a place in the queue after which it is given
up; it is slow when the first word, or the answer of one that was given a place at once, takes over ten seconds.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from urllib.parse import quote, urlencode

import httpx2

from app.web import modules
from tests.load.client import PAUSE
from tests.load.figures import cpu_seconds, memory, percentiles
from tests.load.links import ROUTES, Link, allowed, hostile
from tests.load.server import Server

FIRST_WORD = 10.0  # seconds
GIVEN_UP = 30.0  # seconds after which a link that was told its place is stopped


async def send(http: httpx2.AsyncClient, link: Link) -> tuple[str, float, float]:
    """What came of it, seconds to the first word and to the end."""
    begin, first, query = time.monotonic(), 0.0, urlencode(link.query, errors="surrogatepass")
    while True:
        response = await http.get(f"/wg/ask/{link.story}?{query}")
        first = first or time.monotonic() - begin
        try:
            said = response.json()
        except ValueError:
            return f"no words ({response.status_code})", first, time.monotonic() - begin
        if response.status_code >= 500:
            return f"fault: {said['error']}", first, time.monotonic() - begin
        if "waiting" not in said:
            return said.get("title", "bundle" if "bundle" in said else "nothing"), first, time.monotonic() - begin
        key = said["waiting"]["key"]
        if time.monotonic() - begin > GIVEN_UP:
            await http.post("/wg/stop", params={"key": key})
            return "given up", first, time.monotonic() - begin
        more = {name: text for name, text in link.query if name == "_part"}
        query = urlencode({**said["link"], **more, "_key": key})
        await asyncio.sleep(PAUSE)


async def all_of(url: str, links: list[Link], at_once: int) -> list[tuple[Link, str, float, float]]:
    found, waiting = [], asyncio.Queue()
    for link in links:
        waiting.put_nowait(link)
    async with httpx2.AsyncClient(base_url=url, timeout=120) as http:

        async def sender() -> None:
            while not waiting.empty():
                link = waiting.get_nowait()
                try:
                    found.append((link, *await send(http, link)))
                except (httpx2.HTTPError, httpx2.InvalidURL) as error:  # longer than the client sends
                    found.append((link, f"lost: {type(error).__name__}", 0.0, 0.0))

        await asyncio.gather(*(sender() for _ in range(at_once)))
    return found


async def routes(url: str) -> Counter:
    """The status of every address beside the pages'."""
    found: Counter = Counter()
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        for route in ROUTES:
            path = quote(route.replace("VERSION", modules.version()), safe="/%")
            status = (await http.get(httpx2.URL(url).copy_with(raw_path=path.encode()))).status_code
            found[status] += 1
            if status >= 500:
                print(f"  {status} {route[:100]}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--time-limit", default="60", help="WARPGLASS_TIME_LIMIT of the server, in seconds")
    parser.add_argument("--cache", default="", help="WARPGLASS_CACHE of the server; a new folder if none is given")
    args = parser.parse_args()
    server = Server(args.cache, WARPGLASS_TIME_LIMIT=args.time_limit)
    try:
        print(f"routes: {dict(asyncio.run(routes(server.url)))}", flush=True)
        for maker in (hostile, allowed):
            before, used, begin = memory(server.pid), cpu_seconds(server.pid), time.monotonic()
            found = asyncio.run(all_of(server.url, list(maker(args.seed, args.count)), args.at_once))
            after = memory(server.pid)
            took, used = time.monotonic() - begin, cpu_seconds(server.pid) - used
            each = 1000 * used / len(found)
            print(f"{maker.__name__}: {len(found)} links in {took:.0f} s, {each:.1f} ms of web CPU each")
            print(f"  first word: {percentiles([first for _, _, first, _ in found])}")
            print(f"  end:        {percentiles([whole for _, _, _, whole in found])}")
            print(f"  {dict(Counter(said for _, said, _, _ in found))}")
            print(f"  web process: {before.web:,.0f} -> {after.web:,.0f} MB")
            print(f"  below it:    {before.below:,.0f} -> {after.below:,.0f} MB")
            slow = [one for one in found if one[2] > FIRST_WORD or one[3] > FIRST_WORD or ":" in one[1]]
            for link, said, first, whole in sorted(slow, key=lambda one: -one[3])[:25]:
                print(f"  {said[:60]}, first word {first:.1f} s, end {whole:.1f} s: {str(link)[:250]}")
    finally:
        server.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A browser as the server sees it, without one: a page's files, Streamlit's websocket, our own questions."""

import asyncio
import gzip
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

OPENED = ("/_stcore/health", "/_stcore/host-config")
PAUSE = 0.02  # seconds between two questions for the same, as app/stage/shell/fetching.js waits
PATIENCE = 300.0  # seconds after which a question counts as lost


@dataclass
class Answer:
    """How a question went. first: seconds to the first word, a place in the queue or an answer; whole: to the bundle or
    the error; places: that were told. said: the last answer. lost: why there is none."""

    first: float = 0.0
    whole: float = 0.0
    places: list[int] = field(default_factory=list)
    said: dict[str, Any] = field(default_factory=dict)
    lost: str = ""

    @property
    def outcome(self) -> str:
        """bundle, lost, or the title of the error."""
        return "lost" if self.lost else "bundle" if self.said.get("bundle") else self.said.get("title", "no title")


def unpacked(response: aiohttp.ClientResponse, body: bytes) -> bytes:
    """A body, whether it came packed or not."""
    return gzip.decompress(body) if response.headers.get("content-encoding") == "gzip" else body


class Browser:
    """One page of one reader. Use it with `async with`, where a loop runs; `open` is what a page load asks for."""

    def __init__(self, url: str):
        self.who = secrets.token_hex(5)
        limits, patience = aiohttp.TCPConnector(limit=6), aiohttp.ClientTimeout(PATIENCE)
        self._http = aiohttp.ClientSession(
            url,
            connector=limits,
            timeout=patience,
            raise_for_status=True,
            auto_decompress=False,
            cookie_jar=aiohttp.CookieJar(unsafe=True),  # of an address without a name too: each has an id of its own
        )  # a hundred browsers that unpack in one process would measure themselves
        self._socket: Any = None

    async def __aenter__(self) -> "Browser":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._socket:
            await self._socket.close()
        await self._http.close()

    async def open(self, path: str = "") -> float:
        """The page, its scripts and ours, and Streamlit's first run; seconds."""
        begin = time.monotonic()
        async with self._http.get(f"/{path}") as response:
            html = unpacked(response, await response.read()).decode()
        files = dict.fromkeys(re.findall(r'(?:src|href)="\.?(/[^"]+\.(?:js|css))"', html))
        await asyncio.gather(*map(self._read, (*OPENED, *files)))  # over six connections, as browsers do
        await self.connect()
        return time.monotonic() - begin

    async def connect(self) -> None:
        """Streamlit's websocket, until the page's script has run once."""
        self._socket = await self._http.ws_connect("/_stcore/stream", protocols=["streamlit"], max_msg_size=0)
        asked = BackMsg()
        asked.rerun_script.query_string = ""
        await self._socket.send_bytes(asked.SerializeToString())
        said = ForwardMsg()
        while said.WhichOneof("type") != "script_finished":
            said.ParseFromString(await self._socket.receive_bytes(timeout=60))

    async def ask(
        self,
        story: str,
        params: Mapping[str, str],
        change: tuple[str, str] | None = None,
        wanted: Callable[[], bool] = lambda: True,
        **more: str,
    ) -> Answer:
        """Asks until there is a bundle or an error, as fetching.js does; more: _part, _carried, _again."""
        made, begin, key = Answer(), time.monotonic(), {}
        if change:
            more |= {"_set": change[0], "_to": change[1]}
        while True:
            query = {**params, "_who": self.who, **more, **key}
            try:
                async with self._http.get(f"/wg/ask/{story}", params=query, raise_for_status=False) as response:
                    made.said = json.loads(unpacked(response, await response.read()))
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                made.lost = f"{type(error).__name__}: {error}"
                return made
            made.first = made.first or time.monotonic() - begin
            made.whole = time.monotonic() - begin
            waiting = made.said.get("waiting")
            if not waiting or not wanted():
                return made
            if made.whole > PATIENCE:
                made.lost = f"no answer in {PATIENCE:g} s"
                return made
            made.places.append(waiting["place"])
            params, key = made.said["link"], {"_key": waiting["key"]}
            more = {name: text for name, text in more.items() if name == "_part"}
            await asyncio.sleep(PAUSE)

    async def bundle(self, name: str) -> int:
        """Fetches it; how many bytes it holds."""
        return len(await self._read(f"/wg/bundle/{name}"))

    async def _read(self, path: str) -> bytes:
        async with self._http.get(path) as response:
            return await response.read()

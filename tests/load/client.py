"""A browser as the server sees it, without one: a page's files, Streamlit's websocket, our own questions."""

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

OPENED = ("/_stcore/health", "/_stcore/host-config")
PAUSE = 0.02  # seconds between two questions for the same, as app/stage/bundles.js waits
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


class Browser:
    """One page of one reader. Use it with `async with`; `open` is what a page load asks for."""

    def __init__(self, url: str):
        self.url, self.who = url, secrets.token_hex(5)
        limits = httpx2.Limits(max_connections=6, max_keepalive_connections=6)
        self._http = httpx2.AsyncClient(base_url=url, timeout=PATIENCE, limits=limits, verify=False)
        self._socket: Any = None

    async def __aenter__(self) -> "Browser":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._socket:
            await self._socket.close()
        await self._http.aclose()

    async def open(self, path: str = "") -> float:
        """The page, its scripts and ours, and Streamlit's first run; seconds."""
        begin = time.monotonic()
        html = (await self._http.get(f"/{path}")).raise_for_status().text
        files = dict.fromkeys(re.findall(r'(?:src|href)="\.?(/[^"]+\.(?:js|css))"', html))
        for at in (*OPENED, *files):
            (await self._http.get(at)).raise_for_status()
        await self.connect()
        return time.monotonic() - begin

    async def connect(self) -> None:
        """Streamlit's websocket, until the page's script has run once."""
        address = self.url.replace("http", "ws", 1) + "/_stcore/stream"
        self._socket = await websockets.connect(address, subprotocols=["streamlit"], max_size=None, open_timeout=60)  # type: ignore[list-item]
        asked = BackMsg()
        asked.rerun_script.query_string = ""
        await self._socket.send(asked.SerializeToString())
        said = ForwardMsg()
        while said.WhichOneof("type") != "script_finished":
            said.ParseFromString(await asyncio.wait_for(self._socket.recv(), 60))

    async def ask(
        self,
        story: str,
        params: Mapping[str, str],
        change: tuple[str, str] | None = None,
        wanted: Callable[[], bool] = lambda: True,
        **more: str,
    ) -> Answer:
        """Asks until there is a bundle or an error, as bundles.js does; more: _part, _carried, _again."""
        made, begin, key = Answer(), time.monotonic(), {}
        if change:
            more |= {"_set": change[0], "_to": change[1]}
        while True:
            query = {**params, "_who": self.who, **more, **key}
            try:
                response = await self._http.get(f"/wg/ask/{story}", params=query)
                made.said = response.json()
            except (httpx2.HTTPError, ValueError) as error:
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
        """Fetches it; its bytes, as they came."""
        response = await self._http.get(f"/wg/bundle/{name}")
        return len(response.raise_for_status().content)

    async def stop(self, key: str) -> None:
        await self._http.post("/wg/stop", params={"key": key, "who": self.who})

    async def get(self, path: str) -> httpx2.Response:
        return await self._http.get(path)

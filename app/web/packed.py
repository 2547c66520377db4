"""Packs the files that every browser fetches first, once, because a class opens the page at one moment."""

import asyncio
import mimetypes
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.store import disk

PACKED = {
    "cache-control": "public, max-age=31536000, immutable",
    "content-encoding": "gzip",
    "vary": "accept-encoding",
}


@lru_cache(maxsize=256)
def packed(text: str) -> bytes:
    return disk.pack(text.encode())


class Files:
    """Middleware for the immutable files of a folder, below the address `at`.

    Streamlit reads these files from the disk for each request and sends them unpacked. Here each file is packed once.
    first: the files of every page. A thread packs them at the start of the server.
    """

    def __init__(self, app: ASGIApp, folder: Path, at: str, first: Iterable[str] = ()):
        self.app = app
        self.known = {
            f"{at}{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.is_file()
        }
        self.held: dict[str, Future[Response]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._pack_first, args=([f"{at}{name}" for name in first],), daemon=True).start()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" and scope["method"] == "GET" else ""
        if path not in self.known or "gzip" not in Headers(scope=scope).get("accept-encoding", ""):
            return await self.app(scope, receive, send)
        found = self.held.get(path)
        answer = found.result() if found and found.done() else await self._packed(path)
        await answer(scope, receive, send)

    async def _packed(self, path: str) -> Response:
        with self._lock:
            packed, own = self.held.get(path), Future[Response]()
            if packed is None:
                self.held[path] = own
        if packed is None:
            await run_in_threadpool(self._pack, path, own)
        return await asyncio.wrap_future(packed or own)

    def _pack(self, path: str, future: Future[Response]) -> None:
        try:
            kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
            future.set_result(Response(disk.pack(self.known[path].read_bytes()), media_type=kind, headers=PACKED))
        except BaseException as error:
            with self._lock:
                del self.held[path]
            future.set_exception(error)

    def _pack_first(self, paths: list[str]) -> None:
        for path in paths:
            with self._lock:
                packed, own = self.held.get(path), Future[Response]()
                if packed or path not in self.known:
                    continue
                self.held[path] = own
            self._pack(path, own)

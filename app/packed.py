"""What every browser fetches when it opens a page: packed once and held, as a class opens it at the same moment."""

import mimetypes
from functools import lru_cache
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app import store

PACKED = {
    "cache-control": "public, max-age=31536000, immutable",
    "content-encoding": "gzip",
    "vary": "accept-encoding",
}


@lru_cache(maxsize=256)
def packed(text: str) -> bytes:
    return store.pack(text.encode())


class Files:
    """Middleware: the files of a folder that do not change, below the address `at`. Streamlit, whose files they are,
    reads them from the disk for each request and sends them unpacked."""

    def __init__(self, app: ASGIApp, folder: Path, at: str):
        self.app = app
        self.known = {
            f"{at}{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.is_file()
        }
        self.held: dict[str, bytes] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" and scope["method"] == "GET" else ""
        if path not in self.known or "gzip" not in Headers(scope=scope).get("accept-encoding", ""):
            return await self.app(scope, receive, send)
        if path not in self.held:
            self.held[path] = await run_in_threadpool(lambda: store.pack(self.known[path].read_bytes()))
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        await Response(self.held[path], media_type=kind, headers=PACKED)(scope, receive, send)

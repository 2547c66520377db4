"""The route that opens a file of another profiler.

POST /wg/open/KIND?file=NAME   the bytes of the file -> JSON: {name} of the opened file in the store, or {error}.
                               KIND is trace (the page Pipeline) or stalls (the page Source)

A worker reads the file. The web process only stores the record that comes back. Only our own pages can send a file, and
at most MOST_OPEN files at a time are in the memory of the server.
"""

import asyncio

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from app.guards import audit, browsers
from app.guards.guard import body_of, ours
from app.store import disk
from kernels.errors import FAULT, RunError, WarpglassError
from kernels.measure.elsewhere import packed
from kernels.measure.elsewhere.record import MOST_BYTES
from kernels.run import workers

SECONDS = 30.0  # of a worker
MOST_OPEN = 4
_open = 0


@ours
async def opened(request: Request) -> Response:
    global _open
    kind, file = request.path_params["kind"], request.query_params.get("file", "")
    if kind not in ("trace", "stalls"):
        return JSONResponse({"error": "A file is opened as a trace or as stalls. Reload the page."}, 404)
    if _open >= MOST_OPEN:
        return JSONResponse({"error": f"{MOST_OPEN} files are being opened. Try again in a moment."}, 429)
    _open += 1
    try:
        data = await body_of(request, MOST_BYTES)
        if data is None:
            said = f"{file:.80} is larger than {MOST_BYTES >> 20} MB. Trace fewer blocks, and open it again."
            return JSONResponse({"error": said}, 413)
        client = browsers.page_of(request, "").partition("/")[0]
        job = workers.submit(
            packed.opened, kind, data, file, backend="cpu", title="Opening a file", time_limit=SECONDS, client=client
        )
        found = await asyncio.wrap_future(job)
        if not isinstance(found, bytes) or not found.startswith(packed.MAGIC):  # another kernel of the worker wrote it
            raise RunError(f"The worker sent {found!r:.60} in place of the file. Open it again.")
        return JSONResponse({"name": await run_in_threadpool(disk.keep, found)})
    except WarpglassError as error:
        return JSONResponse({"error": str(error)}, 400)
    except Exception as error:
        audit.write(error)
        return JSONResponse({"error": f"{file:.80} could not be opened. {FAULT}"}, 500)
    finally:
        _open -= 1


def routes(base: str) -> list[BaseRoute]:
    """base: the app's path below the host."""
    return [Route(f"{base}/wg/open/{{kind}}", opened, methods=["POST"])]

"""Vega, Vega-Lite and vega-embed as one script, from vl-convert, which brings them; made once and kept. No request
goes to the internet."""

import threading
from importlib.metadata import version

import vl_convert

from app.store import disk
from kernels.errors import RunError
from kernels.run import workers

_making = threading.Lock()
VERSION = "6.4"  # of Vega-Lite, as Altair's schema


def bundle() -> bytes:
    """The script, gzip bytes. It takes vl-convert some seconds the first time, in a worker. CacheError where it cannot
    be kept."""
    with _making:  # a class asks for it at once
        for name in disk.noted(_key()) or ():
            if data := disk.read(name):
                return data
        data = workers.submit(make, backend="cpu", title="Preparing the charts").result()
        if not isinstance(data, bytes):
            raise RunError(f"The worker sent {data!r:.60} in place of the charts' script. Load the page again.")
        disk.note(_key(), [disk.keep(data)])
        return data


def make() -> bytes:
    """The script, made; the server keeps it, as the worker may be another host's."""
    text = vl_convert.javascript_bundle(None, VERSION)  # type: ignore[arg-type]  # None: the libraries alone
    return disk.pack(text.encode())


def made_by() -> str:
    """Of which version the script is, and who made it."""
    return f"{VERSION}-{version('vl-convert-python')}"


def _key() -> str:
    return f"vega-{made_by()}"

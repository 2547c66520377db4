"""Vega, Vega-Lite and vega-embed as one script from the package vl-convert. It is made once and stored, without a
request to the internet."""

import threading
from importlib.metadata import version

import vl_convert

from app.store import disk
from kernels.errors import RunError
from kernels.run import workers

_making = threading.Lock()
VERSION = "6.4"  # of Vega-Lite, as Altair's schema


def bundle() -> bytes:
    """The script, gzip bytes. The first time, a worker needs some seconds. Raises CacheError without room."""
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
    """Makes the script. The server stores it, because the worker can be on another host."""
    text = vl_convert.javascript_bundle(None, VERSION)  # type: ignore[arg-type]  # None: only the libraries
    return disk.pack(text.encode())


def made_by() -> str:
    return f"{VERSION}-{version('vl-convert-python')}"


def _key() -> str:
    return f"vega-{made_by()}"

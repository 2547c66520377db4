"""Frames on a worker's pipe: a length, and that many bytes. The reader has a deadline and refuses long frames."""

import os
import struct
import time
from collections.abc import Callable, Sequence

import numpy as np

from kernels.run.messages.decode import Unreadable

_SIZE = struct.Struct("<Q")
most_bytes = 2**32  # accepted bytes of a frame. The default is for runs with long traces


def send(descriptor: int, parts: Sequence[bytes | memoryview]) -> None:
    for part in (_SIZE.pack(sum(map(len, parts))), *parts):
        view = memoryview(part)
        while view:
            view = view[os.write(descriptor, view) :]


def receive(descriptor: int, end: float, awake: Callable[[float], bool]) -> memoryview | None:
    """The bytes of the next frame, or None at `end` (time.monotonic).

    awake: waits for bytes, at most so many seconds. Returns whether they came.
    Raises EOFError after the last frame, and Unreadable for a frame that is too long."""
    head = _exactly(descriptor, _SIZE.size, end, awake)
    if head is None:
        return None
    (size,) = _SIZE.unpack(head)
    if size > most_bytes:
        raise Unreadable(f"its frame has {size:,} bytes, and this process accepts {most_bytes:,}")
    return _exactly(descriptor, size, end, awake)


def _exactly(descriptor: int, size: int, end: float, awake: Callable[[float], bool]) -> memoryview | None:
    view = rest = np.empty(size, np.uint8).data
    while rest:
        if not awake(max(0.0, end - time.monotonic())):
            return None
        count = os.readv(descriptor, [rest])
        if not count:
            raise EOFError
        rest = rest[count:]
    return view

"""Reads bytes of a file in order, and never beyond their end."""

import gzip
import io
import zlib

from kernels.errors import TraceError
from kernels.measure.elsewhere.record import MOST_BYTES


class Cursor:
    """A place in bytes. Each method reads from there on, and raises TraceError at the end of the bytes.

    file: its name, for errors."""

    def __init__(self, data: bytes, file: str):
        self.data, self.file, self.at = memoryview(data), file, 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise TraceError(
                f"{self.file} ends too early: byte {self.at:,} starts {size:,} bytes, and {self.left:,} follow. "
                "Copy the file again."
            )
        self.at += size
        return bytes(self.data[self.at - size : self.at])

    def number(self, size: int) -> int:
        """A little-endian whole number from 0 on of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def varuint(self) -> int:
        """An unsigned LEB128 number of at most 64 bits."""
        found = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                if found < 2**64:
                    return found
                break
        raise TraceError(f"{self.file}: the number before byte {self.at:,} has more than 64 bits. Copy the file again.")

    def text(self, size: int) -> str:
        """UTF-8, with a sign in place of what is none."""
        return self.take(size).decode(errors="replace")


def inflated(data: bytes, file: str) -> bytes:
    """Unpacks a stream of zlib. Raises TraceError for a damaged one, or above MOST_BYTES."""
    unpacking = zlib.decompressobj()
    try:
        found = unpacking.decompress(data, MOST_BYTES)
    except zlib.error as error:
        raise TraceError(f"{file} cannot be unpacked: {error}. Copy the file again.") from None
    if unpacking.unconsumed_tail:
        raise _too_large(file)
    if not unpacking.eof:
        raise TraceError(f"{file} ends within its packed part. Copy the file again.")
    return found


def unzipped(data: bytes, file: str) -> bytes:
    """The content of a .gz file; other bytes as they are. Raises TraceError as `inflated`."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        found = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{file} cannot be unpacked: {error}. Copy the file again.") from None
    if len(found) > MOST_BYTES:
        raise _too_large(file)
    return found


def _too_large(file: str) -> TraceError:
    return TraceError(f"{file} unpacks to more than {MOST_BYTES >> 20} MB. Trace fewer blocks, and open it again.")

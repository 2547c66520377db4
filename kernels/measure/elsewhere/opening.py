"""Opens a file of another profiler: the reader by its content, never by its name."""

import json
from pathlib import PurePath

from kernels.errors import TraceError
from kernels.measure.elsewhere import events, iket, nanotrace, ncu, perfetto
from kernels.measure.elsewhere.cursor import unzipped
from kernels.measure.elsewhere.record import MOST_BYTES, Stalls, Trace, short

MOST_VALUES = 4_000_000  # of a JSON text. An event of IKET takes about 25
TRACES = "JSON of IKET, a trace of Perfetto (FlashInfer's profiler, IKET), JSON trace events, or .nanotrace"
REPORT = "the Source page of Nsight Compute as CSV"


def trace(data: bytes, name: str) -> Trace:
    """The bars of a file. name: of the file, for people. Raises TraceError, or BackendUnavailable without the perfetto
    wheel."""
    data, file = _content(data, name)
    if nanotrace.is_mine(data):
        return nanotrace.read(data, file)
    if data.lstrip()[:1] in (b"{", b"["):
        root = _json(data, file)
        for reader in (iket, events):
            if reader.is_mine(root):
                return reader.read(root, file)
    elif perfetto.is_mine(data):
        return perfetto.read(data, file)
    elif ncu.is_mine(data):
        raise TraceError(f"{file} is {REPORT}. Open it on the page Source.")
    raise TraceError(f"{file} starts with {data[:16]!r}. Open {TRACES}.")


def stalls(data: bytes, name: str) -> Stalls:
    """The samples of a report. Raises TraceError."""
    data, file = _content(data, name)
    if ncu.is_mine(data):
        return ncu.read(data, file)
    raise TraceError(f"{file} starts with {data[:16]!r}. Open {REPORT}. {ncu.HOW}")


def _content(data: bytes, name: str) -> tuple[bytes, str]:
    """The unpacked bytes and a short name. Raises TraceError for an empty or too large file."""
    file = short(PurePath(name.replace("\\", "/")).name) or "the file"
    if len(data) > MOST_BYTES:
        raise TraceError(f"{file} has {len(data):,} bytes. At most {MOST_BYTES >> 20} MB are read. Trace fewer blocks.")
    if not data.strip():
        raise TraceError(f"{file} is empty. Write it again with the profiler.")
    return unzipped(data, file), file


def _json(data: bytes, file: str) -> object:
    values = data.count(b",") + data.count(b"[") + data.count(b"{")
    if values > MOST_VALUES:
        raise TraceError(f"{file} holds about {values:,} values. At most {MOST_VALUES:,} are read. Trace fewer blocks.")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:  # of the text, of its encoding, or of a number's length
        raise TraceError(f"{file} cannot be read as JSON: {str(error) or 'it is nested too deep':.80}.") from None

"""The opened files of other profilers, in the store of bundles (disk.py): each by the name of its content."""

from functools import lru_cache

from app.store import disk
from kernels.errors import ProblemError, TraceError
from kernels.measure.elsewhere import packed
from kernels.measure.elsewhere.packed import Block, Report
from kernels.measure.elsewhere.record import Stalls, Trace

GONE = "The file of this link is not kept on this server any more. Open it again."


@lru_cache(maxsize=32)
def block(name: str, number: int) -> Block:
    """A group of an opened trace. Raises ProblemError if the store lacks the file, or if it is a report."""
    found = _of(name)
    if isinstance(found, Stalls):
        raise ProblemError(f"{found.file} is for the page Source. Open a trace here.")
    return packed.block(found, number)


@lru_cache(maxsize=32)
def report(name: str) -> Report:
    """The samples of an opened report. Raises ProblemError if the store lacks the file, or if it is a trace."""
    found = _of(name)
    if isinstance(found, Trace):
        raise ProblemError(f"{found.file} is for the page Pipeline. Open a report here.")
    return packed.report(found)


@lru_cache(maxsize=4)  # a question asks for a file a few times
def _of(name: str) -> Trace | Stalls:
    data = disk.read(name)
    if data is None:
        raise ProblemError(GONE)
    try:
        return packed.unpack(data)
    except TraceError as error:
        raise ProblemError(str(error)) from None

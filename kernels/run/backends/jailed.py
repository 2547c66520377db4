"""A stranger's launches on the CPU: in a confined child (kernels/jail/in_place.py), with shared arrays."""

import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kernels.errors import RunError, RunTimeout
from kernels.jail import Limits, in_place

MEMORY_BYTES = 2**30  # that the launches add: stacks of fibers, the library
SECONDS = 60.0  # of launches without a limit
GRACE = 2.0  # seconds beyond the limit: the shim stops a launch at its limit and names its line
Zeros = Callable[..., np.ndarray]  # of a shape and a type, as np.zeros
_FINE, _STOPPED, _LATE = b"+", b"-", b"t"  # the first byte of an answer


def zeros(shape: tuple[int, ...] | int, dtype: np.dtype[Any] | type) -> np.ndarray:
    """A zero array that a child shares with this process."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(mmap.mmap(-1, max(size, 1)), np.uint8)[:size].view(dtype).reshape(shape)


@contextmanager
def memory(arrays: dict[str, np.ndarray], is_jailed: bool) -> Iterator[tuple[Zeros, dict[str, np.ndarray]]]:
    """The memory of launches: a function for further zero arrays, and the arrays of the launches.

    is_jailed: then all of it is shared with the jail, and the caller's arrays get their values at the end.
    """
    if not is_jailed:
        yield np.zeros, arrays
        return
    shared = {name: zeros(array.shape, array.dtype) for name, array in arrays.items()}
    for name, array in arrays.items():
        shared[name][...] = array
    yield zeros, shared
    for name, array in shared.items():
        arrays[name][...] = array


def run(launches: Callable[[], None], library: Path, seconds: float | None) -> None:
    """Runs launches() in the jail. It may read the folder of its library.

    seconds: until its limit.
    Raises what it raises: RunError or RunTimeout. Raises RunError too if the kernel ended its process.
    """

    def answer() -> bytes:
        try:
            launches()
        except RunError as error:
            return (_LATE if isinstance(error, RunTimeout) else _STOPPED) + str(error).encode()
        return _FINE

    said = ask(answer, library, seconds)
    text = said[1:4096].decode(errors="replace")
    if said[:1] == _LATE:
        raise RunTimeout(text)
    if said != _FINE:
        raise RunError(text if said[:1] == _STOPPED else "The kernel wrote into the answer of its jail.")


def ask(question: Callable[[], bytes], library: Path, seconds: float | None) -> bytes:
    """question() in the jail. Trust no byte of the answer. Raises RunError if the kernel ended its process."""
    limits = Limits(max(0.0, SECONDS if seconds is None else seconds) + GRACE, MEMORY_BYTES, 0)
    try:
        return in_place.call(question, [library.parent], limits)
    except in_place.Ended as ended:
        raise _error(ended, limits) from None


def _error(ended: in_place.Ended, limits: Limits) -> RunError:
    if ended.late:
        return RunTimeout(
            f"The kernel ran past its limit of {limits.seconds:g} s in the jail and was stopped. Look for an endless "
            "loop, or choose a smaller problem."
        )
    how = f"by signal {-ended.code}" if ended.code < 0 else f"with exit code {ended.code}"
    return RunError(
        f"The kernel ended its process in the jail ({how}). It may have written outside an array, called exit() or "
        "abort(), or needed more memory than the jail gives."
    )

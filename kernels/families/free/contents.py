"""The values of a tensor before a run, as the key `initial` of an opening comment gives them.

A text (poison, zero), or a table with one key:
- values = [1, 2, 3], or packed = "...": these values, again and again until the tensor is full. `packed` has the bytes
  of the elements, compressed by zlib, in base64.
- ramp = [first, step]: first + step * n for element n. With a third number, n starts again after so many elements.
- random = [low, high]: uniform between the two, whole numbers with both ends.
- normal = [mean, deviation].
- sorted = [low, high]: such random numbers in rising order, the first low and the last high.
- permutation = [first]: the numbers from first on, each once, in any order.
"""

import base64
import binascii
import zlib
from typing import Any

import numpy as np

from kernels.core.dtypes import element_type, poison
from kernels.core.fields import nearest, quoted
from kernels.errors import FrontMatterError

KINDS = {"ramp": (2, 3), "random": (2, 2), "normal": (2, 2), "sorted": (2, 2), "permutation": (1, 1)}
"""The key of a table of numbers -> their least and most count."""
MOST_PACKED = 2**20  # bytes of packed values, unpacked
Initial = str | tuple[Any, ...]
"""An initial value as a hashable: a text, or (key, numbers or text)."""


def read(file: str, where: str, value: object, dtype: str) -> Initial:
    """The initial value of a key. Raises FrontMatterError. where: the key."""
    if isinstance(value, str):
        if value not in ("poison", "zero"):
            raise FrontMatterError(f"{file}: {where} is {quoted(value)}. It must be poison, zero or a table.")
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise FrontMatterError(f"{file}: {where} is {quoted(value)}. It must be poison, zero or a table with one key.")
    ((key, held),) = value.items()
    known = (*KINDS, "values", "packed")
    if key not in known:
        raise FrontMatterError(
            f"{file}: there is no key {where}.{key}. There are {', '.join(known)}.{nearest(key, known)}"
        )
    if key == "packed":
        _unpacked(file, where, held, dtype)
        return (key, held)
    numbers = isinstance(held, list) and all(type(one) in (int, float) for one in held)
    least, most = KINDS.get(key, (1, 1000))
    if not numbers or not least <= len(held) <= most:
        count = f"{least}" if least == most else f"{least} to {most}"
        raise FrontMatterError(f"{file}: {where}.{key} is {quoted(held)}. It must be a list of {count} numbers.")
    return (key, *held)


def made(initial: Initial, shape: tuple[int, ...], dtype: str, seed: tuple[int, int]) -> np.ndarray:
    """The array of an initial value. seed: of the run, and of the tensor."""
    kind, count = element_type(dtype), int(np.prod(shape, dtype=np.int64))
    if isinstance(initial, str):
        return np.full(shape, 0 if initial == "zero" else poison(dtype), kind.numpy)
    key, *numbers = initial
    rng = np.random.default_rng(seed)
    if key == "packed":
        found = _unpacked("", "", numbers[0], dtype)
    elif key == "values":
        found = np.array(numbers).astype(kind.numpy)
    elif key == "ramp":
        place = np.arange(count, dtype=np.int64) % int(numbers[2] if len(numbers) > 2 else max(count, 1))
        found = (numbers[0] + numbers[1] * place).astype(kind.numpy)
    elif key == "permutation":
        found = (int(numbers[0]) + rng.permutation(count)).astype(kind.numpy)
    elif key == "normal":
        found = (numbers[0] + numbers[1] * rng.standard_normal(count, dtype=np.float32)).astype(kind.numpy)
    else:
        low, high = numbers
        if kind.is_float:
            found = (low + (high - low) * rng.random(count, dtype=np.float32)).astype(kind.numpy)
        else:
            found = rng.integers(int(low), int(high) + 1, count).astype(kind.numpy)
        if key == "sorted" and count:
            found = np.sort(found)
            found[0], found[-1] = low, high
    return np.resize(found, shape) if found.size else np.zeros(shape, kind.numpy)


def packed(values: np.ndarray) -> str:
    """The values of an array as the key `packed`."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(values).tobytes(), 9)).decode()


def _unpacked(file: str, where: str, text: object, dtype: str) -> np.ndarray:
    """The values of a key `packed`. Raises FrontMatterError for anything but whole elements."""
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(str(text), validate=True), MOST_PACKED)
        return np.frombuffer(data, element_type(dtype).numpy).copy()
    except (binascii.Error, zlib.error, ValueError) as error:
        raise FrontMatterError(
            f"{file}: {where}.packed cannot be read ({error}). Write it with kernels open."
        ) from None

"""The threads of a block, from a kernel's own text."""

import re
from collections.abc import Callable
from itertools import permutations

ANY_1D, ANY_2D = ["256"], ["16", "16"]
GUESS = ["128"]
ANY_SIZE = "any size fits its indices"
NO_SIZE = "its text fixes none"
MOST_SIZES = 4  # of a kernel, for a search of its grid
_BOUND = re.compile(r"__launch_bounds__\s*\(\s*(\w+)")
_STEP = re.compile(r"blockIdx\.[xyz]\s*\*\s*(\w+)\s*\+\s*threadIdx\.([xyz])\b(?!\s*\*)")
_WALK = re.compile(r"\bfor\s*\([^;]*;[^;]*;\s*(\w+)\s*\+=\s*(\w+)\s*\)")
_NAMED = re.compile(
    r"\b((?:BLOCK|THREADS?|NUM|BLOCKDIM)_?(?:SIZE|DIM|THREADS|PER_BLOCK)\w*|THREADS|NTHREADS|WARP_SIZE)\b"
)


def block_of(body: str, number: Callable[[str], str | None]) -> tuple[list[str], str, bool]:
    """(sizes, source, whether the text gives them). number: a name's number in the text, or None."""
    if "threadIdx" not in body and "thread_rank" not in body:
        return ["1"], "its text has no threadIdx", True
    if (bound := _BOUND.search(body)) and (size := number(bound[1])):
        return [size], "__launch_bounds__", True
    sizes = {axis: known for step, axis in _STEP.findall(body) if step != "blockDim" and (known := number(step))}
    for name, step in _WALK.findall(body):  # threadIdx.y + j, and j steps by the rows of a block
        for axis in re.findall(rf"threadIdx\.([xyz])\s*\+\s*{name}\b", body):
            sizes |= {axis: known} if (known := number(step)) else {}
    if sizes and not re.search(r"threadIdx\.\w\s*[/%]", body):
        found = [sizes.get(axis, "1") for axis in "xyz" if axis <= max(sizes)]
        return found, "its indices", "1" not in found[: len(sizes)]
    if fixed := _of_shared(body, number):
        return [fixed], "the size of its shared array", True
    if row := _of_a_row(body, number):
        return [row], "its elements of a row", True
    if "blockDim" in body and not _fixes(body):
        two = "blockDim.y" in body or "threadIdx.y" in body
        return list(ANY_2D if two else ANY_1D), ANY_SIZE, True
    four = [number(name) for name in ("BM", "BN", "TM", "TN")]
    if all(one and one.isdigit() for one in four):
        m, n, tm, tn = (int(one or 1) for one in four)
        return [str(max(1, m * n // (tm * tn)))], "the elements of a tile over the elements of a thread", False
    named = next((size for name in _NAMED.findall(body) if (size := number(name))), "")
    if named:
        return ([named, named] if "threadIdx.y" in body else [named]), "a constant with this name", False
    return list(ANY_2D if "threadIdx.y" in body else GUESS), NO_SIZE, False


def grids_of(body: str, sizes: list[str], number: Callable[[str], str | None]) -> list[list[str]]:
    """The grids that the text leaves possible: each axis over another size. number: a name's number, or None."""
    axes = sorted(set(re.findall(r"blockIdx\.([xyz])", body)))
    if not axes or axes[-1] == "z" or not len(axes) <= len(sizes) <= MOST_SIZES:
        return []
    steps = [_step(body, axis, number) for axis in "xy" if axis <= axes[-1]]
    return [
        [f"ceil_div({size}, {step})" if step else size for size, step in zip(chosen, steps)]
        for chosen in permutations(sizes, len(steps))
    ]


def _step(body: str, axis: str, number: Callable[[str], str | None]) -> str:
    """The elements that a block takes along an axis of the grid, or "" for one."""
    names = [*re.findall(rf"\b(\w+)\s*=\s*blockIdx\.{axis}\s*[;,]", body), rf"blockIdx\.{axis}"]
    for name in names:
        for step in re.findall(rf"(?<![\w.]){name}\s*\*\s*([\w.]+)", body):
            if (known := number(step)) and known.isdigit():
                return known
    return ""


def _of_shared(body: str, number: Callable[[str], str | None]) -> str:
    """The size of a static shared array that each thread of the block indexes by its own number."""
    threads = {found for found in re.findall(r"\b(\w+)\s*=\s*threadIdx\.x\s*[;,]", body)} | {"threadIdx.x"}
    for name, size in re.findall(r"__shared__\s+[\w:]+\s+(\w+)\s*\[\s*(\w+)\s*\]\s*;", body):
        if any(re.search(rf"\b{name}\s*\[\s*{re.escape(one)}\s*\]\s*=", body) for one in threads):
            return number(size) or ""
    return ""


def _of_a_row(body: str, number: Callable[[str], str | None]) -> str:
    """The length of a row of memory, whose elements have a thread each: row * LENGTH + threadIdx.x, in no loop."""
    names = re.findall(r"(?<!\()(?:\bint\s+|,\s*)(\w+)\s*=\s*threadIdx\.x\s*[;,]", body)
    for one in (*names, r"threadIdx\.x"):
        lengths = {number(length) for length in re.findall(rf"\*\s*(\w+)\s*\+\s*{one}\s*\]", body)}
        if len(lengths) == 1 and (length := lengths.pop()) and not re.search(rf"\b{one}\s*\+=", body):
            return length
    return ""


def _fixes(body: str) -> bool:
    """Whether the text has a static shared array, whose size may be that of the block."""
    return "__shared__" in body.replace("extern __shared__", "")

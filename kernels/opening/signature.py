"""Grid and block from a kernel's own text, for a file without a launch."""

import re
from collections.abc import Callable

from kernels.build.plain.tokens import bare, functions, tokens

_INDEX = re.compile(r"\b(\w++)\s*+=\s*+blockIdx\.([xyz])\s*+(?:\*\s*([\w.]+|\([^()]*\)))?")
_STEP = re.compile(r"blockIdx\.[xyz]\s*\*\s*(\w+)\s*\+\s*threadIdx\.([xyz])\s*[;,)]")
_BOUND = re.compile(r"__launch_bounds__\s*\(\s*(\w+)")
TWO = re.compile(r"blockIdx\.([xyz])\s*\*\s*gridDim\.([xyz])\s*\+\s*blockIdx\.\2")
USUAL_THREADS = "128"
ANY_BLOCKS = "4"  # of a loop over the grid
Meaning = Callable[[str], str | None]


def body_of(text: str, kernel: str) -> str:
    """The text of a kernel with its attributes, without comments, or ""."""
    found = tokens(text)
    for function in functions(text, found):
        if function.name == kernel and function.is_kernel:
            return bare(text)[found[function.first].start : found[function.last].end]
    return ""


def block_of(body: str, number: Meaning) -> list[str]:
    """The sizes of a block: of __launch_bounds__, an index blockIdx.x * TILE + threadIdx.x, or USUAL_THREADS."""
    if bound := _BOUND.search(body):
        return [number(bound[1]) or USUAL_THREADS]
    for name in re.findall(r"\b(\w++)\s*+=\s*+blockDim\.x\b", body):
        if size := number(name):
            return [size]
    sizes = {axis: known for step, axis in _STEP.findall(body) if step != "blockDim" and (known := number(step))}
    if not sizes:
        return ["16", "16"] if "threadIdx.y" in body else [USUAL_THREADS]
    return [sizes.get(axis, "32" if axis == "x" else "1") for axis in "xyz" if axis <= max(sizes)]


def grid_of(body: str, block: list[str], meaning: Meaning) -> list[str] | None:
    """The sizes of the grid, from indices and their bounds, or None if one is unknown. meaning: a name -> its size."""
    axes = sorted(set(re.findall(r"blockIdx\.([xyz])", body)))
    if not axes:
        return ["1"]
    listed = [_axis(body, axis, block, meaning) for axis in "xyz" if axis <= axes[-1]]
    known = [size for size in listed if size is not None]
    return known if len(known) == len(listed) else None


def _axis(body: str, axis: str, block: list[str], meaning: Meaning) -> str | None:
    if (two := TWO.search(body)) and axis in two.groups():  # batch * heads + head
        return meaning("batch" if axis == two[1] else "heads")
    for name, of, step in _INDEX.findall(body):
        if of != axis or re.search(rf"\b{name}\s*\+=\s*gridDim", body):
            continue
        bound = re.search(rf"\b{name}\s*(?:\+\s*\w+\s*)?(?:<|>=)\s*(\w+)", body)
        size = (meaning(bound[1]) if bound else None) or meaning(name)
        if not size:
            continue
        if not step:
            return size
        threads = re.sub(r"blockDim\.([xyz])", lambda found: dict(zip("xyz", block)).get(found[1], "1"), step)
        held = meaning(threads)
        return f"ceil_div({size}, {held.strip('()')})" if held else None
    if re.search(rf"\+=\s*gridDim\.{axis}", body):
        return ANY_BLOCKS
    if (added := re.search(rf"\*\s*(\w+)\s*\+\s*blockIdx\.{axis}\b", body)) and (size := meaning(added[1])):
        return size
    factor = re.search(rf"blockIdx\.{axis}\s*+(?:\)\s*+)?\*\s*+(\w+)", body)
    if factor and re.match(r"[A-Za-z_]", factor[1]) and meaning(factor[1]) or f"blockIdx.{axis} / " in body:
        return meaning("heads")  # it counts whole matrices
    return None

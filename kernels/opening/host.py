"""The launches, constants and variables in the text of a .cu, from its functions of the host.

For a file without a launch: grid and block from a kernel's own text.
"""

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernels import jail
from kernels.build import child, cpp
from kernels.build.plain import refusals
from kernels.build.plain.edits import cpu_text, device_text
from kernels.build.plain.refusals import HOST_HEADERS, STANDARD_HEADERS
from kernels.build.plain.tokens import Token, bare, closing, functions, line_of, tokens
from kernels.build.plain.toolchain import Toolchain
from kernels.errors import BuildError, RunError
from kernels.jail import Limits
from kernels.opening import ran
from kernels.opening.ran import Ran

_CONSTANT = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?(-?\d+)\)?[ \t]*(?://.*|/\*.*)?$"
    r"|\b(?:const|constexpr)\s+(?:static\s+)?(?:int|unsigned|size_t|auto|uint32_t)\s+(\w+)\s*=\s*(-?\d+)\s*[;,]",
    re.M,
)
COOPERATIVE = "cudaLaunchCooperativeKernel"


@dataclass(frozen=True)
class HostLaunch:
    """A launch in the text.

    entry: the kernel, an instance such as flash<64>.
    grid, block, shared: C expressions, "" if the text has none."""

    entry: str
    grid: str
    block: str
    shared: str
    args: tuple[str, ...]
    line: int
    cooperative: bool = False


def host_launches(text: str) -> list[HostLaunch]:
    found = tokens(text)
    listed = [_launch(text, found, at) for at, token in enumerate(found) if token.text == "<<<"]
    listed += [_cooperative(text, found, at) for at, token in enumerate(found) if token.text == COOPERATIVE]
    return sorted((one for one in listed if one), key=lambda launch: launch.line)


def kernels_of(text: str) -> list[str]:
    return [function.name for function in functions(text, tokens(text)) if function.is_kernel]


def has_main(text: str) -> bool:
    return any(function.name == "main" for function in functions(text, tokens(text)))


def constants_of(text: str) -> dict[str, int]:
    """The named whole numbers of a text: macros, and constants outside functions of the host."""
    return {found[1] or found[3]: int(found[2] or found[4]) for found in _CONSTANT.finditer(device_text(text))}


def host_words(text: str) -> set[str]:
    found = tokens(text)
    inside = (found[f.first : f.last] for f in functions(text, found) if not f.on_device)
    return {token.text for part in inside for token in part if re.match(r"[A-Za-z_]", token.text)}


def variable(text: str, name: str, before: int) -> str:
    """The C expression of a variable's declaration before a line, such as that of `dim3 grid(...)`, or ""."""
    found, last = tokens(text), ""
    for at in range(1, len(found) - 1):
        if found[at].text != name or line_of(text, found[at].start) > before:
            continue
        follows = found[at - 1].text == "," and found[at + 1].text == "="  # int a = 1, b = 2;
        if not (follows or re.match(r"[A-Za-z_]\w*$|>$", found[at - 1].text)) or found[at - 1].text == "return":
            continue
        if found[at + 1].text in ("(", "{"):
            last = f"dim3({_between(text, found, at + 1, closing(found, at + 1))})"
        elif found[at + 1].text == "=":
            end = at + 1  # then the next , or ; outside brackets
            while end < len(found) - 1 and found[end].text not in (";", ","):
                end = closing(found, end) + 1 if found[end].text in ("(", "[", "{") else end + 1
            last = _between(text, found, at + 1, end)
    return last


def parts(text: str) -> list[str]:
    found, listed, first, at = tokens(text), list[str](), 0, 0
    while at < len(found):
        if found[at].text in ("(", "[", "{"):
            at = closing(found, at)
        elif found[at].text == ",":
            listed.append(text[first : found[at].start].strip())
            first = found[at].end
        at += 1
    rest = text[first:].strip()
    return [*listed, rest] if rest else listed


def _between(text: str, found: list[Token], first: int, last: int) -> str:
    return text[found[first].end : found[last].start].strip()


def _launch(text: str, found: list[Token], at: int) -> HostLaunch | None:
    last = next((n for n in range(at, len(found)) if found[n].text == ">>>"), None)
    if last is None or last + 1 >= len(found) or found[last + 1].text != "(" or not at:
        return None
    first = at - 1
    if found[first].text == ">":
        depth = 0
        while first:
            depth += (found[first].text == ">") - (found[first].text == "<")
            first -= 1
            if not depth:
                break
    entry = re.sub(r"\s+", " ", text[found[first].start : found[at].start].strip())
    grid, block, shared, *_ = [*parts(_between(text, found, at, last)), "", "", ""]
    args = parts(_between(text, found, last + 1, closing(found, last + 1)))
    return HostLaunch(entry, grid, block, shared, tuple(args), line_of(text, found[at].start))


def _cooperative(text: str, found: list[Token], at: int) -> HostLaunch | None:
    """A launch by cudaLaunchCooperativeKernel(kernel, grid, block, args, shared). Its args are &a, &b of an array."""
    if at + 1 >= len(found) or found[at + 1].text != "(":
        return None
    listed = parts(_between(text, found, at + 1, closing(found, at + 1)))
    kernel, grid, block, array, shared, *_ = [*listed, "", "", "", "", ""]
    line = line_of(text, found[at].start)
    name = re.sub(r"^\(.*?\)\s*&?|^&", "", kernel).strip()
    value = re.search(rf"\b{re.escape(array)}\s*\[\s*\]\s*=\s*\{{([^}}]*)\}}", text) if array else None
    args = tuple(part.rpartition("&")[2].strip() for part in (parts(value[1]) if value else ()))
    return HostLaunch(name, grid, block, shared, args, line, True)


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


# ---- a program, run ----


SECONDS = 50
LIMITS = Limits(seconds=SECONDS + 5.0)
ARRAY_CALLS = (COOPERATIVE, "cudaLaunchKernel")
_LOG = "launches"


def run(name: str, text: str) -> Ran:
    """Compiles and runs a program in the jail. Raises BuildError with the line, RunError without an end."""
    refusals.check(name, text)
    with tempfile.TemporaryDirectory(prefix="warpglass-program-") as held:
        program = _built(Path(held), name, text)
        command = ["/bin/sh", "-c", f'timeout {SECONDS} "$0"; echo "exit $?" >> {_LOG}', str(program)]
        reads = [program, *child.compiler_folders("/usr/bin/g++")]
        done = jail.confine(command, reads=reads, out=_LOG, limits=LIMITS)
    *lines, last = done.output.decode(errors="replace").splitlines() or [""]
    if done.stopped or not last.startswith("exit "):
        raise RunError(f"main() of {name} ended without a result ({done.stopped or done.log[-200:]}).")
    code = int(last.removeprefix("exit "))
    if code == 124:
        raise RunError(f"main() of {name} takes more than {SECONDS} s on this CPU. Choose smaller sizes for its run.")
    return ran.read(lines, code, done.log)


def _built(folder: Path, name: str, text: str) -> Path:
    toolchain = Toolchain(instrumented=False)
    sources = folder / "sources"
    for header, own in toolchain.headers():
        (sources / header).parent.mkdir(parents=True, exist_ok=True)
        (sources / header).write_text(own)
    (sources / name).write_text(cpu_text(program_text(text), whole=True))
    known = (*HOST_HEADERS, *STANDARD_HEADERS)
    headers = [h for h in re.findall(r"^[ \t]*#[ \t]*include[ \t]*<([^>\n]*)>", text, re.M) if h in known]
    first = "".join(f"#include <{header}>\n" for header in headers)
    (sources / "unit.cpp").write_text(f'{first}#include "language.h"\n#include "program.h"\n#include "{name}"\n')
    options = [option for option in toolchain.options if option not in ("-shared",)]
    unit, program = sources / "unit.o", folder / "program"
    compiled = ["-fPIC", f"-I{sources}", "-x", "c++", "-c", str(sources / "unit.cpp"), "-o", str(unit)]
    with child.compiling(True):
        _checked(name, [*toolchain.command, *options, *compiled], sources)
        linked = [*toolchain.command, str(unit), str(toolchain.runtime()), "-rdynamic", "-o", str(program), "-ldl"]
        _checked(name, linked, sources)
    return program


def _checked(name: str, command: list[str], folder: Path) -> None:
    done = cpp.run(command, {"TMPDIR": str(folder), "LC_ALL": "C"})
    if done.returncode:
        found = re.search(rf"{re.escape(name)}:(\d+):\d+: (?:fatal )?error: (.*)", done.stderr)
        said = f"{name} line {found[1]}: {found[2]}" if found else f"{name} does not compile: {done.stderr[:500]}"
        raise BuildError(f"{said}. Its main() does not run here.")


def program_text(text: str) -> str:
    """The text with a call in place of each kernel<<<...>>>. No line moves."""
    found, edits = tokens(text), list[tuple[int, int, str]]()
    for launch in host_launches(text):
        for at, token in enumerate(found):
            if line_of(text, token.start) != launch.line or token.text not in ("<<<", *ARRAY_CALLS):
                continue
            said = f'{launch.line}, "{launch.entry}", {launch.entry}'
            if token.text == "<<<":
                last = next(n for n in range(at, len(found)) if found[n].text == ">>>")
                start = text.rindex(launch.entry.split("<")[0], 0, token.start)
                inside = text[token.end : found[last].start]
                edits.append((start, found[last].end, f"simt_launch_at({said}, SimtConfig({inside}))"))
            else:
                listed = closing(found, at + 1)
                _, *rest = parts(text[found[at + 1].end : found[listed].start])
                lines = "\n" * text.count("\n", token.start, found[listed].end)
                call = f"simt_launch_array({said}, {', '.join(rest)}{lines})"
                edits.append((token.start, found[listed].end, call))
            break
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text

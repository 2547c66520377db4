"""A whole program with main(): compiled for the CPU, run in the jail, with the arguments of its launches."""

import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import jail
from kernels.build import child, cpp
from kernels.build.plain import refusals
from kernels.build.plain.edits import cpu_text
from kernels.build.plain.refusals import HOST_HEADERS, STANDARD_HEADERS
from kernels.build.plain.tokens import closing, line_of, tokens
from kernels.build.plain.toolchain import Toolchain
from kernels.errors import BuildError, RunError
from kernels.jail import Limits
from kernels.opening.host import COOPERATIVE, host_launches, parts

SECONDS = 50
LIMITS = Limits(seconds=SECONDS + 5.0, output_bytes=2**20)
ARRAY_CALLS = (COOPERATIVE, "cudaLaunchKernel")
_LOG = "launches"


@dataclass(frozen=True)
class Argument:
    """An argument of a launch.

    memory, bytes: the number and size of the allocation behind a pointer, else -1 and 0.
    zero: whether the allocation held only zeros.
    """

    value: float | None = None
    memory: int = -1
    bytes: int = 0
    zero: bool = False


@dataclass(frozen=True)
class RanLaunch:
    """A launch of a program as it ran. shared: dynamic bytes."""

    line: int
    entry: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    args: tuple[Argument, ...]


@dataclass(frozen=True)
class Ran:
    """A program's run. code: its exit code. printed: its output and errors."""

    launches: tuple[RanLaunch, ...]
    code: int
    printed: str


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
    return Ran(tuple(map(_launch, lines)), code, done.log)


def _launch(line: str) -> RanLaunch:
    try:
        held: dict[str, Any] = json.loads(line)
        args = tuple(_argument(one) for one in held["args"])
        sizes = tuple(map(int, held["grid"])), tuple(map(int, held["block"]))
        return RanLaunch(int(held["line"]), str(held["entry"]), *sizes, int(held["shared"]), args)
    except (ValueError, KeyError, TypeError):
        raise RunError("The program wrote into the list of its launches.") from None


def _argument(held: dict[str, Any]) -> Argument:
    value = held.get("value")
    number = None if value is None else float(value)
    return Argument(number, int(held.get("memory", -1)), int(held.get("bytes", 0)), bool(held.get("zero")))


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
        linked = [*toolchain.command, str(unit), str(toolchain.runtime()), "-o", str(program), "-ldl"]
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

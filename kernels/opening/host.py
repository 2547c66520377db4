"""The launches, constants and variables in the text of a .cu, from its functions of the host.

For a file without a launch: grid and block from a kernel's own text.
"""

import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kernels import jail
from kernels.build import child, cpp
from kernels.build.plain import assembly, includes
from kernels.build.plain.macros import arguments as parts
from kernels.build.plain.tokens import bare, functions, tokens
from kernels.build.plain.toolchain import Toolchain
from kernels.errors import BuildError, RunError
from kernels.jail import Limits
from kernels.opening import program, ran
from kernels.opening.launches import constants_of, host_launches, variable
from kernels.opening.ran import Ran
from kernels.opening.sites import HostLaunch

__all__ = ["HostLaunch", "constants_of", "host_launches", "parts", "variable"]


def kernels_of(text: str) -> list[str]:
    return [function.name for function in functions(text, tokens(text)) if function.is_kernel]


def has_main(text: str) -> bool:
    return any(function.name == "main" for function in functions(text, tokens(text)))


def host_words(text: str) -> set[str]:
    found = tokens(text)
    inside = (found[f.first : f.last] for f in functions(text, found) if not f.on_device)
    return {token.text for part in inside for token in part if re.match(r"[A-Za-z_]", token.text)}


_INDEX = re.compile(r"\b(\w++)\s*+=\s*+blockIdx\.([xyz])\s*+(?:\*\s*([\w.]+|\([^()]*\)))?")
TWO = re.compile(r"blockIdx\.([xyz])\s*\*\s*gridDim\.([xyz])\s*\+\s*blockIdx\.\2")
ANY_BLOCKS = "4"  # of a loop over the grid
Meaning = Callable[[str], str | None]


def body_of(text: str, kernel: str) -> str:
    """The text of a kernel with its attributes, without comments, or ""."""
    found = tokens(text)
    for function in functions(text, found):
        if function.name == kernel and function.is_kernel:
            return bare(text)[found[function.first].start : found[function.last].end]
    return ""


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


SECONDS = 50.0
LAUNCHES = 0.4  # of the seconds, for launches. Later ones are noted and not run
_LOG = "launches"
_COMMAND = (  # the first and last part of what it prints
    f'{{ timeout "$0" "$@"; echo "exit $?" >> {_LOG}; }} 2>&1 | {{ head -c 131072; tail -c 4096; }}'
)


def run(
    name: str, text: str, headers: Sequence[tuple[str, str]] = (), words: Sequence[str] = (), seconds: float = 0.0
) -> Ran:
    """Compiles and runs a program in the jail. Raises BuildError with the line, RunError without an end.

    headers: (name, text) of the files next to it that it includes.
    words: of its command line.
    seconds: its limit, or 0 for the usual one."""
    files, seconds = ((name, text), *headers), seconds or SECONDS
    limits = Limits(seconds=seconds + 5.0)
    with tempfile.TemporaryDirectory(prefix="warpglass-program-") as held:
        made = _built(Path(held), files)
        command = ["/bin/sh", "-c", _COMMAND, f"{seconds:g}", str(made), *words]
        reads = [made, *child.compiler_folders("/usr/bin/g++")]
        environment = {"SIMT_SECONDS": f"{LAUNCHES * seconds:g}"}
        done = jail.confine(command, reads=reads, out=_LOG, limits=limits, environment=environment)
    *lines, last = done.output.decode(errors="replace").splitlines() or [""]
    if done.stopped or not last.startswith("exit "):
        raise RunError(f"main() of {name} ended without a result ({done.stopped or done.log[-200:]}).")
    code = int(last.removeprefix("exit "))
    if code == 124:
        raise RunError(f"main() of {name} takes more than {seconds:g} s on this CPU. Choose smaller sizes for its run.")
    if code > 128 and not lines:
        said = done.log.strip().splitlines()[-1:] or [f"exit code {code}"]
        raise RunError(
            f"main() of {name} ended before its first launch ({said[0]}). The jail has {limits.memory_bytes >> 30} GiB."
        )
    if code == 121 and (call := program.LIBRARY_CALL.search(done.log)):
        raise RunError(f"main() calls {call[1]} in {call[2]} line {call[3]}, and this library does not run here.")
    return ran.read(lines, code, done.log)


def _built(folder: Path, files: Sequence[tuple[str, str]]) -> Path:
    toolchain = Toolchain(instrumented=False)
    sources = folder / "sources"
    for header, own in (*toolchain.headers(), *program.sources(files).items()):
        (sources / header).parent.mkdir(parents=True, exist_ok=True)
        (sources / header).write_text(own)
    options = [option for option in toolchain.options if option not in ("-shared",)]
    unit, made = sources / "unit.o", folder / "program"
    text = sources / "unit.ii"
    tokens_made = [f"-I{sources}", "-x", "c++", "-E", str(sources / "unit.cpp"), "-o", str(text)]
    compiled = ["-fPIC", "-x", "c++-cpp-output", "-c", str(text), "-o", str(unit)]
    with child.compiling(True):
        _checked(files, [*toolchain.command, *options, *tokens_made], sources)
        names = {str(sources / name) for name, _ in files}
        translated, untaken = assembly.translated(text.read_text(errors="replace"), names)
        text.write_text(translated)
        _checked(files, [*toolchain.command, *options, *compiled], sources)
        linked = [*toolchain.command, str(unit), str(toolchain.runtime()), "-rdynamic", "-o", str(made), "-ldl"]
        _checked(files, linked, sources, untaken)
    return made


_ERROR = re.compile(r"(?<![\w.+-])([\w.+-]+):(\d+):\d+: (?:fatal )?error: (.*)")


def _checked(files: Sequence[tuple[str, str]], command: list[str], folder: Path, untaken: Sequence[str] = ()) -> None:
    done = cpp.run(command, {"TMPDIR": str(folder), "LC_ALL": "C"})
    if not done.returncode:
        return
    name = files[0][0]
    if found_untaken := re.search(rf"{assembly.UNTAKEN}(\d+)", done.stderr):
        raise BuildError(f"{untaken[int(found_untaken[1])].rstrip('.')}. Its main() does not run here.")
    errors = [one for one in _ERROR.finditer(done.stderr) if one[1] in dict(files)]
    found = next((one for one in errors if includes.UNKNOWN.search(one[3])), errors[0] if errors else None)
    if not found:
        raise BuildError(f"{name} does not compile: {done.stderr[:500]}. Its main() does not run here.")
    error = BuildError(f"{found[1]} line {found[2]}: {found[3]}")
    raise BuildError(f"{str(includes.explained(error, files)).rstrip('.')}. Its main() does not run here.")

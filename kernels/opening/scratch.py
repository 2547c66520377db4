"""Scratch memory of a proposal: the pointers that are no tensor of the problem, with sizes from cudaMalloc."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernels.build.plain.tokens import bare, line_of
from kernels.opening.host import HostLaunch
from kernels.opening.matching import LANES, Fit, Meaning, Parameter, plain
from kernels.opening.names import Names, arguments_of

_MALLOC = re.compile(r"\bcudaMalloc(?:Managed|Async)?\s*\(\s*(?:\(void\s*\*\*\)\s*)?&\s*(\w+)\s*,\s*([^;]*?)\)\s*[;)]")
_ELEMENT = re.compile(r"(?:\*\s*+)?\bsizeof\s*+\(\s*+(\w++)\s*+\)(?:\s*+\*)?")


@dataclass
class Scratch:
    """The scratch memory of a file.

    names: a parameter's name -> the name of its memory.
    tables: [scratch.NAME] of the front matter.
    lines, questions: of the proposal.
    """

    names: dict[str, str] = field(default_factory=dict)
    tables: dict[str, dict[str, object]] = field(default_factory=dict)
    lines: list[tuple[str, str, str]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)


def scratch_of(
    text: str, fit: Fit, listed: list[Parameter], launches: list[HostLaunch], meaning: Meaning, said: Mapping[str, str]
) -> Scratch:
    found, memories = Scratch(), dict[str, str]()  # the host's name of a memory -> its name
    for one in listed:
        if not one.is_pointer or one.name in fit.tensors or one.name in found.names:
            continue
        buffer = _buffer(one, launches, listed)
        taken = {tensor.name for tensor in fit.shown.tensors()}
        name = next(n for n in (plain(one.name), f"{plain(one.name)}_scratch") if n not in taken)
        name = memories.setdefault(buffer, name)
        found.names[one.name] = name
        if name in found.tables:
            continue
        size, source = _size(text, one, buffer, launches, meaning, fit, said)
        known = fit.intermediate(one.name) if not size else ()
        axes = [axis for axis, _ in known] or ["element"]
        shape: list[str | int] = [part for _, part in known] or [size or "1"]
        if not size and not known:
            found.questions.append(f"the elements of {one.name}. Say them with --say {one.name}=EXPRESSION")
        if (lanes := LANES.get(one.c_type.rstrip("* "), 1)) > 1:
            axes, shape = [*axes, "lane"], [*shape, lanes]
        table: dict[str, object] = {"shape": shape, "axes": axes, "dtype": one.dtype or "float32"}
        if re.search(rf"\bcudaMemset(?:Async)?\s*\(\s*{re.escape(buffer)}\s*,\s*0\b", bare(text)):
            table["initial"] = "zero"
        found.tables[name] = table
        shown = " x ".join(map(str, shape)) if size or known else "?"
        found.lines.append((f"scratch {name}", f"{shown} of {table['dtype']}", source or "its name" * bool(known)))
    return found


def _buffer(one: Parameter, launches: list[HostLaunch], listed: list[Parameter]) -> str:
    """The host's name of the memory behind a pointer, or the pointer's own name."""
    for launch in launches:
        symbols = [p.name for p in listed if p.entry == launch.entry]
        if one.entry == launch.entry and one.name in symbols and symbols.index(one.name) < len(launch.args):
            return launch.args[symbols.index(one.name)]
    return one.name


def _size(
    text: str,
    one: Parameter,
    buffer: str,
    launches: list[HostLaunch],
    meaning: Meaning,
    fit: Fit,
    said: Mapping[str, str],
) -> tuple[str, str]:
    if one.name in said:
        return said[one.name], "--say"
    launch = next((launch for launch in launches if launch.entry == one.entry), launches[0])
    for found in _MALLOC.finditer(bare(text)):
        if plain(found[1]) != plain(buffer):
            continue
        line = line_of(text, found.start())
        elements = _ELEMENT.sub("", found[2]) if _ELEMENT.search(found[2]) else ""
        names = Names(text, meaning, arguments_of(launch, [one.name], meaning), fit.allowed)
        return names.expression(elements, line) or "" if elements else "", f"line {line}: cudaMalloc"
    return "", ""

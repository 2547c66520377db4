"""A cubin's PTX and machine code, each instruction with the line of our .cu that it comes from. Needs nvdisasm, and no GPU."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from kernels import build
from kernels.build import Mode
from kernels.catalog import defines
from kernels.errors import BuildError
from kernels.probes import is_probe_line

MIX = {  # what an instruction is counted as, by the start of its name
    "LDG": "global load", "STG": "global store", "LDS": "shared load", "STS": "shared store", "LDSM": "ldmatrix", "LDGSTS": "cp.async",
    "LDL": "local load (spill)", "STL": "local store (spill)", "LDC": "constant load", "ULDC": "constant load", "FFMA": "FFMA",
    "FMUL": "FMUL, FADD", "FADD": "FMUL, FADD", "MUFU": "MUFU (exponential, division)", "HMMA": "MMA", "HGMMA": "MMA", "IMMA": "MMA",
    "BAR": "barrier", "SHFL": "shuffle", "BRA": "branch", "BSSY": "branch", "BSYNC": "branch"}
BASES = {("load", "global"): "LDG", ("store", "global"): "STG", ("load", "shared"): "LDS", ("store", "shared"): "STS", ("ldmatrix", "shared"): "LDSM",
         ("cp_async", "shared"): "LDGSTS"}  # a probe's kind and space -> the instruction
SUFFIXES = {1: ".U8", 2: ".U16", 4: "", 8: ".64", 16: ".128"}  # bytes -> how SASS names the width


@dataclass(frozen=True)
class Line:
    """One line of PTX or SASS. source: the line of the .cu that it comes from, or None; entry: the kernel it stands in."""

    text: str
    source: int | None
    entry: str


@dataclass(frozen=True)
class Listing:
    """What the compiler made of a build: its PTX and SASS, and the mix of its instructions: kind -> {opcode: count}."""

    ptx: tuple[Line, ...]
    sass: tuple[Line, ...]
    mix: dict[str, dict[str, int]]


@dataclass(frozen=True)
class WidthCheck:
    """Whether a pinned access is what the machine code does. line: of the access in the .cu; wanted: such as LDS.128; found: opcode -> count."""

    line: int
    wanted: str
    found: dict[str, int]
    ok: bool


@lru_cache(maxsize=32)
def listing(kernel, problem, settings, mode=Mode.TIMED, arch=build.DEFAULT_ARCH):
    """The Listing of a build. Compiles if need be. Raises ProblemError (unknown architecture), BuildError, BackendUnavailable."""
    made = build.build(kernel, defines(problem, kernel.settings(settings)), mode, arch)
    ptx, source_of = _ptx(made.ptx_path.read_text(), kernel)
    sass = _sass(build.sass(made.path, with_lines=True), source_of)
    return Listing(ptx, sass, _mix(sass))


def check_widths(kernel, problem, settings, mode=Mode.TIMED, arch=build.DEFAULT_ARCH):
    """A WidthCheck for every access that has a probe and that this build holds: the opcodes on its line, and whether all are of the pinned width."""
    shown, source = listing(kernel, problem, settings, mode, arch), kernel.source.splitlines()
    by_line = {}
    for line in shown.sass:
        name = opcode(line.text)
        if line.source and name.split(".")[0] in BASES.values():
            by_line.setdefault(line.source, Counter())[name] += 1
    checks = []
    for site in kernel.sites_of(problem, kernel.settings(settings)).values():
        if not site.space or site.code_line not in by_line or (site.kind, site.space) == ("load", "global") and "cp_async" in source[site.code_line - 1]:
            continue
        base, suffix = BASES[site.kind, site.space], "" if site.kind == "ldmatrix" else SUFFIXES[site.bytes]
        found = {name: count for name, count in by_line[site.code_line].items() if name.split(".")[0] == base}
        if not found:
            continue  # compiled away, as an access under a condition that this build never meets
        checks.append(WidthCheck(site.code_line, base + suffix, found, all(_width(name) == suffix for name in found)))
    return tuple(checks)


def opcode(text):
    """The instruction's name with its modifiers, as LDS.128."""
    return re.sub(r"^@!?U?P\w+\s+", "", text).split()[0].rstrip(";")


def _width(name):
    """The part of an opcode that tells its width: .U8, .U16, .64, .128, or nothing for 32 bits."""
    return next((f".{part}" for part in name.split(".")[1:] if part in ("U8", "S8", "U16", "S16", "64", "128")), "")


def _mix(sass):
    kinds = {}
    for line in sass:
        name = opcode(line.text)
        base = name.split(".")[0]
        kind = MIX.get(base, "integer, moves, predicates")
        shown = base + _width(name) if base in ("LDG", "STG", "LDS", "STS", "LDL", "STL", "LDGSTS") else name if base == "LDSM" else base
        kinds.setdefault(kind, Counter())[shown] += 1
    return {kind: dict(counts.most_common()) for kind, counts in sorted(kinds.items(), key=lambda item: -sum(item[1].values()))}


def _sass(text, source_of):
    """nvdisasm's -gp listing: a comment gives the line of the PTX that what follows comes from. source_of: that -> the line of our .cu.

    Its listing by source lines (-gi) leaves out a comment where only the place of the inlining changes, so that of two neighbouring loads
    through the same inlined function the second would get the line of the first; a line of PTX is never shared.
    """
    found, entry, source = [], "", None
    for line in text.splitlines():
        section = re.match(r"\s*\.section\s+\.text\.(\w+)", line)
        place = re.search(r"//## File .*, line (\d+)", line)
        code = build.INSTRUCTION.search(line)
        if section:
            entry, source = section[1], None
        elif place:
            source = source_of.get(int(place[1]))
        elif code:
            found.append(Line(code[1].strip(), source, entry))
    if not found:
        raise BuildError("nvdisasm found no instructions")
    return tuple(found)


def _ptx(text, kernel):
    """(the PTX without its debug sections as Lines, line number -> line of our .cu). `.loc` says file, line and where inlined."""
    numbers = {number: name for number, name in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', text, re.M)}
    ours = {number for number, name in numbers.items() if name.endswith(kernel.path.name)}
    probes, lines = {number for number, name in numbers.items() if name.endswith("probe.cuh")}, kernel.source.splitlines()
    found, entry, source, inlined, source_of = [], "", None, {}, {}
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*\.section", line):
            break
        name = re.search(r"\.entry\s+(\w+)", line)
        entry = name[1] if name else entry
        at = re.match(r"\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+))?", line)
        if at:
            here, where = at.group(1, 2), at.group(3, 4)
            inlined[here] = int(here[1]) if here[0] in ours else int(where[1]) if where[0] in ours else inlined.get(where)
            source = inlined[here] or (source if here[0] in ours else None)  # line 0 of our file: as before; elsewhere and not inlined: none
            if here[0] in probes and source and not is_probe_line(lines[source - 1]):
                source = None  # what the probes write as the block ends, which the compiler puts down to the kernel's last line
            continue
        if not line.strip() or line.lstrip().startswith(("//", ".file")):
            continue
        if source:
            source_of[number] = source
        found.append(Line(line.rstrip().expandtabs(2), source if line[:1] in " \t" else None, entry))
        if line.startswith("}"):
            source = None
    return tuple(found), source_of

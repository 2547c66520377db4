"""A cubin's PTX and machine code, each instruction with its line of our source. Needs nvdisasm, and no GPU."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from kernels.build.builds import build
from kernels.build.product import DEFAULT_ARCH, Mode
from kernels.build.sass import INSTRUCTION, sass, sections_of
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError
from kernels.trace.kinds import KINDS, kind_of
from kernels.trace.probes import is_probe_line, sites_of

_GUARD = re.compile(r"^@(!?)(U?P\w+)\s+")
_REGISTER = re.compile(r"(?<![\w.])R(\d+)(\.64\b)?")
_LABEL = re.compile(r"`\(([^)]+)\)")
_NO_RESULT = re.compile(  # opcodes that write no register
    r"ST[GSL]?|ST|RED|REDG|REDS|LDGSTS|BAR|MEMBAR|BRA|BRX|JMP|JMX|EXIT|RET|CALL|BSSY|BSYNC|BREAK|WARPSYNC|NOP|DEPBAR|LDGDEPBAR"
    r"|[IFDHU]*SETP2?|U?PSETP|U?PLOP3|FCHK|R2P|R2B|ERRBAR|CCTL|CCTLL|YIELD|NANOSLEEP|BPT|KILL|UTMALDG|UTMASTG|SYNCS|ELECT|SUST|STAS"
)
Effect = tuple[set[int], set[int], bool]  # reads, writes, whether the writes are certain
_DOUBLE = ("DADD", "DMUL", "DFMA", "FADD2", "FMUL2", "FFMA2")  # all operands are 64 bits


@dataclass(frozen=True)
class Instruction:
    """An instruction of SASS. labels: before it."""

    text: str
    labels: tuple[str, ...] = ()
    entry: str = ""


def live_registers(code: Sequence[Instruction]) -> list[int]:
    found = [0] * len(code)
    for entry in dict.fromkeys(one.entry for one in code):
        at = [n for n, one in enumerate(code) if one.entry == entry]
        for n, count in zip(at, _live([code[n] for n in at])):
            found[n] = count
    return found


def branch_target(text: str) -> str:
    at = _LABEL.search(text)
    return at[1] if at else ""


def _live(code: list[Instruction]) -> list[int]:
    after = _successors(code)
    effects = [reads_and_writes(one.text) for one in code]
    before: list[frozenset[int]] = [frozenset()] * len(code)
    changed = True
    while changed:
        changed = False
        for n in range(len(code) - 1, -1, -1):
            reads, writes, kills = effects[n]
            out = frozenset().union(*(before[s] for s in after[n]))
            now = frozenset(reads | (out - writes if kills else out))
            if now != before[n]:
                before[n], changed = now, True
    written = _written_before(effects, after)
    return [len((before[n] & written[n]) | effects[n][1]) for n in range(len(code))]


def _written_before(effects: list[Effect], after: list[list[int]]) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in effects]
    changed = True
    while changed:
        changed = False
        for n, (_, writes, _) in enumerate(effects):
            for s in after[n]:
                if s < len(found) and not (found[n] | writes) <= found[s]:
                    found[s] |= found[n] | writes
                    changed = True
    return found


def _successors(code: list[Instruction]) -> list[list[int]]:
    place = {label: n for n, one in enumerate(code) for label in one.labels}
    returns = [n + 1 for n, one in enumerate(code) if _name(one.text).startswith("CALL") and n + 1 < len(code)]
    found = []
    for n, one in enumerate(code):
        base, to = _name(one.text).split(".")[0], place.get(branch_target(one.text))
        follows = [n + 1] if n + 1 < len(code) else []
        sure = not _GUARD.match(one.text)
        if base in ("EXIT", "KILL"):
            found.append([] if sure else follows)
        elif base == "RET":
            found.append(returns + ([] if sure else follows))
        elif base in ("BRX", "JMX"):
            found.append(sorted(place.values()))
        elif base in ("BRA", "JMP", "CALL") and to is not None:
            unconditional = sure and re.match(r"\S+\s+`\(", one.text)  # unlike BRA !P0 or BRA.DIV
            found.append([to] if unconditional else [to, *follows])
        elif base == "WARPSYNC" and to is not None:
            found.append([to, *follows])
        else:
            found.append(follows)
    return found


def reads_and_writes(text: str) -> Effect:
    guard = _GUARD.match(text)
    kills = not guard or (guard[2] in ("PT", "UPT") and not guard[1])
    body = text[guard.end() :] if guard else text
    name, _, rest = body.rstrip("; ").partition(" ")
    rest = re.sub(r"`\([^)]*\)", "", rest)
    operands = [part.strip() for part in rest.split(",")] if rest.strip() else []
    result = _result(name, operands)
    widths = _widths(name, operands, result)
    reads: set[int] = set()
    writes: set[int] = set()
    for n, operand in enumerate(operands):
        inside = operand[operand.find("[") :] if "[" in operand else ""
        for at in _REGISTER.finditer(operand):
            address = inside and at.start() >= operand.find("[")
            wide = 2 if at[2] or (address and _long_address(name, operand)) else 1
            count = wide if address else max(wide, widths[n])
            (writes if n == result and not address else reads).update(range(int(at[1]), int(at[1]) + count))
    return {r for r in reads if r < 255}, {r for r in writes if r < 255}, kills


def _name(text: str) -> str:
    return _GUARD.sub("", text).split()[0].rstrip(";")


def _result(name: str, operands: list[str]) -> int | None:
    """The index of the result: the first register after predicates. None without a result."""
    if _NO_RESULT.fullmatch(name.split(".")[0]):
        return None
    for n, operand in enumerate(operands):
        if re.fullmatch(r"!?U?P(T|R|\d)", operand) and n < 2:
            continue
        return n if re.match(r"R(\d+|Z)\b", operand) else None
    return None


def _long_address(name: str, operand: str) -> bool:
    """Whether a plain [R2] of global memory is 64 bits, as before sm_80 with .E in the opcode."""
    base, *parts = name.split(".")
    return base in ("LDG", "STG", "LD", "ST", "ATOM", "ATOMG", "RED") and "E" in parts and ".U32" not in operand


def _widths(name: str, operands: list[str], result: int | None) -> list[int]:
    base, *parts = name.split(".")
    widths = [1] * len(operands)
    data = 4 if "128" in parts else 2 if "64" in parts else 1
    if base in ("LDG", "LDS", "LDL", "LDC", "LD", "STG", "STS", "STL", "ST", "ATOM", "ATOMG", "ATOMS"):
        return [data] * len(operands)
    if base == "LDSM":
        shape = parts[-1] if parts else "1"
        return [int(shape) if shape in "124" else 1] * len(operands)
    long = "64" in parts and base in ("IADD", "MOV", "SEL") or base == "ISETP" and {"U64", "S64"} & {*parts}
    if base in (*_DOUBLE, "DSETP") or long:
        return [2] * len(operands)
    if base in ("HMMA", "IMMA", "QMMA", "DMMA", "BMMA"):
        return _mma(base, parts, len(operands))
    if base in ("HGMMA", "QGMMA", "IGMMA"):  # of a warpgroup: 64 rows over 128 lanes, with A in 4 registers or none
        columns = re.match(r"64x(\d+)x", parts[0]) if parts else None
        count = int(columns[1]) // (2 if "F32" in parts or base == "IGMMA" else 4) if columns else 1
        return [count if operand == operands[result or 0] else 4 for operand in operands]
    if base == "CS2R" and "32" not in parts:
        widths[0] = 2
    elif base == "IMAD" and "WIDE" in parts:
        widths[result or 0] = 2
        plain = [n for n, o in enumerate(operands) if n != result and not re.fullmatch(r"!?U?P(T|\d)", o)]
        if len(plain) >= 3:
            widths[plain[2]] = 2  # the addend
    elif base in ("F2F", "I2F", "F2I", "F2D", "I2D", "D2F", "D2I"):
        wide = [p for p in parts if p in ("F64", "F32", "F16", "S64", "U64")]
        ends = [p in ("F64", "S64", "U64") for p in wide]
        if ends and base == "I2F":
            widths[0] = 2 if ends[0] else 1
            widths[-1] = 2 if "S64" in wide or "U64" in wide else 1
        elif ends and base == "F2I":
            widths[0] = 2 if "S64" in wide or "U64" in wide else 1
            widths[-1] = 2 if "F64" in wide else 1
        elif ends:
            widths[0], widths[-1] = (2 if ends[0] else 1), (2 if ends[-1] and len(ends) > 1 else 1)
    elif base == "RET":
        widths = [2] * len(operands)
    elif base == "LEPC":
        widths[0] = 2
    return widths


def _mma(base: str, parts: list[str], operands: int) -> list[int]:
    """Registers of D, A, B and C of a warp's MMA: its shape's elements over 32 lanes. SASS writes 16x8x16 as 16816."""
    shape = next((p for p in parts if p.isdigit()), "")
    k = int(shape[3:]) if len(shape) > 3 else 16  # 1688 is 16x8x8
    narrow = parts[parts.index(shape) + 1 :] if shape in parts else parts
    out = 8 if base == "DMMA" else 2 if narrow[:1] == ["F16"] else 4
    bits = {"IMMA": 8, "QMMA": 8, "DMMA": 64, "BMMA": 1}.get(base, 32 if "TF32" in parts else 16)
    a, b = max(1, 16 * k * bits // 1024), max(1, 8 * k * bits // 1024)
    return [out, a, b, out, *[1] * operands][:operands]


MIX = {  # opcode -> its kind in the mix
    "LDG": "global load",
    "STG": "global store",
    "LDS": "shared load",
    "STS": "shared store",
    "LDSM": "ldmatrix",
    "LDGSTS": "cp.async",
    "UTMALDG": "TMA load",
    "LDL": "local memory load",
    "STL": "local memory store",
    "LDC": "constant load",
    "ULDC": "constant load",
    "FFMA": "FFMA",
    "FMUL": "FMUL, FADD",
    "FADD": "FMUL, FADD",
    "MUFU": "MUFU (exponential, division)",
    "HMMA": "MMA",
    "HGMMA": "MMA",
    "IMMA": "MMA",
    "BAR": "barrier",
    "SYNCS": "barrier",
    "SHFL": "shuffle",
    "BRA": "branch",
    "BSSY": "branch",
    "BSYNC": "branch",
}
SUFFIXES = {1: ".U8", 2: ".U16", 4: "", 8: ".64", 16: ".128"}  # bytes -> the width in an opcode of SASS
GENERIC = {"LD", "ST"}  # accesses without a known space
WITH_WIDTH = ("LDG", "STG", "LDS", "STS", "LDL", "STL", "LDGSTS")  # opcodes with their width in the mix

Place = tuple[str, int]  # file and line of our source
Settings = tuple[tuple[str, int], ...]

_TAKES = re.compile(r"USETMAXREG\.TRY_ALLOC\S{0,40} .{0,80}\b0x([0-9a-f]+)")


@dataclass(frozen=True)
class Line:
    """One line of PTX or SASS.

    source: its file and line of ours, or None.
    labels: before it in SASS. In PTX, a label is a line of its own.
    target: the label of its branch, or "".
    address: of an instruction of SASS, from the start of its kernel, in bytes.
    live: the live registers there (liveness)."""

    text: str
    source: Place | None
    entry: str
    labels: tuple[str, ...] = ()
    target: str = ""
    address: int = 0
    live: int = 0


@dataclass(frozen=True)
class Listing:
    """The compiler's output of a build.

    mix: kind of instruction -> {opcode: count}.
    registers: kernel -> registers of a thread, from the compiler or taken by a warpgroup at run time.
    local_bytes: kernel -> local memory of a thread."""

    ptx: tuple[Line, ...]
    sass: tuple[Line, ...]
    mix: dict[str, dict[str, int]]
    registers: dict[str, int]
    compiler: str
    local_bytes: dict[str, int]


@dataclass(frozen=True)
class WidthCheck:
    """Whether the machine code does a pinned access.

    wanted: its opcode, such as LDS.128.
    found: opcode -> count, of this kind, or of all accesses if this kind is absent.
    ok: every opcode is the wanted one.
    absent: the line has no opcode of this kind. The access is compiled away if the line has no other access either."""

    file: str
    line: int
    wanted: str
    found: dict[str, int]
    ok: bool
    absent: bool = False


@lru_cache(maxsize=32)
def listing(
    kernel: KernelSpec, problem: Problem, settings: Settings, mode: Mode = Mode.TIMED, arch: str = DEFAULT_ARCH
) -> Listing:
    """The Listing of a build. Raises ProblemError (unknown architecture), BuildError, BackendUnavailable."""
    request = Request(kernel, problem, settings)
    built = build(kernel, request.defines, mode, arch)
    probed = {site.file for site in sites_of(request)}
    ours = {name: text.splitlines() for name, text in kernel.files if name == kernel.files[0][0] or name in probed}
    ptx, source_of = _ptx(built.ptx_path.read_text(), ours)
    code = _sass(sections_of(sass(built.path, with_lines=True), built.symbols), source_of)
    names = {fact.symbol: fact.entry for fact in built.facts if fact.symbol}
    ptx, code = _named(ptx, names), _named(code, names)
    registers = {fact.entry: fact.registers for fact in built.facts}
    for line in code:
        if line.entry in registers and (taken := _TAKES.search(line.text)):  # by a warpgroup at run time (setmaxnreg)
            registers[line.entry] = max(registers[line.entry], int(taken[1], 16))
    kinds: dict[str, Counter[str]] = {}
    for line in code:
        name = opcode(line.text)
        base = name.split(".")[0]
        shown = base + _width(name) if base in WITH_WIDTH else name if base == "LDSM" else base
        kinds.setdefault(MIX.get(base, "integer, moves, predicates"), Counter())[shown] += 1
    by_count = sorted(kinds.items(), key=lambda item: -sum(item[1].values()))
    mix = {kind: dict(counts.most_common()) for kind, counts in by_count}
    local = {fact.entry: fact.stack_bytes for fact in built.facts}
    return Listing(ptx, code, mix, registers, built.compiler, local)


def _named(lines: tuple[Line, ...], names: Mapping[str, str]) -> tuple[Line, ...]:
    """The lines with entries as in the comment of the .cu. names: symbol -> entry."""
    return tuple(replace(line, entry=names.get(line.entry, line.entry)) for line in lines)


def check_widths(
    kernel: KernelSpec, problem: Problem, settings: Settings, mode: Mode = Mode.TIMED, arch: str = DEFAULT_ARCH
) -> tuple[WidthCheck, ...]:
    """A WidthCheck for each access with a probe. If the kind of an access is absent, it passes only without another
    access on its line."""
    shown = listing(kernel, problem, settings, mode, arch)
    source = {name: text.splitlines() for name, text in kernel.files}
    bases = {kind.sass for kind in KINDS if kind.macro}
    by_line: dict[Place, Counter[str]] = {}
    for line in shown.sass:
        name = opcode(line.text)
        if line.source and name.split(".")[0] in bases | GENERIC:
            by_line.setdefault(line.source, Counter())[name] += 1
    checks = []
    for site in sites_of(Request(kernel, problem, settings)):
        place = (site.file, site.code_line)
        if not site.space:
            continue
        kind = kind_of(site.event, site.space)
        if kind.event == "load" and kind.space == "global" and "cp_async" in source[site.file][site.code_line - 1]:
            continue  # the source of a cp.async, which has its own probe
        suffix = "" if kind.event == "ldmatrix" or not kind.widths else SUFFIXES[site.bytes]
        others = by_line.get(place, Counter())
        found = {name: count for name, count in others.items() if name.split(".")[0] == kind.sass}
        generic = any(name.split(".")[0] in GENERIC for name in others)  # its address space is unknown
        ok = not generic and all(_width(name) == suffix for name in found) if found else not others
        shown_opcodes = found or dict(others)
        checks.append(WidthCheck(site.file, site.code_line, kind.sass + suffix, shown_opcodes, ok, not found))
    return tuple(checks)


def opcode(text: str) -> str:
    return re.sub(r"^@!?U?P\w+\s+", "", text).split()[0].rstrip(";")


def _width(name: str) -> str:
    return next((f".{part}" for part in name.split(".")[1:] if part in ("U8", "S8", "U16", "S16", "64", "128")), "")


def _sass(text: str, source_of: Mapping[int, Place]) -> tuple[Line, ...]:
    """The lines of nvdisasm's -gp listing, with lines of PTX in comments. source_of: line of PTX -> our file and line.
    The -gi listing by source lines has no comment if only the place of inlining changes. The second of two neighbouring
    loads through one inlined function would get the line of the first. A line of PTX is unique."""
    found: list[Line] = []
    entry, source = "", None
    labels: list[str] = []
    for line in text.splitlines():
        section = re.match(r"\s*\.section\s+\.text\.(\w+)", line)
        place = re.search(r"//## File .*, line (\d+)", line)
        label = re.match(r"\s*([.$\w]+):\s*$", line)
        code = INSTRUCTION.search(line)
        if section:
            entry, source, labels = section[1], None, []
        elif place:
            source = source_of.get(int(place[1]))
        elif label:
            labels += [label[1]] if label[1] not in (entry, f".text.{entry}") else []
        elif code:
            target, address = branch_target(code[2]), int(code[1], 16)
            found.append(Line(code[2].strip(), source, entry, tuple(labels), target, address))
            labels = []
    if not found:
        raise BuildError("nvdisasm found no instructions")
    live = live_registers([Instruction(line.text, line.labels, line.entry) for line in found])
    return tuple(replace(line, live=count) for line, count in zip(found, live))


class _Locations:
    """The line of our source for the next instructions of a PTX text, from its .loc lines, with inlining resolved."""

    _LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+))?")

    def __init__(self, text: str, ours: Mapping[str, list[str]]):
        files = re.findall(r'^[ \t]*\.file\s+(\d+)\s+"([^"]+)"', text, re.M)
        self.names = {number: path.replace("\\", "/").rsplit("/", 1)[-1] for number, path in files}
        self.ours = ours
        self.inlined: dict[tuple[str, str], Place | None] = {}
        self.source: Place | None = None

    def read(self, line: str) -> bool:
        """Whether this is a .loc line. Then `source` is the new place."""
        at = self._LOC.match(line)
        if not at:
            return False
        place, caller = (at[1], at[2]), (at[3], at[4])
        resolved = self._ours(place) or (self._ours(caller) if caller[0] else None) or self.inlined.get(caller)
        self.inlined[place] = resolved
        file = self.names.get(place[0], "")
        keeps = file in self.ours and place[1] == "0"  # line 0 of our file: as before
        self.source = resolved or (self.source if keeps else None)
        if file == "probe.cuh" and self.source:
            name, number = self.source
            if not is_probe_line(self.ours[name][number - 1]):  # the probes' writes at the end of the block
                self.source = None
        return True

    def _ours(self, place: tuple[str, str]) -> Place | None:
        name = self.names.get(place[0], "")
        return (name, int(place[1])) if name in self.ours and place[1] != "0" else None


def _ptx(text: str, ours: Mapping[str, list[str]]) -> tuple[tuple[Line, ...], dict[int, Place]]:
    """(the Lines of PTX without debug sections, line number -> our file and line)."""
    at, entry, found, source_of = _Locations(text, ours), "", [], {}
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*\.section", line):
            break
        name = re.search(r"\.entry\s+(\w+)", line)
        entry = name[1] if name else entry
        if at.read(line) or not line.strip() or line.lstrip().startswith(("//", ".file")):
            continue
        if at.source:
            source_of[number] = at.source
        label, branch = re.match(r"(\$\w+):\s*$", line), re.search(r"\bbra(?:\.\w+)*\s+(\$\w+)", line)
        source = at.source if line[:1] in " \t" else None
        shown, labels = line.rstrip().expandtabs(2), (label[1],) if label else ()
        found.append(Line(shown, source, entry, labels, branch[1] if branch else ""))
        if line.startswith("}"):
            at.source = None
    return tuple(found), source_of

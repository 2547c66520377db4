"""The live registers of a thread at each instruction, from SASS as text.

The rule is plain backward liveness:
- A register is live from its write to its last possible read, along all branches.
- A write under a predicate may keep the old value, so it starts no life.
- Without an earlier write, a register is not live.

An instruction's number counts the live registers before it and its own writes. R0 to R254 count. RZ, uniform registers
(UR) and predicates do not. The opcode gives an operand's number of registers (`_widths`): pairs for 64-bit accesses,
addresses and arithmetic, quads for 128-bit accesses, fragments for MMA. Returns and indirect branches go to every
possible target.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

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

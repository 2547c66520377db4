"""The meaning of a PTX instruction on the CPU: a call of device/simt/cuda/ptx.h.

A register is a 64-bit number with the bits of its type. kernels/first-kernel.md lists the accepted instructions.
"""

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

OPERAND = "\x01"  # before the number of an operand of the asm statement


class Untaken(Exception):
    """An instruction without a meaning here. Its text names it."""


@dataclass(frozen=True)
class Register:
    """A register.

    cpp: its C++ name.
    kind: pred, n (a constant), 16, 32, 64 (whole numbers), b16, b32, b64, f32, f64."""

    cpp: str
    kind: str


_CPP = {
    **{"f32": "float", "f64": "double", "u8": "unsigned char", "s8": "signed char", "b8": "unsigned char"},
    **{"u16": "unsigned short", "s16": "short", "b16": "unsigned short", "u32": "unsigned", "s32": "int"},
    **{"b32": "unsigned", "u64": "unsigned long long", "s64": "long long", "b64": "unsigned long long"},
    **{
        "f16": "simt_ptx_type<0>",
        "bf16": "simt_ptx_type<1>",
        "f16x2": "simt_ptx_type<2>",
        "bf16x2": "simt_ptx_type<3>",
    },
    **{"tf32": "float"},
}
"""A type of PTX -> its C++. The names of the runtime keep clear of a kernel's own names."""
_BITS = {name: 32 if name.endswith("x2") else int(re.sub(r"\D", "", name) or 0) for name in _CPP} | {"bf16": 16}
_BITS |= {"pred": 1, "f16x2": 32, "bf16x2": 32, "tf32": 32}
_COUNTS = {
    **dict.fromkeys(("neg", "abs", "not", "ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh"), 1),
    **dict.fromkeys(("popc", "clz", "brev"), 1),
    **dict.fromkeys(("add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr", "copysign"), 2),
    **dict.fromkeys(("fma", "mad"), 3),
}
"""An instruction with one result -> the number of its other operands."""
_ROUNDING = {"rn", "approx", "full", "ftz", "lo", "sat"}  # a result is rounded to nearest
_COMPARE = {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu"}
SPECIAL = {
    **{"laneid": "simt_rank() & 31", "warpid": "simt_rank() / 32", "smid": "0", "nsmid": "1", "gridid": "0"},
    **{"clock": "0", "clock64": "0", "globaltimer": "0", "globaltimer_lo": "0", "clock_hi": "0"},
    **{"dynamic_smem_size": "simt_ptx_dynamic_bytes()", "total_smem_size": "simt_ptx_dynamic_bytes()"},
    **{"lanemask_eq": "1u << (simt_rank() & 31)", "lanemask_lt": "(1u << (simt_rank() & 31)) - 1"},
    **{"lanemask_le": "(2u << (simt_rank() & 31)) - 1", "lanemask_gt": "~((2u << (simt_rank() & 31)) - 1)"},
    **{"lanemask_ge": "~((1u << (simt_rank() & 31)) - 1)", "cluster_ctarank": "0", "cluster_nctarank": "1"},
    **{f"cluster_ctaid.{axis}": "0" for axis in "xyz"},
    **{f"cluster_nctaid.{axis}": "1" for axis in "xyz"},
    **{
        f"{name}.{axis}": f"simt_{own}().{axis}"
        for name, own in (("tid", "thread_idx"), ("ctaid", "block_idx"), ("ntid", "block_dim"), ("nctaid", "grid_dim"))
        for axis in "xyz"
    },
}
"""The special registers, such as %laneid."""
_LITERAL = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)[uU]?$")


def kind_of_register(name: str) -> str:
    """The kind of a `.reg` of a type. Raises Untaken."""
    if name == "pred" or name in ("f32", "f64", "b16", "b32", "b64"):
        return name
    if name in ("f16", "bf16", "b8", "u8", "s8"):
        return "b16"
    if name in ("f16x2", "bf16x2"):
        return "b32"
    if name not in _BITS:
        raise Untaken(f".reg .{name}")
    return str(_BITS[name])


@dataclass(frozen=True)
class Instruction:
    """An instruction with its operands as text."""

    name: str
    operands: tuple[str, ...]
    registers: Mapping[str, Register]
    fresh: Callable[[str], Register]

    @property
    def parts(self) -> list[str]:
        """The words of the name, without hints for the caches."""
        parts = re.sub(r"::", "@", self.name).split(".")
        return [part.replace("@", "::") for part in parts if not part.startswith(("L1@", "L2@", "level@"))]

    def only(self, *allowed: str) -> None:
        """Raises Untaken for another word between the first and the type."""
        for part in self.parts[1:-1]:
            if part not in allowed:
                raise Untaken(self.name[:80])

    def value(self, number: int, of: str = "") -> str:
        """The C++ of an operand. of: its type, if it must fit."""
        return self.read(self.operands[number], of)

    def read(self, text: str, of: str = "") -> str:
        register = self.registers.get(text)
        if register:
            if of and not _fits(register.kind, of):
                raise Untaken(f"{self.name} with an operand of another type")
            return register.cpp
        if text.startswith("%") and text[1:] in SPECIAL:
            return f"(unsigned long long)({SPECIAL[text[1:]]})"
        if found := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})", text):
            return f"0x{found[1] or found[2]}ull"
        if of in ("f32", "f64") and re.fullmatch(r"-?\d+\.\d*(?:[eE][+-]?\d+)?", text):
            bits = struct.unpack("<I" if of == "f32" else "<Q", struct.pack("<f" if of == "f32" else "<d", float(text)))
            return f"0x{bits[0]:x}ull"
        if _LITERAL.match(text):
            return f"(unsigned long long)({text.rstrip('uU')}ll)"
        raise Untaken(f"{self.name} with the operand {text.replace(OPERAND, '%')[:40]}")

    def target(self, number: int, of: str = "") -> str:
        return self.written(self.operands[number], of)

    def written(self, text: str, of: str = "") -> str:
        """The C++ of an operand that the instruction writes."""
        if text == "_":
            return self.scratch()
        register = self.registers.get(text)
        if register is None or register.kind == "n" or of and not _fits(register.kind, of):
            raise Untaken(f"{self.name} with an operand of another type")
        return register.cpp

    def scratch(self) -> str:
        """A number that nobody reads, declared where it is written."""
        return f"unsigned long long {self.fresh('b64').cpp}"

    def listed(self, number: int) -> list[str]:
        """The texts of a list {a, b}, or of one operand."""
        text = self.operands[number]
        return [part.strip() for part in text[1:-1].split(",")] if text.startswith("{") else [text]

    def address(self, number: int, shared: bool) -> str:
        """The C++ of a generic address [a + n]."""
        found = re.fullmatch(
            r"\[\s*([^\s+\-\]]+)\s*(?:([+-])\s*(-?(?:0x[0-9a-fA-F]+|\d+)))?\s*\]", self.operands[number]
        )
        if not found:
            raise Untaken(f"{self.name} with the address {self.operands[number].replace(OPERAND, '%')[:40]}")
        register = self.registers.get(found[1])
        if register is None or not shared and register.kind not in ("64", "b64"):
            raise Untaken(f"{self.name} with an address of another type")
        text = f"{register.cpp} {found[2]} {found[3]}" if found[2] else register.cpp
        return f"simt_ptx_shared({text})" if shared else text

    def array(self, count: int) -> str:
        """The C++ name of a new array: declare it as `unsigned long long NAME[count]`."""
        return self.fresh("b64").cpp if count else ""


def typed(name: str) -> str:
    """The C++ of a type of PTX. Raises Untaken."""
    if name not in _CPP:
        raise Untaken(f"the type .{name}")
    return _CPP[name]


def bits(name: str) -> int:
    return _BITS[name]


def _fits(kind: str, of: str) -> bool:
    if kind == "n":
        return of[0] in "usb" and of != "bf16"
    if of == "pred" or kind == "pred":
        return of == kind
    size = int(re.sub(r"\D", "", kind))
    if size != _BITS[of]:
        return False
    if of in ("f32", "f64"):
        return kind[0] in "fb"
    return of[0] == "b" and of != "bf16" or kind[0] != "f"


def split(text: str) -> list[str]:
    parts, depth = [""], 0
    for c in text:
        depth += (c in "{[(") - (c in "}])")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts] if text.strip() else []


# ---- arithmetic ----


def _plain(one: Instruction) -> str:
    *_, of = parts = one.parts
    name, count = parts[0], _COUNTS[parts[0]]
    if len(one.operands) != count + 1:
        raise Untaken(one.name)
    wide = "wide" in parts
    high = "hi" in parts
    one.only(
        *_ROUNDING, *(("wide", "hi") if name in ("mul", "mad") else ()), *(("NaN",) if name in ("min", "max") else ())
    )
    narrow = ["b32" if name in ("shl", "shr") and n == 2 else of for n in range(1, count + 1)]
    twice = of[0] + str(2 * _BITS[of]) if wide else of
    if wide and name == "mad":
        narrow[-1] = twice
    values = ", ".join(one.value(n, kind) for n, kind in enumerate(narrow, 1))
    what = f"{name}{'_wide' if wide else '_hi' if high else '_nan' if 'NaN' in parts else ''}"
    to = "b32" if name in ("popc", "clz") else twice
    result = f"simt_ptx_{what}<{typed(of)}>({values})"
    if "sat" in parts:
        if of not in ("f32", "f16", "f16x2", "f64"):
            raise Untaken(one.name)
        result = f"simt_ptx_sat<{typed(of)}>({result})"
    return f"{one.target(0, to)} = {result};"


def _mov(one: Instruction) -> str:
    (of,) = one.parts[1:]
    targets, sources = one.listed(0), one.listed(1)
    if of == "pred" or len(targets) == len(sources) == 1:
        return f"{one.written(targets[0], of)} = {one.read(sources[0], of)};"
    width = _BITS[of] // max(len(targets), len(sources))
    if min(len(targets), len(sources)) != 1 or width not in (8, 16, 32):
        raise Untaken(one.name)
    if len(sources) > 1:
        parts = [f"({one.read(text)} & {(1 << width) - 1}ull) << {n * width}" for n, text in enumerate(sources)]
        return f"{one.written(targets[0], of)} = {' | '.join(parts)};"
    whole = one.fresh("b64").cpp
    rows = [f"{one.written(text)} = {whole} >> {n * width} & {(1 << width) - 1}ull;" for n, text in enumerate(targets)]
    return " ".join([f"const unsigned long long {whole} = {one.read(sources[0], of)};", *rows])


def _compare(one: Instruction) -> str:
    of, how = one.parts[-1], one.parts[1]
    combine = next((part for part in one.parts[2:-1] if part in ("and", "or", "xor")), "")
    one.only("ftz", how, *([combine] if combine else []))
    if how not in _COMPARE or (how in ("lo", "ls", "hi", "hs") and of[0] != "u"):
        raise Untaken(one.name)
    holds = f"simt_ptx_{how}<{typed(of)}>({one.value(1, of)}, {one.value(2, of)})"
    first, _, second = one.operands[0].partition("|")
    other = ""
    if combine:
        text = one.operands[3]
        sign = {"and": "&", "or": "|", "xor": "^"}[combine]
        other = f" {sign} {'!' * text.startswith('!')}{one.read(text.lstrip('!'), 'pred')}"
    elif len(one.operands) != 3:
        raise Untaken(one.name)
    result = one.fresh("pred").cpp
    rows = [f"const unsigned long long {result} = {holds};", f"{one.written(first, 'pred')} = {result}{other};"]
    if second:
        rows.append(f"{one.written(second, 'pred')} = !{result}{other};")
    return " ".join(rows)


def _select(one: Instruction) -> str:
    of = one.parts[-1]
    return f"{one.target(0, of)} = {one.value(3, 'pred')} ? {one.value(1, of)} : {one.value(2, of)};"


_ROUNDS = {"": 0, "rn": 1, "rni": 11, "rz": 2, "rzi": 12, "rm": 3, "rmi": 13, "rp": 4, "rpi": 14, "rna": 5}


def _convert(one: Instruction) -> str:
    *words, to, of = one.parts[1:]
    for kind, place in ((to, 0), (of, 1)):
        if kind in ("f32", "f64"):
            one.read(one.operands[place], kind)
        elif one.registers[one.operands[place]].kind in ("f32", "f64"):
            raise Untaken(f"{one.name} with an operand of another type")
    rounds = next((word for word in words if word in _ROUNDS), "")
    more = set(words) - {rounds, "ftz", "satfinite", "sat", "relu"}
    if more or "relu" in words:
        raise Untaken(one.name)
    if to in ("f16x2", "bf16x2", "e4m3x2", "e5m2x2") or of in ("e4m3x2", "e5m2x2"):
        return _pack(one, to, of)
    if to == "tf32":
        return f"{one.target(0, 'b32')} = simt_ptx_tf32({one.value(1, of)});"
    call_ = f"simt_ptx_cvt<{typed(to)}, {typed(of)}, {_ROUNDS[rounds]}>({one.value(1)})"
    if "sat" in words:
        call_ = f"simt_ptx_cvt_sat<{typed(to)}, {typed(of)}, {_ROUNDS[rounds]}>({one.value(1)})"
    return f"{one.target(0)} = {call_};"


def _pack(one: Instruction, to: str, of: str) -> str:
    if of == "f32":  # the first source is the upper half
        return f"{one.target(0)} = simt_ptx_pack_{to}({one.value(1, 'f32')}, {one.value(2, 'f32')});"
    if (to, of) in (("f16x2", "e4m3x2"), ("f16x2", "e5m2x2"), ("e4m3x2", "f16x2"), ("e5m2x2", "f16x2")):
        return f"{one.target(0)} = simt_ptx_{to}_of_{of}({one.value(1)});"
    raise Untaken(one.name)


def _bit_fields(one: Instruction) -> str:
    of = one.parts[-1]
    values = ", ".join(one.value(n) for n in range(1, len(one.operands)))
    if one.name in ("lop3.b32", "prmt.b32", "bfi.b32", "bfi.b64", "bfe.u32", "bfe.s32", "bfe.u64", "bfe.s64"):
        return f"{one.target(0, of)} = simt_ptx_{one.parts[0]}<{typed(of)}>({values});"
    if found := re.fullmatch(r"shf\.([lr])\.(wrap|clamp)\.b32", one.name):
        return f"{one.target(0, of)} = simt_ptx_shf_{found[1]}_{found[2]}({values});"
    if one.name in ("dp4a.s32.s32", "dp4a.u32.u32"):
        return f"{one.target(0)} = simt_ptx_dp4a<{typed(of.replace('32', '8'))}>({values});"
    raise Untaken(one.name)


RULES: dict[str, Callable[[Instruction], str]] = {
    **dict.fromkeys(_COUNTS, _plain),
    **{"mov": _mov, "setp": _compare, "selp": _select, "cvt": _convert},
    **dict.fromkeys(("lop3", "prmt", "bfi", "bfe", "shf", "dp4a"), _bit_fields),
}
"""The first word of an instruction -> its C++."""

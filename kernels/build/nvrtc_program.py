"""One program of NVRTC: compiled here, or in the jail for a stranger's text.

NVRTC reads files by #include and shows their lines in its errors. In the jail it reads only its own library and the
folders of CUDA's headers.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from kernels.errors import BuildError
from kernels.jail import Limits, in_place

Getter = Callable[..., tuple[Any, ...]]  # a function of NVRTC
LIMITS = Limits(seconds=30.0, memory_bytes=2 * 2**30)
INCLUDE = "--include-path="


@dataclass(frozen=True)
class Program:
    """The question to NVRTC.

    name, source: of the kernel's file.
    headers: (name, text) of the files that it includes.
    options: of NVRTC.
    instances: the expressions of templates.
    """

    name: str
    source: str
    headers: tuple[tuple[str, str], ...]
    options: tuple[str, ...]
    instances: tuple[str, ...]


@dataclass(frozen=True)
class Compiled:
    """NVRTC's answer.

    log: its messages.
    lowered: the symbol of each instance, in order.
    cubin, ptx: the product, empty after an error.
    """

    log: str
    lowered: tuple[str, ...] = ()
    cubin: bytes = b""
    ptx: bytes = b""


def checked(nvrtc: ModuleType, result: tuple[Any, ...]) -> Any:
    """The values of NVRTC's answer without its code. Raises RuntimeError."""
    code, *values = result
    if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(f"NVRTC says {code.name}")
    return values[0] if len(values) == 1 else tuple(values)


def compiled(nvrtc: ModuleType, asked: Program) -> Compiled:
    """Compiles a program in this process."""
    names = [name.encode() for name, _ in asked.headers]
    texts = [text.encode() for _, text in asked.headers]
    created = nvrtc.nvrtcCreateProgram(asked.source.encode(), asked.name.encode(), len(names), texts, names)
    program = checked(nvrtc, created)
    try:
        for instance in asked.instances:
            checked(nvrtc, (*nvrtc.nvrtcAddNameExpression(program, instance.encode()), None))
        flags = [option.encode() for option in asked.options]
        (code,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        log = read_bytes(nvrtc, program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).rstrip(b"\0")
        answer = Compiled(log.decode(errors="replace"))
        if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            return answer
        return replace(
            answer,
            lowered=tuple(
                checked(nvrtc, nvrtc.nvrtcGetLoweredName(program, instance.encode())).decode()
                for instance in asked.instances
            ),
            cubin=read_bytes(nvrtc, program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN),
            ptx=read_bytes(nvrtc, program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0"),
        )
    finally:
        checked(nvrtc, (*nvrtc.nvrtcDestroyProgram(program), None))


def compiled_in_jail(nvrtc: ModuleType, asked: Program) -> Compiled:
    """Compiles a stranger's program in the jail. Raises BuildError at a limit, BackendUnavailable without a jail."""
    try:
        loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libnvrtc" in line}
        included = [Path(option.removeprefix(INCLUDE)) for option in asked.options if option.startswith(INCLUDE)]
        answer = in_place.call(
            lambda: _packed(compiled(nvrtc, asked)),
            [*(Path(library).parent for library in sorted(loaded)), *included],
            LIMITS,
        )
    except in_place.Ended as ended:
        limit = f"{LIMITS.seconds:g} s" if ended.late else f"{LIMITS.memory_bytes >> 30} GiB"
        raise BuildError(
            f"{asked.name} does not compile: NVRTC reached its limit of {limit} in the jail. Look for a macro, a "
            "template or an #include without an end."
        ) from None
    try:
        (count,) = struct.unpack_from("<I", answer)
        log, lowered, size = json.loads(answer[4 : 4 + count])
        rest = answer[4 + count :]
        if not isinstance(size, int) or not 0 <= size <= len(rest):
            raise ValueError(size)
        if not isinstance(lowered, list) or len(lowered) != (len(asked.instances) if size else 0):
            raise ValueError(lowered)
        "".join([log, *lowered]).encode()  # raises one of these errors unless each is a text
        return Compiled(log, tuple(lowered), rest[:size], rest[size:])
    except (ValueError, struct.error, KeyError, TypeError, RecursionError):
        raise BuildError(f"{asked.name} does not compile: its answer from the jail cannot be read.") from None


def read_bytes(nvrtc: ModuleType, program: object, size: Getter, get: Getter) -> bytes:
    """The bytes from `get`. NVRTC writes into the bytes object itself. Python shares objects of 0 and 1 bytes."""
    count = checked(nvrtc, size(program))
    buffer = bytes(count + 2)
    checked(nvrtc, (*get(program, buffer), None))
    return buffer[:count]


def _packed(made: Compiled) -> bytes:
    head = json.dumps([made.log[: 2**20], made.lowered, len(made.cubin)]).encode()
    answer = struct.pack("<I", len(head)) + head + made.cubin + made.ptx
    return answer if len(answer) < in_place.ANSWER_BYTES - 64 else _packed(Compiled("error: the product is too large"))

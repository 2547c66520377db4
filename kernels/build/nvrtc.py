"""NVRTC, the CUDA compiler as a library: it makes a cubin and PTX for one architecture, without a GPU.

A plain kernel also gets NVIDIA's headers, texts for headers that NVRTC lacks, and instances of its templates. A
stranger's program compiles in the jail: NVRTC reads files by #include and shows their lines in its errors. There it
reads only its own library and the folders of CUDA's headers.
"""

import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from kernels.build import child, packages
from kernels.build.plain import includes, refusals
from kernels.build.plain.device import device_texts, words_of
from kernels.build.plain.edits import applied
from kernels.build.plain.refusals import HOST_HEADERS, STANDARD_HEADERS
from kernels.build.product import EntryFacts, first_error
from kernels.core.sources import is_plain_c
from kernels.core.spec import GPU_OPTIONS, KernelSpec
from kernels.errors import BackendUnavailable, BuildError, ProblemError
from kernels.jail import Limits, in_place

LIBRARY = "cudadevrt"  # the device runtime
RELOCATABLE = "--relocatable-device-code=true"
_TOOLKIT = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")


@lru_cache
def _nvjitlink() -> ModuleType:
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        raise BackendUnavailable(
            f"The kernel launches kernels, and nvJitLink, which links them, could not be loaded ({error}). "
            f"Choose the recorded backend, or run: {packages.command(packages.SETS[12])}"
        ) from None
    return nvjitlink


def linker_version() -> str:
    return "nvJitLink {}.{}".format(*_nvjitlink().version())


@lru_cache
def runtime() -> str:
    """The path of libcudadevrt.a, from a wheel or a toolkit. Raises BackendUnavailable."""
    try:
        from cuda.pathfinder import find_static_lib

        return find_static_lib(LIBRARY)
    except (ImportError, RuntimeError, OSError):
        pass
    for folder in _TOOLKIT:
        found = packages.toolkit() / folder / f"lib{LIBRARY}.a"
        if found.is_file():
            return str(found)
    raise BackendUnavailable(
        f"The kernel launches kernels, and CUDA's device runtime (lib{LIBRARY}.a) was not found. "
        "PyPI's wheels for CUDA 12.8 lack it. Choose the recorded backend, set CUDA_HOME to a toolkit, or in a new "
        f"environment run: {packages.command(packages.SETS[13])}"
    )


def misfit(arch: str) -> str:
    """Why nvJitLink would crash with the device runtime, or "": nvJitLink 12 does with CUDA 13's, from sm_100 on."""
    library, major = Path(runtime()), _nvjitlink().version()[0]
    header = library.parents[1] / "include" / "cuda.h"
    found = re.search(r"#define CUDA_VERSION (\d+)\d{3}$", header.read_text(), re.M) if header.is_file() else None
    if not found or int(found[1]) <= major or int(re.sub(r"\D", "", arch)) < 100:
        return ""
    return (
        f"{linker_version()} cannot link {library} of CUDA {found[1]} for {arch}. Set CUDA_HOME to a toolkit of CUDA "
        f"{major}, "
        f"or in a new environment run: {packages.command(packages.SETS[13])}"
    )


def linked(name: str, arch: str, relocatable: bytes) -> bytes:
    """The cubin of a kernel's relocatable code and the device runtime. Raises BuildError."""
    if said := misfit(arch):
        raise BuildError(f"{name} does not link: {said}")
    library, link = runtime(), _nvjitlink()
    handle = link.create(2, [f"-arch={arch}", "-lineinfo"])
    try:
        link.add_data(handle, link.InputType.CUBIN, relocatable, len(relocatable), name)
        link.add_file(handle, link.InputType.LIBRARY, library)
        link.complete(handle)
        cubin = bytearray(link.get_linked_cubin_size(handle))
        link.get_linked_cubin(handle, cubin)
    except link.nvJitLinkError as error:
        log = bytearray(link.get_error_log_size(handle))
        link.get_error_log(handle, log)
        said = log.decode(errors="replace").strip("\0\n ") or str(error)
        raise BuildError(f"{name} does not link with {library}: {said.splitlines()[0]}") from None
    finally:
        link.destroy(handle)
    return bytes(cubin)


TEXTS = Path(__file__).parents[1] / "device" / "nvrtc"
"""The folder of the texts for headers that NVRTC lacks."""
ALWAYS = "nvcc_always.h"
"""The header with the names that nvcc gives without an include."""


def files_of(spec: KernelSpec) -> list[tuple[str, str]]:
    """(name, text) of the kernel's files and of the texts in place of C's headers. Raises BuildError."""
    names, own = [name for name, _ in spec.files], list[tuple[str, str]]()
    for (name, text), (_, device) in zip(spec.files, device_texts(spec.files, words_of(spec))):
        includes.check(name, text, device, names)
        refusals.check(name, device)
        own.append((name, applied(device, includes.edits(device, names, keeps_known=True))))
    # NVRTC itself has the names of nv/target, and the wheel of the headers lacks the file.
    texts = dict(headers())
    whole = texts["whole.h"]
    more = "".join(f"#include <{header}>\n" for header in includes.brought(spec.files))
    own += [(ALWAYS, texts["always.h"] + more), ("nv/target", "#pragma once\n")]
    own += [("cuda.h", texts["cuda_h.h"]), ("cub/cub.cuh", texts["cub.h"])]
    return [
        *own,
        *(
            (name, whole if name in ("limits.h", "climits") else "#pragma once\n")
            for name in (*STANDARD_HEADERS, *HOST_HEADERS)
        ),
    ]


def headers() -> tuple[tuple[str, str], ...]:
    """(name, text) of our texts in place of headers that NVRTC lacks."""
    return tuple((path.name, path.read_text()) for path in sorted(TEXTS.glob("*.h")))


@lru_cache
def include_options() -> tuple[str, ...]:
    """The options for NVIDIA's headers, such as cuda_fp16.h: of the wheels, then the others of a toolkit. Raises
    BackendUnavailable without the wheels."""
    found_package = find_spec("nvidia")
    folders = [Path(folder) for folder in (found_package.submodule_search_locations or ())] if found_package else []
    for folder in folders:
        for found in (folder / "cuda_runtime" / "include", folder / "cu13" / "include"):
            if (found / "cuda_fp16.h").is_file():
                more = [folder / "cuda_cccl" / "include", *(other / "cu13" / "include" for other in folders)]
                toolkit = packages.toolkit() / "include"
                # cuda_cccl and cccl have type traits, cu13 and the toolkit the folder crt of mma.h.
                paths = [path for path in dict.fromkeys([found, *more, toolkit / "cccl", toolkit]) if path.is_dir()]
                return (*(f"--include-path={path}" for path in paths), f"--pre-include={ALWAYS}")
    raise BackendUnavailable(f"CUDA's headers were not found. Run: {packages.command()}")


def instances(spec: KernelSpec, options: list[str]) -> dict[str, str]:
    """The expression of each entry without C's linkage, with the macros of `options` in it -> the entry."""
    macros = dict(option[2:].split("=", 1) for option in options if option.startswith("-D") and "=" in option)
    entries = dict.fromkeys(launch.entry for launch in spec.launch_texts)
    return {
        re.sub(r"\w+", lambda word: macros.get(word[0], word[0]), entry): entry
        for entry in entries
        if not is_plain_c(spec.source, entry)
    }


Getter = Callable[..., tuple[Any, ...]]  # a function of NVRTC
LIMITS = Limits(seconds=30.0, memory_bytes=2 * 2**30)
INCLUDE = "--include-path="


@dataclass(frozen=True)
class Program:
    """The question to NVRTC.

    headers: (name, text) of the files that it includes.
    instances: the expressions of templates."""

    name: str
    source: str
    headers: tuple[tuple[str, str], ...]
    options: tuple[str, ...]
    instances: tuple[str, ...]


@dataclass(frozen=True)
class Compiled:
    """NVRTC's answer.

    lowered: the symbol of each instance, in order.
    cubin, ptx: the product, empty after an error."""

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


HAS_CACHE = (12, 9)  # the first NVRTC with a cache of its own
_ERROR = re.compile(r"(?<![^\s:])([^\s:]+\.cuh?)\((\d+)\): (?:catastrophic )?error: (.*)")


@lru_cache
def _nvrtc() -> ModuleType:
    try:
        from cuda.bindings import nvrtc

        checked(nvrtc, nvrtc.nvrtcVersion())
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        raise BackendUnavailable(
            f"NVRTC, the CUDA compiler, could not be loaded ({error}). Run: {packages.command()}"
        ) from None
    return nvrtc


def version() -> tuple[int, int]:
    nvrtc = _nvrtc()
    major, minor = checked(nvrtc, nvrtc.nvrtcVersion())
    return major, minor


@lru_cache
def architectures() -> tuple[str, ...]:
    """This NVRTC's targets: the plain ones, and from sm_90 on the arch-specific "a" ones."""
    nvrtc = _nvrtc()
    numbers = checked(nvrtc, nvrtc.nvrtcGetSupportedArchs())
    return tuple(f"sm_{n}{suffix}" for n in numbers for suffix in (("", "a") if n >= 90 else ("",)))


class Toolchain:
    """The compiler for one architecture such as sm_90a (product.Toolchain).

    links: whether for kernels that launch kernels. Their code is relocatable, and nvJitLink links it."""

    suffix = ".cubin"

    def __init__(self, arch: str, plain: bool = False, links: bool = False) -> None:
        self.nvrtc, self.plain = _nvrtc(), plain
        if arch not in architectures():
            raise ProblemError(f"arch is {arch!r}. This NVRTC knows {', '.join(architectures())}.")
        self.version = "NVRTC {}.{}".format(*version())
        self.arch = arch
        self.options = [*GPU_OPTIONS, f"--gpu-architecture={arch}", "--ptxas-options=-v"]
        if version() >= HAS_CACHE:
            # a product of NVRTC's own cache lacks the log with registers and spills
            self.options.append("--no-cache")
        self.links = links
        if links:
            self.version += f", {linker_version()}"
            self.options.append(RELOCATABLE)

    def headers(self) -> tuple[tuple[str, str], ...]:
        return headers() if self.plain else ()

    def compile(self, spec: KernelSpec, options: list[str], folder: Path) -> tuple[str, tuple[EntryFacts, ...]]:
        """Writes cubin and PTX into the folder. NVRTC gets the headers as text. Raises BuildError."""
        (name, source), *headers = files_of(spec) if spec.plain else spec.files
        options = [*options, *include_options()] if spec.plain else options
        expressions = instances(spec, options)
        asked = Program(name, source, tuple(headers), tuple(options), tuple(expressions))
        ask = compiled_in_jail if child.is_wanted() else compiled
        made = ask(self.nvrtc, asked)
        if not made.cubin:
            raise includes.explained(BuildError(first_error(spec, made.log, _ERROR)), spec.files)
        cubin = linked(name, self.arch, made.cubin) if self.links else made.cubin
        (folder / f"{spec.name}.cubin").write_bytes(cubin)
        (folder / f"{spec.name}.ptx").write_bytes(made.ptx)
        lowered = dict(zip(made.lowered, expressions.values()))
        facts = tuple(
            replace(fact, entry=lowered.get(fact.entry, fact.entry), symbol=fact.entry)
            for fact in ptxas_facts(made.log)
        )
        if not facts:
            raise BuildError(
                f"{name} was compiled for {self.arch}, but ptxas reported no registers. Its log: {made.log[:500]!r}"
            )
        return made.log, facts


def ptxas_facts(log: str) -> tuple[EntryFacts, ...]:
    """An EntryFacts for each kernel in the log of ptxas -v."""
    facts = []
    for part in re.split(r"Compiling entry function '", log)[1:]:

        def number(pattern: str, part: str = part) -> int:
            found = re.search(pattern, part)
            return int(found[1]) if found else 0

        spilled = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
        registers, shared = number(r"Used (\d+) registers"), number(r"(\d+) bytes smem")
        facts.append(EntryFacts(part.split("'")[0], registers, shared, spilled, number(r"(\d+) bytes stack frame")))
    return tuple(facts)

"""The system's C++ compiler for a plain kernel: with the compiler's instrumentation, or without.

An instrumented build calls a function before each access (-fsanitize=thread) and before each index of an array
(-fsanitize=bounds-strict). device/simt/cuda/runtime.cpp defines these functions. No pass of the compiler joins or
deletes accesses, so that each access of the source stays one. The build has a table of its lines (lines.py).
"""

import re
import secrets
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kernels.build import cache, child, cpp
from kernels.build.plain import lines, preprocessed, refusals, watching
from kernels.build.plain.edits import cpu_text
from kernels.build.plain.refusals import CUDA, CUDA_HEADERS
from kernels.build.product import EntryFacts
from kernels.core.sources import symbol_of
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable, BuildError

_MATH = (
    r"a?(?:sin|cos|tan)h?|atan2|(?:exp|log)(?:2|10|1p|m1|b)?|expm1|pow|sqrt|cbrt|hypot|erfc?|[lt]gamma"
    r"|fabs|fma|fmod|fmax|fmin|fdim|ceil|floor|trunc|round|roundeven|rint|nearbyint|ll?rint|ll?round|ilogb|copysign"
    r"|ldexp|scalbl?n|next(?:after|toward)|remainder|[jy][01n]"
)
CALLS = {*re.findall(r"\b(simt_\w+)\(", (CUDA / "calls.h").read_text())}
"""The runtime's functions that CUDA's names call."""
OF_MARKS = {"simt_quiet", "simt_log_value"}
"""Those of a kernel with [watch] only."""
_RUNTIME = (
    r"__tsan_(?:(?:unaligned_|volatile_)?(?:read|write)(?:\d+|_range)|init|func_\w+|atomic8_load)"
    r"|__ubsan_handle_out_of_bounds"
)
_COMPILER = (
    r"_GLOBAL_OFFSET_TABLE_|__dso_handle|__cxa_(?:atexit|pure_virtual|guard_\w+)|__stack_chk_fail|__gxx_personality_v0"
    r"|_Unwind_Resume|_ZNSt8ios_base4Init[CD]1Ev|_ZSt\d+__throw_\w+|_ZSt9terminatev|__(?:mul|div|mod|udiv|umod|float|fix)\w*[tsdh]i\w*|__\w+[hs]f2?|abort|_ZTV\w+"
)
ALLOWED = re.compile(rf"(?:(?:{_MATH})[fl]?|__(?:{_MATH})[fl]?_finite|{_RUNTIME}|{_COMPILER})$")
SECONDS = 60.0  # for a tool of binutils
LOGGED = (
    *("memcpy", "memmove", "memset"),
    *(f"{name}{end}" for name in ("frexp", "modf", "remquo", "sincos") for end in ("", "f")),
)
"""C's functions that the runtime replaces by its own, which log their accesses (runtime.cpp)."""


def close(spec: KernelSpec, unit: Path) -> None:
    """Keeps the names of an object file inside it, except its launches. Raises BuildError for another call."""
    calls = CALLS - (set() if spec.watch else OF_MARKS) | {f"simt_{name}" for name in LOGGED}
    renamed = [f"--redefine-sym={name}=simt_{name}" for name in LOGGED]
    kept = ["--keep-global-symbol=launch_*", "--keep-global-symbol=DW.ref.*"]
    for command in (["objcopy", "-w", *kept, *renamed], ["readelf", "-sW"]):
        said = child.tool(command, unit, SECONDS, f"{spec.path.name}'s code", writes=command[0] == "objcopy")
    for row in said.splitlines():
        words = row.split()
        if len(words) == 8 and words[6] == "UND" and words[7] not in calls and not ALLOWED.match(words[7]):
            raise BuildError(
                f"{spec.path.name} calls {words[7][:80]}, which is no function of device code. Use CUDA's own "
                "functions and C's mathematics."
            )


INSTRUMENTED = ("-g1", "-fsanitize=thread", "-fsanitize=bounds-strict")
# Without the passes that join, move, split or delete accesses.
_KEEPING = ("fre", "pre", "dse", "dce", "sink", "sra", "forwprop", "phiprop", "loop-im", "dominator-opts")
KEEPING = (
    "-O1",
    *(f"-fno-tree-{name}" for name in _KEEPING),
    "-fno-ipa-sra",
    "-fno-code-hoisting",
    "-fno-store-merging",
    # The compiler reports no struct that goes from memory straight into an argument. Inlined, it is a copy.
    *("-finline-functions", "-finline-small-functions", "-fearly-inlining"),
    *(f"--param={name}=100000" for name in ("max-inline-insns-auto", "max-inline-insns-single", "inline-unit-growth")),
)
_PARAMETERS = ("tsan-distinguish-volatile=1", "tsan-instrument-func-entry-exit=0")
_MARKS = ("SIMT_QUIET", "SIMT_WATCH")  # in language.h
# The words of SIMT_PLAIN_EXPORT:
_LAUNCH = ("extern", "__attribute__", "visibility", "int", "void", "return", "request", "args", "a")
SHIM_HEADERS = ("fibers.h", "limit.h", "report.h", "simt.h", "stacks.h")  # of runtime.cpp


class Toolchain(cpp.Toolchain):
    """The compiler for plain kernels (product.Toolchain). instrumented: whether its build reports each access."""

    def __init__(self, instrumented: bool) -> None:
        super().__init__()
        self.instrumented = instrumented
        self.options = [option for option in self.options if option != "-Wl,-z,defs"]
        # The C++ library sets the thread-safe guard of a shared array of vectors. It is no access of the kernel.
        self.options += ["-w", "-fno-strict-aliasing", "-fno-dollars-in-identifiers"]
        if instrumented:
            if "clang" in self.version or "zig" in self.version:
                raise BackendUnavailable("Automatic probes need g++. Install it (Debian: apt install g++), or set CXX.")
            self.options = [option for option in self.options if option != cpp.OPTIMIZED]
            self.options += [*KEEPING, *INSTRUMENTED, *(f"--param={text}" for text in _PARAMETERS)]

    def headers(self) -> tuple[tuple[str, str], ...]:
        """(name, text) of the headers of device/simt/cuda, and of the shim's own that it uses."""
        own = [(str(path.relative_to(CUDA)), path.read_text()) for path in sorted(CUDA.rglob("*")) if path.is_file()]
        return (*own, *((name, (cpp.SHIM / name).read_text()) for name in SHIM_HEADERS))

    def compile(self, spec: KernelSpec, options: list[str], folder: Path) -> tuple[str, tuple[EntryFacts, ...]]:
        """Compiles the kernel and links it with the runtime. Raises BuildError."""
        sources = folder / "sources"
        for name, text in self.headers():
            (sources / "cuda" / name).parent.mkdir(parents=True, exist_ok=True)
            (sources / "cuda" / name).write_text(text)
        names, included = [name for name, _ in spec.files], dict[str, None]()
        end = secrets.token_hex(8)
        quiet, watch = marks = tuple(f"{name}_{end}" for name in watching.MARKS)
        for name, text in spec.files:
            refusals.check(name, text)
            preprocessed.check_text(name, text)
            headers = refusals.headers(name, text, names)
            included |= dict.fromkeys(header for *_, header in headers)
            calls = watching.edits(spec, name, (quiet, watch)) if self.instrumented else []
            more = [*calls, *((first, last, "") for first, last, _ in headers)]
            (sources / name).write_text(cpu_text(text, more=more))
        (sources / "unit.cpp").write_text(_unit(spec, included, marks))
        unit, library = sources / "unit.o", folder / f"{spec.name}{self.suffix}"
        preprocessed_text = sources / "unit.ii"
        made = [f"-I{sources / 'cuda'}", "-x", "c++", "-E", str(sources / "unit.cpp"), "-o", str(preprocessed_text)]
        cpp.compiled(spec, [*self.command, *options, *made], sources)
        made_text, launches = preprocessed_text.read_text(errors="replace"), len({t.entry for t in spec.launch_texts})
        preprocessed.check(made_text, names, sources, marks, launches)
        made = ["-fPIC", "-fvisibility=hidden", "-x", "c++-cpp-output", "-c", str(preprocessed_text), "-o", str(unit)]
        log = cpp.compiled(spec, [*self.command, *options, *made], sources)
        close(spec, unit)
        linked = [*self.command, *self.linker, "-shared", "-Wl,-z,defs", str(unit), str(self.runtime())]
        linked += ["-o", str(library), "-ldl"]
        log += cpp.compiled(spec, linked, sources)
        if self.instrumented:
            lines.write(library, [name for name, _ in spec.files], lines.file_of(library))
        shutil.rmtree(sources)
        return log, ()

    def runtime(self) -> Path:
        """The object file of runtime.cpp, from the cache or new. All plain kernels share it."""
        texts = self.headers()
        options = ["-std=c++17", "-O2", "-w", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off"]

        def make(folder: Path) -> dict[str, Any]:
            for name, text in texts:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)
            made = [f"-I{folder}", "-c", str(folder / "runtime.cpp"), "-o", str(folder / "runtime.o")]
            done = cpp.run([*self.command, *options, *made], {"TMPDIR": str(folder), "LC_ALL": "C"})
            if done.returncode:
                raise BackendUnavailable(f"The CPU's runtime does not compile: {done.stderr[:500]}")
            for path in folder.iterdir():
                if path.name != "runtime.o":
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            return {}

        key = cache.key_of("runtime", self.version, *options, *(part for file in texts for part in file))
        return cache.get(key, "runtime.o", make)[0] / "runtime.o"


def _unit(spec: KernelSpec, headers: Iterable[str], marks: Sequence[str]) -> str:
    """The compiled file: the kernel's headers, CUDA's names, the kernel, and its launches.

    No macro of the kernel changes a header, and no macro tells the kernel which build it is in.
    headers: that the kernel includes, apart from its own files.
    marks: the names of this build in place of watching.MARKS.
    """
    entries = {launch.entry: symbol_of(launch.entry) for launch in spec.launch_texts}
    of_cuda = [header for header in headers if header in CUDA_HEADERS]
    rows = [f"#include <{header}>" for header in headers if header not in CUDA_HEADERS]
    rows += [f"#define {macro} {name}" for macro, name in zip(_MARKS, marks)]
    rows += [f'#include "{header}"' for header in ("language.h", *of_cuda)]
    rows += [f"#undef {macro}" for macro in (*_MARKS, "PROBED", "__SANITIZE_THREAD__")]
    rows += [f'#include "{spec.files[0][0]}"']
    rows += [f"#undef {word}" for word in (*_LAUNCH, *(f"launch_{symbol}" for symbol in entries.values()))]
    rows += [f"SIMT_PLAIN_EXPORT({symbol}, {entry})" for entry, symbol in entries.items()]
    return "\n".join([*rows, ""])

"""The system's C++ compiler for a plain kernel: with the compiler's instrumentation, or without.

An instrumented build calls a function before each access (-fsanitize=thread) and before each index of an array
(-fsanitize=bounds-strict). device/simt/cuda/runtime.cpp defines these functions. No pass of the compiler joins or
deletes accesses, so that each access of the source stays one. The build has a table of its lines (lines.py).

What a kernel's text may use is judged first (check), on its tokens after preprocessing. No macro, `##`, `_Pragma` or
spliced line hides a word from these rules. The compiler's own preprocessor makes the tokens, and the judged text is the
compiled text. The rules refuse what silences the checks of a run: attributes that switch off the probes, inline
assembly, and calls of the shim's own functions.
"""

import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from kernels.build import cache, child, cpp
from kernels.build.plain import assembly, includes, lines, refusals, watching
from kernels.build.plain.device import device_texts, words_of
from kernels.build.plain.edits import cpu_text
from kernels.build.plain.refusals import CUDA, CUDA_HEADERS
from kernels.build.plain.tokens import bare
from kernels.build.product import EntryFacts
from kernels.core.sources import symbol_of
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable, BuildError

_SPLICE = re.compile(r"\\[ \t\v\f]*\n|\?\?/[ \t\v\f]*\n")
_DIRECTIVE = re.compile(r"(?:^|\*/)[ \t\v\f]*(?:#|%:|\?\?=)", re.M)
_LINE = re.compile(r"^[ \t\v\f]*(?:#|%:|\?\?=)[ \t\v\f]*line\b[^\n]{0,60}", re.M)
_PLACE = re.compile(r"\d[\d']*+[ \t\v\f]*+(?:/\*|\w*+\")[^\n]{0,60}")
_TELLING = re.compile(
    r"\b(?:__(?:SANITIZE|GNU|GX|GCC|GLIBC|OPTIMIZE|NO_INLINE|STRICT_ANSI|ELF|SSE|AVX|MMX|FMA|x86_64|amd64|linux|unix)\w*"
    r"|_GLIBCXX\w*|_GNU_SOURCE|PROBED|__(?:DATE|TIME|TIMESTAMP|BASE_FILE|INCLUDE_LEVEL)__)(?!\w)"
)
_PRIVATE = re.compile(r"\b(?:simt|SIMT)_\w*")
_MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)$')
_TOKEN = re.compile(
    r'(?:u8|[uUL])?R"([^()\\\s]{0,16})\((?:.|\n)*?(?:\)\1"|\Z)|(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"|(?:u8|[uUL])?\'(?:[^\'\\\n]|\\.)*\''
    r"|\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*|[^\W\d]\w*|<:|:>|<%|%>|::|\S"
)
_DIGRAPHS = {"<:": "[", ":>": "]", "<%": "{", "%>": "}"}
_ASM = {"asm", "__asm", "__asm__"}
_ATTRIBUTE = {"__attribute__", "__attribute"}
_REMEDY = "Remove it"
ATTRIBUTES = {
    *("aligned", "always_inline", "noinline", "unused", "maybe_unused", "nodiscard", "noreturn", "deprecated"),
    *("fallthrough", "likely", "unlikely", "visibility", "flatten", "artificial", "gnu_inline", "may_alias", "packed"),
    *("nothrow", "cold", "hot"),
}
"""The attributes that a kernel may use. None changes which accesses a run logs."""
PRAGMAS = re.compile(
    r"(?:GCC |clang )?(?:unroll|nounroll|loop|diagnostic|ivdep)\b|once$|message\b|(?:nv_)?diag_\w+|nv_\w+"
    r"|(?:end)?region\b|hd_warning_disable|nv_exec_check_disable|STDC FP_CONTRACT\b"
)
BUILTINS = re.compile(
    r"__builtin_(?:expect\w*|assume\w*|unreachable|trap|offsetof|bit_cast|is_constant_evaluated|addressof|va_\w+"
    r"|(?:mem|str)(?:cpy|set|move|cmp|len)|(?:popcount|clz|ctz|ffs|parity|bswap\d*|abs|fabs|labs)(?:l|ll|f)?|(?:huge_val|inf|nans?)[fl]?"
    r"|is\w+|signbit\w*|fpclassify|(?:sqrt|exp2?|log2?|pow|fma|fm(?:in|ax)|floor|ceil|round|trunc|rint|copysign|sin|cos|tanh?|erf)f?"
    r"|FILE|LINE|FUNCTION)$"
)
"""The compiler's functions that a kernel may use: each access of theirs has a record."""
SHIM = {
    *("simt_thread_idx", "simt_block_idx", "simt_block_dim", "simt_grid_dim", "simt_rank", "simt_dynamic_shared"),
    *("simt_print", "simt_stop", "simt_clock", "simt_shared_array", "simt_bits", "simt_leave_here"),
}
"""The shim's names that CUDA's names and the build's edits expand to."""
_OWN = re.compile(r"_*(?:simt|tsan|ubsan|asan|sanitizer|wrap|real)_\w*$|simt$|SIMT_\w*$")
_EDIT = re.compile(r"simt_(?:to_|at_\d+_)?\d+$")  # an operand or a label of inline PTX
_PTX = "simt_ptx_"  # the functions of ptx.h, which report their accesses
LAUNCH = ("simt_run", "simt_call")
"""The shim's names in the launches, which the build writes below a kernel, each once for a launch."""
Word = tuple[str, str, int]  # the text of a token or of a #pragma, its file, its line


def check_text(name: str, text: str) -> None:
    """Raises BuildError for what the preprocessor takes out of a kernel's file.

    A line may give other lines another place: `#line`, or `# 1 "x.h"`. For the second form, comments and literals do
    not matter: a text could hide it from a reader of them. A macro may tell one build from another, or be the shim's.
    """
    pieces = _SPLICE.split(text)
    joined, end = "".join(pieces), -1
    code = bare(joined)

    def fault(at: int, said: str) -> BuildError:
        before = accumulate(map(len, pieces))
        line = 1 + joined.count("\n", 0, at) + sum(place <= at for place in before)
        return BuildError(f"{name} line {line}: {said}.")

    def refused(at: int, said: str) -> BuildError:
        return fault(at, f"it gives its lines another place ({' '.join(said.split())}). {_REMEDY}")

    if plain := _LINE.search(code):
        raise refused(plain.start(), plain[0])
    if telling := _TELLING.search(code):
        raise fault(telling.start(), f"{telling[0][:60]} tells one build from another. {_REMEDY}")
    if private := _PRIVATE.search(code):
        raise fault(private.start(), _of_runtime(private[0]))
    for found in _DIRECTIVE.finditer(joined):
        at = found.end()
        while at < len(joined):
            if joined[at] in " \t\v\f":
                at += 1
            elif joined.startswith("/*", at):
                end = end if end > at + 1 else joined.find("*/", at + 2)
                if end < 0:
                    break
                at = end + 2
            else:
                break
        if said := _PLACE.match(joined, at):
            raise refused(at, f"# {said[0]}")


def check(text: str, names: Iterable[str], sources: Path, marks: Sequence[str], launches: int) -> None:
    """Raises BuildError with file, line and remedy for the first word that a kernel may not use.

    text: the preprocessor's output for files that passed check_text. The headers of others come before the kernel's.
    names: of the kernel's files in the folder `sources`.
    marks: the names in place of watching.MARKS in the calls of marks that the build wrote into the text.
    launches: how many launches the build wrote below the kernel. A macro of the kernel could change them."""
    shim = {*SHIM, *marks}
    unit = str(sources / "unit.cpp")
    words, quiet = list(_words(text, {str(sources / name) for name in names}, unit)), False
    counts = Counter(word for word, *_ in words)
    for at, (word, file, line) in enumerate(words):
        if word == marks[0]:
            quiet = words[at + 2][0] == "1"
        elif quiet and word in ("{", "throw"):  # a jump out of the value would leave the probes silent
            raise BuildError(f"{Path(file).name} line {line}: the value of a mark has {word!r}. Mark a plain value.")
        if word in LAUNCH and file == unit and counts[word] == launches:
            continue
        if reason := _reason(words, at, word, shim):
            raise BuildError(f"{Path(file).name} line {line}: {reason}.")


def _words(text: str, own: set[str], unit: str) -> Iterator[Word]:
    """The tokens and pragmas from the kernel's first line on.

    Raises BuildError for a forged place, and for a header of others there: a macro of the kernel could change it."""
    files, line, judged = [unit], 1, False
    code, first, place = list[str](), 1, ""

    def tokens() -> Iterator[Word]:
        joined, number = "\n".join(code), first
        last = 0
        for found in _TOKEN.finditer(joined):
            number += joined.count("\n", last, found.start())
            last = found.start()
            yield _DIGRAPHS.get(found[0], found[0]), place, number
        code.clear()

    def fault(said: str) -> BuildError:
        kernel = next((file for file in reversed(files) if file in own), next(iter(own)))
        return BuildError(f"{Path(kernel).name} line {line}: {said}.")

    def forged(said: str) -> BuildError:
        return fault(f"it gives its lines another place ({said}). {_REMEDY}")

    for row in text.split("\n"):
        if marker := _MARKER.match(row):
            yield from tokens()
            number, name, flags = int(marker[1]), marker[2], marker[3].split()
            if "1" in flags:
                judged = judged or name in own
                if judged and name not in own:
                    header = Path(name).name
                    raise fault(f"it includes {header} in an unusual form. Write #include <{header}> on its own line")
                files.append(name)
            elif "2" in flags and len(files) > 1:
                files.pop()
                if judged and files[-1] != name:
                    raise forged(f"#line {number}")
            elif judged and name != files[-1]:
                raise forged(f"#line {number} {name[:60]!r}")
            line = number
            continue
        if judged:
            if re.match(r"\s*#\s*pragma\b", row):
                yield from tokens()
                yield row.strip(), files[-1], line
            else:
                if not code:
                    first, place = line, files[-1]
                code.append(row)
        line += 1
    yield from tokens()


def _reason(words: list[Word], at: int, word: str, shim: set[str]) -> str:
    if word.startswith("#") and len(word) > 1:
        said = " ".join(word.lstrip("# \t").split()).removeprefix("pragma").strip()
        if PRAGMAS.match(said):
            return ""
        return f"#pragma {said[:60]} is not among the accepted pragmas, such as unroll. {_REMEDY}"
    if word in _ASM:
        return f"it uses {word} outside of a statement. Write inline PTX as a statement of a function"
    if word in _ATTRIBUTE or word == "__declspec":
        return _of_attributes(word, _inside(words, at + 1, "(", ")"))
    if word == "[" and at + 1 < len(words) and words[at + 1][0] == "[":
        return _of_attributes("[[", _inside(words, at, "[", "]"))
    if word.startswith("__builtin_") and not BUILTINS.match(word):
        return f"it calls {word[:60]}, and a run cannot log its accesses. Use CUDA's own function for it"
    if word.startswith(("__atomic_", "__sync_")):
        return f"it calls {word[:60]}, which CUDA does not have. Use CUDA's own atomics, such as atomicAdd"
    if word in ("__seg_fs", "__seg_gs", "__thread", "thread_local"):
        return f"it uses {word}, which CUDA does not have. {_REMEDY}"
    is_call = at + 1 < len(words) and words[at + 1][0] in ("(", "<")  # its address would lead to the runtime's memory
    known = word in shim or word.startswith(_PTX)
    if _OWN.match(word) and not (known and is_call) and not _EDIT.match(word):
        return _of_runtime(word)
    return ""


def _of_runtime(word: str) -> str:
    return f"the name {word[:60]} belongs to the CPU's runtime. Choose another name"


def _inside(words: list[Word], at: int, opening: str, closing: str) -> list[str]:
    """The words between the bracket at `at` and its closing one."""
    depth, found = 0, list[str]()
    for word, *_ in words[at : at + 200]:
        depth += (word == opening) - (word == closing)
        if depth == 0:
            break
        found.append(word)
    return found


def _of_attributes(form: str, inside: list[str]) -> str:
    """The reason against the attributes of a list. An attribute's arguments are in brackets of their own."""
    depth, before, outer = 0, "", 2
    for word in inside:
        depth += (word in "([") - (word in ")]")
        name = word.strip("_")
        starts = depth == outer and re.match(r"[^\W\d]\w*$", word) and before in ("(", "[", ",", ":", "::")
        if starts and word not in ("using", "gnu", "__gnu__", "clang", "nodebug") and name not in ATTRIBUTES:
            return f"the attribute {word[:60]} is not among the accepted ones, such as aligned. {_REMEDY}"
        before = word
    if form == "__declspec":
        return f"it uses __declspec, which the CPU's compiler does not have. {_REMEDY}"
    return ""


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
    r"|_Unwind_Resume|_ZNSt8ios_base4Init[CD]1Ev|_ZSt\d+__throw_\w+|_ZSt9terminatev|__(?:mul|div|mod|udiv|umod|float|fix)\w*[tsdh]i\w*|__\w+[hs]f2?|__(?:extend|trunc)[a-z]+2|abort|_ZTV\w+"
)
ALLOWED = re.compile(rf"(?:(?:{_MATH})[fl]?|__(?:{_MATH})[fl]?_finite|{_RUNTIME}|{_COMPILER})$")
SECONDS = 60.0  # for a tool of binutils
LOGGED = (
    *("memcpy", "memmove", "memset"),
    *(f"{name}{end}" for name in ("frexp", "modf", "remquo", "sincos") for end in ("", "f")),
)
"""C's functions that the runtime replaces by its own, which log their accesses (runtime.cpp)."""


def close(spec: KernelSpec, unit: Path, untaken: Sequence[str] = ()) -> None:
    """Keeps the names of an object file inside it, except its launches. Raises BuildError for another call.

    untaken: the sentences of assembly.translated."""
    calls = CALLS - (set() if spec.watch else OF_MARKS) | {f"simt_{name}" for name in LOGGED}
    renamed = [f"--redefine-sym={name}=simt_{name}" for name in LOGGED]
    kept = ["--keep-global-symbol=launch_*", "--keep-global-symbol=DW.ref.*"]
    for command in (["objcopy", "-w", *kept, *renamed], ["readelf", "-sW"]):
        said = child.tool(command, unit, SECONDS, f"{spec.path.name}'s code", writes=command[0] == "objcopy")
    for row in said.splitlines():
        words = row.split()
        if found := re.search(rf"{assembly.UNTAKEN}(\d+)", words[7] if len(words) == 8 and words[6] == "UND" else ""):
            raise BuildError(untaken[int(found[1])])
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
SHIM_HEADERS = ("fibers.h", "invalid.h", "limit.h", "races.h", "report.h", "simt.h", "stacks.h")  # of runtime.cpp


class Toolchain(cpp.Toolchain):
    """The compiler for plain kernels (product.Toolchain). instrumented: whether its build reports each access."""

    def __init__(self, instrumented: bool) -> None:
        super().__init__()
        self.instrumented = instrumented
        self.options = [option for option in self.options if option != "-Wl,-z,defs"]
        # The C++ library sets the thread-safe guard of a shared array of vectors. It is no access of the kernel.
        self.options += [] if self.sets_nan and instrumented else ["-w"]
        self.options += ["-fno-strict-aliasing", "-fno-dollars-in-identifiers"]
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
        device = dict(device_texts(spec.files, words_of(spec)))
        end = secrets.token_hex(8)
        quiet, watch = marks = tuple(f"{name}_{end}" for name in watching.MARKS)
        for name, text in spec.files:
            includes.check(name, text, device[name], names)
            refusals.check(name, device[name])
            check_text(name, text)
            included |= dict.fromkeys(one.header for one in includes.includes(text, names) if one.is_known)
            calls = watching.edits(spec, name, (quiet, watch)) if self.instrumented else []
            more = [*calls, *includes.edits(text, names, keeps_known=False)]
            (sources / name).write_text(cpu_text(device[name], more=more))
        included |= dict.fromkeys(includes.brought(spec.files))
        if any(assembly.HAS_ASM.search(text) for _, text in spec.files):
            included["ptx.h"] = None
        (sources / "unit.cpp").write_text(_unit(spec, included, marks))
        unit, library = sources / "unit.o", folder / f"{spec.name}{self.suffix}"
        preprocessed_text = sources / "unit.ii"
        made = [f"-I{sources / 'cuda'}", "-x", "c++", "-E", str(sources / "unit.cpp"), "-o", str(preprocessed_text)]
        with includes.explaining(spec.files):
            cpp.compiled(spec, [*self.command, *options, *made], sources)
        made_text, launches = preprocessed_text.read_text(errors="replace"), len({t.entry for t in spec.launch_texts})
        made_text, untaken = assembly.translated(made_text, {str(sources / name) for name in names})
        check(made_text, names, sources, marks, launches)
        preprocessed_text.write_text(made_text)
        made = [*options, "-fPIC", "-fvisibility=hidden", "-x", "c++-cpp-output", str(preprocessed_text)]
        with includes.explaining(spec.files):
            log = self.made(spec, made, ["-c", "-o", str(unit)], sources, made_text)
        close(spec, unit, untaken)
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
    marks: the names of this build in place of watching.MARKS."""
    entries = {launch.entry: symbol_of(launch.entry) for launch in spec.launch_texts}
    of_cuda = [header for header in headers if header in (*CUDA_HEADERS, "ptx.h")]
    rows = [f"#include <{header}>" for header in headers if header not in of_cuda]
    rows += [f"#define {macro} {name}" for macro, name in zip(_MARKS, marks)]
    rows += [f'#include "{header}"' for header in ("language.h", *of_cuda)]
    rows += [f"#undef {macro}" for macro in (*_MARKS, "PROBED", "__SANITIZE_THREAD__")]
    rows += [f'#include "{spec.files[0][0]}"']
    rows += [f"#undef {word}" for word in (*_LAUNCH, *(f"launch_{symbol}" for symbol in entries.values()))]
    rows += [f"SIMT_PLAIN_EXPORT({symbol}, {entry})" for entry, symbol in entries.items()]
    return "\n".join([*rows, ""])

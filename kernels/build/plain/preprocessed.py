"""What a plain kernel's text may use, judged on its tokens after preprocessing.

No macro, `##`, `_Pragma` or spliced line hides a word from these rules. The compiler's own preprocessor makes the
tokens, and the judged text is the compiled text. The rules refuse what silences the checks of a run: attributes that
switch off the probes, inline assembly, and calls of the shim's own functions.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from kernels.build.plain.tokens import bare
from kernels.errors import BuildError

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
_EDIT = re.compile(r"simt_(?:to_)?\d+$")  # an operand of accepted inline PTX
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
    launches: how many launches the build wrote below the kernel. A macro of the kernel could change them.
    """
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

    Raises BuildError for a forged place, and for a header of others there: a macro of the kernel could change it.
    """
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
        return f"it uses inline assembly ({word}) that is no accepted PTX. Use CUDA's own function for it"
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
    if _OWN.match(word) and not (word in shim and is_call) and not _EDIT.match(word):
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

"""The texts of a program for its run on the CPU: a call in place of each launch, and no header of a library."""

import re
from collections.abc import Mapping, Sequence

from kernels.build.plain import assembly, includes, refusals
from kernels.build.plain.device import program_texts
from kernels.build.plain.edits import Edit, applied, cpu_text
from kernels.build.plain.macros import arguments, macros_of
from kernels.build.plain.refusals import HOST_HEADERS, STANDARD_HEADERS
from kernels.build.plain.tokens import bare, closing, items, tokens
from kernels.core.sources import defaults, function_of
from kernels.opening.launches import host_text
from kernels.opening.sites import ARRAY_CALLS, HostLaunch, sites, start_of

SAMPLES = re.compile(r"(?:.*/)?(?:helper_(?:cuda|functions|string|timer|image)|exception)\.h")
"""Headers of NVIDIA's samples. program_samples.h has the names that programs use of them."""
LIBRARY_CALL = re.compile(r"^library call (\w+) in (\S+) line (\d+)$", re.M)
"""The last line of a program at its first call of a library (program.h)."""
_EX = "cudaLaunchKernelEx"
_OF_LIBRARY = re.compile(
    r"\b(?:cu(?:blas|rand|dnn|sparse|solver|fft)(?:Lt)?[A-Z_]\w*|CU(?:BLAS|RAND|DNN|SPARSE|SOLVER|FFT)_\w+|CUDA_[RC]_\w+)\b"
)
_PRODUCTS = {"cublasSgemm", "cublasSgemm_v2", "cublasSgemmStridedBatched"}
_CUBLAS = _PRODUCTS | {"CUBLAS_OP_N", "CUBLAS_OP_T", "CUBLAS_OP_C"}
"""The names of program_cublas.h."""
_WITHOUT_VALUES = re.compile(r"\w*(?:Create\w*|Destroy\w*|Set(?:MathMode|Stream|PointerMode|Workspace)\w*)")


def sources(files: Sequence[tuple[str, str]]) -> dict[str, str]:
    """name -> text of a program's files, and of unit.cpp, which includes them. files: the one with main() first.

    Raises BuildError for a construct that no build accepts, in code that main() reaches."""
    files = [file for file in files if not SAMPLES.fullmatch(file[0])]
    macros = frozenset(name for _, text in files for name in macros_of(text))
    files = program_texts([(name, host_text(text, macros)) for name, text in files])
    names, first, made = [name for name, _ in files], dict[str, None](), dict[str, str]()
    has_samples = False
    for name, text in files:
        listed = includes.includes(text, names)
        first |= dict.fromkeys(one.header for one in listed if one.header in (*HOST_HEADERS, *STANDARD_HEADERS))
        has_samples |= any(SAMPLES.fullmatch(one.header) for one in listed)
        text = applied(text, includes.edits(text, names, keeps_known=True))
        refusals.check(name, text)
        made[name] = cpu_text(program_text(text))
    rows = [f"#include <{header}>" for header in first]
    rows += [
        '#include "language.h"',
        *(f"#include <{header}>" for header in includes.brought(files)),
        *(['#include "ptx.h"'] if any(assembly.HAS_ASM.search(text) for text in made.values()) else []),
        '#include "program.h"',
        *(['#include "program_samples.h"'] if has_samples else []),
    ]
    if any(_PRODUCTS & set(re.findall(r"\w+", text)) for text in made.values()):
        rows.append('#include "program_cublas.h"')
    rows += _of_libraries(made)
    made["unit.cpp"] = "\n".join([*rows, f'#include "{names[0]}"', ""])
    return made


def _of_libraries(texts: Mapping[str, str]) -> list[str]:
    """Names of libraries that are left out: types, constants, and calls. A call for values ends the program."""
    code = "\n".join(map(bare, texts.values()))
    own = {name for text in texts.values() for item in items(text, tokens(text)) for name in item.names[-1:]}
    words = set(re.findall(r"\w+", code))
    own |= _CUBLAS if _PRODUCTS & words else set()
    rows = []
    for name in sorted(
        {one[0] for one in _OF_LIBRARY.finditer(code)} - own - set(macros_of("\n".join(texts.values())))
    ):
        if name.endswith("_t"):
            rows.append(f"typedef SimtLibraryValue {name};")
        elif name.isupper() or not re.search(rf"\b{name}\s*\(", code):
            rows.append(f"constexpr int {name} = 0;")
        elif _WITHOUT_VALUES.fullmatch(name):
            rows.append(f"#define {name}(...) 0")
        else:
            rows.append(f'#define {name}(...) simt_library("{name}", __FILE__, __LINE__)')
    return rows


def program_text(text: str) -> str:
    """A text without macros that launch (host_text), with a call in place of each launch. No line moves."""
    text = re.sub(r"([{,]\s*)\.\s*(grid|block)Dim\s*=", r"\1.simt_\2 =", text)  # of cudaLaunchConfig_t
    found, edits = tokens(text), list[Edit]()
    for at, launch in sites(text, found):
        said = f'{launch.line}, "{launch.entry}", {launch.entry}'
        if found[at].text == "<<<":
            last = next(n for n in range(at, len(found)) if found[n].text == ">>>")
            inside = text[found[at].end : found[last].start]
            start = found[start_of(found, at)].start
            edits.append((start, found[last].end, f"simt_launch_at({said}, SimtConfig({inside}))"))
            edits += _defaults(text, launch, found[closing(found, last + 1)].start)
            continue
        listed = closing(found, at + 1)
        inside = text[found[at + 1].end : found[listed].start]
        if found[at].text in ARRAY_CALLS:
            call = f"simt_launch_array({said}, {', '.join(arguments(inside)[1:])}"
        else:
            config, _, *args = arguments(inside)
            call = f"simt_launch_array({said}, {config}, {', '.join(args)}"
            if found[at].text == _EX:
                call = f"(simt_launch_at({said}, simt_config({config}))({', '.join(args)}), simt_failed"
        lines = "\n" * text.count("\n", found[at].start, found[listed].end)
        edits.append((found[at].start, found[listed].end, f"{call}{lines})"))
    return applied(text, edits)


def _defaults(text: str, launch: HostLaunch, end: int) -> list[Edit]:
    """The default values of the arguments that a launch leaves out."""
    known = defaults(text, function_of(launch.entry))[len(launch.args) :]
    said = ", ".join(known)
    return [(end, end, f", {said}" if launch.args else said)] if known and all(known) else []

"""The headers of a plain kernel: of its folder, of CUDA and C, or left out.

A left-out header is one that only code of the host needs, such as torch/extension.h. No build reads its file. If device
code needs a name of it, the message of the compiler names the header with its line.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from kernels.build.plain.refusals import CUDA, CUDA_HEADERS, HOST_HEADERS, STANDARD_HEADERS
from kernels.build.plain.tokens import bare, line_of, tokens
from kernels.errors import BuildError

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]*)>|"([^"\n]*)")', re.M)
UNKNOWN = re.compile(
    r"not declared|undeclared|has not been declared|does not name a type|is undefined|is not a (?:class|template|type)"
    r"|not a namespace|no template named|expected (?:initializer|constructor|unqualified|primary|type)|a namespace name"
)


@dataclass(frozen=True)
class Include:
    """An include of a file.

    start, end: its place in the text.
    own: the kernel's file that it means, or "".
    quoted: whether its header is in quotes."""

    header: str
    start: int
    end: int
    line: int
    own: str
    quoted: bool

    @property
    def is_known(self) -> bool:
        return self.header in CUDA_HEADERS or self.header in STANDARD_HEADERS or self.header in HOST_HEADERS

    @property
    def is_left_out(self) -> bool:
        return not self.own and not self.is_known


def includes(text: str, own: Collection[str]) -> list[Include]:
    """The includes of a text. own: the names of the kernel's files."""
    code, found = bare(text), list[Include]()
    for one in _INCLUDE.finditer(text):
        if code[one.start() + one[0].index("#")] != "#":
            continue
        quoted, header = one[1] is None, one[2] if one[1] is None else one[1]
        last = header.rpartition("/")[2] if quoted else header
        file = last if last in own else ""
        found.append(Include(header, one.start(), one.end(), line_of(text, one.start()), file, quoted))
    return found


def edits(text: str, own: Collection[str], keeps_known: bool) -> list[tuple[int, int, str]]:
    """The edits of the includes: a file of the kernel by its plain name, and nothing for a header that is left out.

    keeps_known: whether the headers of CUDA and C stay, as for NVRTC. The CPU's build includes them first."""
    made = []
    for one in includes(text, own):
        if one.own:
            made.append((one.start, one.end, f'#include "{one.own}"'))
        elif not keeps_known or one.is_left_out:
            made.append((one.start, one.end, ""))
    return made


def left_out(files: Iterable[tuple[str, str]]) -> list[str]:
    """Each header that is left out, with its line: "<torch/extension.h> (a.cu line 2)"."""
    files = list(files)
    own = [name for name, _ in files]
    return [
        f"{text[one.start : one.end].split('include')[1].strip()} ({name} line {one.line})"
        for name, text in files
        for one in includes(text, own)
        if one.is_left_out
    ]


_OF_TORCH = re.compile(r"(?:torch|ATen|c10)/.*")
_BROUGHT = ("cmath", "limits", "algorithm", "cuda_fp16.h", "cuda_bf16.h")


def brought(files: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The headers that a left-out header of torch includes, so that device code may use their names."""
    files = list(files)
    own = [name for name, _ in files]
    listed = [one for _, text in files for one in includes(text, own)]
    return _BROUGHT if any(one.is_left_out and _OF_TORCH.fullmatch(one.header) for one in listed) else ()


def explained(error: BuildError, files: Iterable[tuple[str, str]]) -> BuildError:
    """The error with the left-out headers, if it is about a name that nothing declares."""
    missing = list(dict.fromkeys(left_out(files)))
    said = str(error)
    if not missing or not UNKNOWN.search(said):
        return error
    listed, them = " and ".join(missing[:4]), "it" if len(missing) == 1 else "them"
    made = BuildError(
        f"{said.rstrip('.')}. No build reads {listed}. If the name is of {them}, write its definition into the file, "
        "or put that header next to the file."
    )
    made.log = error.log
    return made


@contextmanager
def explaining(files: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Raises a compiler's BuildError as `explained`."""
    try:
        yield
    except BuildError as error:
        raise explained(error, files) from None


def check(name: str, text: str, device: str, own: Collection[str]) -> None:
    """Raises BuildError for a header of the CPU's runtime, and for the namespace of a library in device code, such as
    cutlass::, whose header is left out.

    device: the device code of the text."""
    for one in includes(text, own):
        if one.is_left_out and one.quoted and (CUDA / one.header).is_file():
            raise BuildError(
                f"{name} line {one.line}: the header {one.header} has a name of the CPU's runtime. Rename this header."
            )
    headers = {re.split(r"[/.]", one.header)[0]: one for one in includes(text, own) if one.is_left_out}
    for token, after in pairwise(tokens(device)):
        if token.text in headers and after.text == "::":
            one = headers[token.text]
            where = f"{name} line {line_of(device, token.start)}"
            raise BuildError(
                f"{where}: it uses {token.text}:: of <{one.header}> (line {one.line}), which is not among CUDA's own "
                "headers here. Write the part that it needs into the file."
            )

"""The launches of a text as it is written: kernel<<<...>>>, cudaLaunchKernel and its relatives."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kernels.build.plain.macros import arguments
from kernels.build.plain.tokens import Function, Token, closing, line_of
from kernels.opening.values import value as value_of

COOPERATIVE = "cudaLaunchCooperativeKernel"
ARRAY_CALLS = (COOPERATIVE, "cudaLaunchKernel")
LIST_CALLS = ("cudaLaunchKernelEx", "cudaLaunchKernelExC")


@dataclass(frozen=True)
class HostLaunch:
    """A launch in the text.

    entry: the kernel, an instance such as flash<64>.
    grid, block, shared: C expressions, "" if the text has none.
    function: of the host, with the launch.
    arms: (branch, arm) of each branch around it, the outermost first. Two arms of a branch exclude each other.
    values: (variable, value) that hold there, such as those of a case.
    derived: whether a number of the entry follows from another number of the host's template."""

    entry: str
    grid: str
    block: str
    shared: str
    args: tuple[str, ...]
    line: int
    cooperative: bool = False
    function: str = ""
    arms: tuple[tuple[str, str], ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    derived: bool = False


def sites(text: str, found: list[Token]) -> Iterator[tuple[int, HostLaunch]]:
    """(number of its sign's token, launch) of each launch in a text of the host, as written."""
    for at, token in enumerate(found):
        made = None
        if token.text == "<<<":
            made = _of_signs(text, found, at)
        elif token.text in (*ARRAY_CALLS, *LIST_CALLS) and at + 1 < len(found) and found[at + 1].text == "(":
            made = (_of_array if token.text in ARRAY_CALLS else _of_list)(text, found, at)
        if made:
            yield at, made


def start_of(found: list[Token], at: int) -> int:
    """The number of the first token of the kernel in front of <<<."""
    first = at - 1
    if found[first].text in (")", "]"):
        opener = next(n for n in range(first, -1, -1) if closing(found, n) == first and found[n].text in "([")
        return opener if found[first].text == ")" else opener - 1
    if found[first].text == ">":
        depth = 0
        while first:
            depth += (found[first].text == ">") - (found[first].text == "<")
            first -= 1
            if not depth:
                break
    while first > 1 and found[first - 1].text in ("::", "."):
        first -= 2
    return first


def _of_signs(text: str, found: list[Token], at: int) -> HostLaunch | None:
    last = next((n for n in range(at, len(found)) if found[n].text == ">>>"), None)
    if last is None or last + 1 >= len(found) or found[last + 1].text != "(" or not at:
        return None
    entry = text[found[start_of(found, at)].start : found[at].start]
    grid, block, shared, *_ = [*arguments(between(text, found, at, last)), "", "", ""]
    args = arguments(between(text, found, last + 1, closing(found, last + 1)))
    return HostLaunch(kernel_of(entry), grid, block, shared, tuple(args), line_of(text, found[at].start))


def _of_array(text: str, found: list[Token], at: int) -> HostLaunch:
    """cudaLaunchKernel(kernel, grid, block, args, shared). Its args are &a, &b of an array."""
    listed = arguments(between(text, found, at + 1, closing(found, at + 1)))
    kernel, grid, block, array, shared, *_ = [*listed, "", "", "", "", ""]
    line, cooperative = line_of(text, found[at].start), found[at].text == COOPERATIVE
    return HostLaunch(kernel_of(kernel), grid, block, shared, _array(text, array), line, cooperative)


def _of_list(text: str, found: list[Token], at: int) -> HostLaunch:
    """cudaLaunchKernelEx(&config, kernel, a, b), and its relative with an array of arguments."""
    config, kernel, *args = [*arguments(between(text, found, at + 1, closing(found, at + 1))), "", ""]
    if found[at].text.endswith("ExC"):
        args = list(_array(text, args[0])) if args else []
    name = config.lstrip("& ")
    fields = dict(re.findall(rf"\b{re.escape(name)}\s*\.\s*(\w+)\s*=\s*([^;]+);", text)) if name else {}
    listed = re.search(rf"\b{re.escape(name)}\s*=?\s*\{{([^{{}};]*)\}}", text) if name else None
    given = arguments(listed[1]) if listed else []
    fields |= {key: value for key, _, value in (one.lstrip(". ").partition("=") for one in given) if value}
    plain = [one for one in given if "=" not in one] + ["", "", ""]
    grid, block = (fields.get(key, plain[n]).strip() for n, key in enumerate(("gridDim", "blockDim")))
    shared = fields.get("dynamicSmemBytes", plain[2]).strip()
    args = [one for one in args if one]
    return HostLaunch(kernel_of(kernel), grid, block, shared, tuple(args), line_of(text, found[at].start))


def _array(text: str, name: str) -> tuple[str, ...]:
    value = re.search(rf"\b{re.escape(name)}\s*\[\w*\]\s*=\s*\{{([^}}]*)\}}", text) if name else None
    listed = arguments(value[1]) if value else arguments(name.strip("{} ")) if name.startswith("{") else ()
    return tuple(one.rpartition("&")[2].strip() for one in listed)


def kernel_of(text: str) -> str:
    """The kernel of an expression, without casts, & and blanks: f<64> of (void*)&f< 64 >."""
    text = re.sub(r"\s+", " ", text).strip()
    while (
        bare := re.sub(r"^\((?:const )?void ?\*\) ?|^(?:reinterpret|static)_cast ?<[^<>]*> ?|^[&*]+ ?", "", text)
    ) != text:
        text = bare
    if text.startswith("(") and text.endswith(")"):
        return kernel_of(text[1:-1])
    name, sign, rest = text.partition("<")
    values = ", ".join(map(folded, arguments(rest.rpartition(">")[0])))
    return f"{name.strip()}<{values}>" if sign else name.strip()


def folded(text: str) -> str:
    """A whole number for an expression of numbers, such as 1024 / (4), else the text."""
    is_plain = re.fullmatch(r"(?:[\d\suUlL()+*/-]|<<){1,60}", text)
    number = value_of(text, lambda name: None) if is_plain else None
    return text if number is None else str(number)


def values_of(entry: str) -> list[str]:
    """The values of a template in an entry, such as 64 and float of f<64, float>."""
    return arguments(entry.partition("<")[2].rpartition(">")[0])


def between(text: str, found: list[Token], first: int, last: int) -> str:
    return text[found[first].end : found[last].start].strip()


def parameter_names(text: str, found: list[Token], function: Function) -> list[str]:
    """The names of a function's parameters, "" for one without a name."""
    opener = next((n for n in range(function.first, function.body) if found[n].text == function.name), function.first)
    inside = between(text, found, opener + 1, closing(found, opener + 1)) if function.body > opener + 1 else ""
    names = []
    for one in arguments(inside):
        pointer = re.search(r"\(\s*\*\s*(\w+)", one)
        words = re.findall(r"[A-Za-z_]\w*", one.partition("=")[0])
        names.append(pointer[1] if pointer else words[-1] if words else "")
    return names

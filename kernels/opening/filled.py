"""The values with which the host fills a memory before a launch: cudaMemset, torch::zeros and torch::full."""

import re

from kernels.build.plain.macros import arguments
from kernels.build.plain.tokens import bare, closing, line_of, tokens

_CALL = r"(?:torch|at)\s*::\s*(zeros|zeros_like|new_zeros|full|full_like|new_full)\s*\("
_NONE = re.compile(r"-\s*(?:INFINITY|HUGE_VALF?|std::numeric_limits<\s*\w+\s*>::infinity\(\))f?")
_ZERO = re.compile(r"0(?:\.0*)?f?")


def initial_of(text: str, argument: str) -> tuple[str, str]:
    """(`zero`, `lowest` or "", its line) of the memory behind a launch's argument, such as l.data_ptr<float>()."""
    code = bare(text)
    for name in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", argument)):
        if found := re.search(rf"\bcudaMemset(?:Async)?\s*\(\s*{name}\s*,\s*0\b", code):
            return "zero", f"line {line_of(code, found.start())}: cudaMemset"
        made = [*re.finditer(rf"(?<![\w.]){name}\s*=\s*{_CALL}|(?<![\w.]){name}\s*\.\s*(zero_|fill_)\s*\(", code)]
        if made and (value := _value(code, made[-1])):
            called = "torch::" + made[-1][1] if made[-1][1] else made[-1][2]
            return value, f"line {line_of(code, made[-1].start())}: {called}"
    return "", ""


def _value(code: str, call: re.Match[str]) -> str:
    called = call[1] or call[2]
    if "zero" in called:
        return "zero"
    rest = tokens(code[call.end() - 1 :])
    given = arguments(code[call.end() : call.end() - 1 + rest[closing(rest, 0)].start])
    number = given[called != "fill_"] if len(given) > (called != "fill_") else ""
    return "lowest" if _NONE.fullmatch(number) else "zero" if _ZERO.fullmatch(number) else ""

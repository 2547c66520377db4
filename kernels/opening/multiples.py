"""Conditions for multiples: a text divides a size without a rest, checks it, or walks it without a guard."""

import re

from kernels.build.plain.edits import device_text
from kernels.build.plain.tokens import bare
from kernels.core.fields import fields_of
from kernels.opening.host import constants_of
from kernels.opening.matching import Fit

_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n)*", re.M)
_SIZE = r"(\d+|[A-Za-z_]\w*)"
_CHECKED = re.compile(rf"\bassert\s*\(\s*(\w+)\s*%\s*{_SIZE}\s*==\s*0")
_REFUSED = re.compile(
    rf"\bif\s*\(\s*(\w+)\s*%\s*{_SIZE}\s*(?:!=\s*0\s*)?\)\s*\{{?\s*(?:return|exit|abort|throw|f?printf|std)\b"
)
_DIVIDED = re.compile(rf"\b(?<![.)\]+*-])([A-Za-z_]\w*+)\s*+/\s*+{_SIZE}\b(?!\s*[.(])")
_WALKED = re.compile(rf"\bfor\s*\([^;]*=\s*0\s*;\s*(\w+)\s*<\s*(\w+)\s*;\s*\1\s*\+=\s*{_SIZE}\s*\)")


def multiples_of(fit: Fit, text: str) -> list[str]:
    """Conditions such as "seq_len % 32 == 0", each once."""
    whole, code = (_DIRECTIVE.sub("", bare(part)) for part in (text, device_text(text)))
    found = [*_CHECKED.findall(whole), *_REFUSED.findall(whole)]
    found += [pair for pair in _DIVIDED.findall(code) if not _has_rest(code, pair[0])]
    found += [(name, size) for _, name, size in _WALKED.findall(code) if not _is_guarded(code, name)]
    sizes = constants_of(text)
    musts = [(fit.meaning(name), int(size) if size.isdigit() else sizes.get(size, 0)) for name, size in found]
    return list(dict.fromkeys(f"{name} % {size} == 0" for name, size in musts if _is_new(fit, name, size)))


def _has_rest(code: str, name: str) -> bool:
    """Whether the text treats a rest of the division."""
    return re.search(rf"\b{name}\s*%|\b{name}\s*\+\s*\w+\s*-\s*1\b", code) is not None


def _is_guarded(code: str, name: str) -> bool:
    """Whether the text compares the name elsewhere than in the headers of its walks."""
    walks = sum(walked[1] == name for walked in _WALKED.findall(code))
    compared = len(re.findall(rf"[<>]=?\s*{name}\b|\b{name}\s*[<>]|\bmin\s*\([^;]*\b{name}\b", code))
    return compared > walks


def _is_new(fit: Fit, name: str, size: int) -> bool:
    """Whether the condition refuses some value of a field."""
    field = fields_of(fit.shown.problem_type).get(name)
    if field is None or size < 2:
        return False
    values = field.metadata["allowed"]
    return not values or any(isinstance(value, int) and value % size for value in values)

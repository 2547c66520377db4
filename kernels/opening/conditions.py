"""The conditions of a proposal: the problems that the untouched text solves.

A condition for a multiple: the text divides a size without a rest, checks it, or walks it without a guard.
"""

import re

from kernels.build.plain.edits import device_text
from kernels.build.plain.tokens import bare
from kernels.core.fields import field_values, fields_of
from kernels.opening.host import constants_of
from kernels.opening.matching import Fit, another, changed, plain, shaping


def conditions_of(fit: Fit, text: str, entries: list[dict[str, object]]) -> list[dict[str, str]]:
    """[[conditions]] for the fields that no argument of the launches gives to the kernel."""
    said = " ".join(str(value) for entry in entries for value in entry.values())
    used = set(re.findall(r"[A-Za-z_]\w*", said))
    words = {plain(word) for word in re.findall(r"[A-Za-z_]\w*", bare(text))}
    musts = [f"{name} == '{value}'" for name, value in fit.fixed.items()]
    for name, value in field_values(fit.shown).items():
        if isinstance(value, bool) and name not in used and plain(name) not in words:
            musts.append(f"not {name}")
    for name in shaping(fit.shown):
        if not _is_used(fit, name, used) and not _is_macro(fit, name, used, text) and name not in fit.shown.follows:
            musts.append(f"{name} == {_value(fit, name, text)}")
    for entry in entries:
        sizes = re.findall(r"\b([a-z_]+) // (\d+)", str(entry["grid"]))
        musts += [f"{name} % {size} == 0" for name, size in sizes if int(size) > 1]
    musts = list(dict.fromkeys([*musts, *multiples_of(fit, text)]))
    return [{"must": must, "message": f"The kernel needs {must}."} for must in musts]


def _is_used(fit: Fit, name: str, used: set[str]) -> bool:
    """Whether a used name depends on the field: the field, or a size such as the keys of a head."""
    problem = fit.shown
    other = changed(problem, **{name: another(problem, name)})
    if name in used or other is None:
        return name in used
    before, after = {**problem.values(), **problem.sizes}, {**other.values(), **other.sizes}
    return any(before[size] != after[size] for size in used & set(before) if size in after)


def _is_macro(fit: Fit, name: str, used: set[str], text: str) -> bool:
    """Whether the text or an entry takes the field as a macro of the problem, such as HEAD_DIM."""
    problem = fit.shown
    macros = {macro for macro in problem.defines if macro.lower() == name.lower()}
    words = set(re.findall(r"[A-Za-z_]\w*", bare(text)))
    return bool(macros & used) or bool(macros & words - set(constants_of(text)))


def _value(fit: Fit, name: str, text: str) -> object:
    """The only value of a field: of a constant with its name, else 1, else the default."""
    field = fields_of(fit.shown.problem_type)[name]
    for constant, value in constants_of(text).items():
        if fit.meaning(constant) == name and value in (field.metadata["allowed"] or (value,)):
            return value
    default = field_values(fit.shown)[name]
    return 1 if default and field.metadata["low"] == 1 else default


_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n)*", re.M)
_SIZE = r"(\d+|[A-Za-z_]\w*)"
_CHECKED = re.compile(rf"\bassert\s*\(\s*(\w+)\s*%\s*{_SIZE}\s*==\s*0")
_REFUSED = re.compile(
    rf"\bif\s*\(\s*(\w+)\s*%\s*{_SIZE}\s*(?:!=\s*0\s*)?\)\s*\{{?\s*(?:return|exit|abort|throw|f?printf|std)\b"
)
_DIVIDED = re.compile(rf"\b(?<![.)\]+*-])([A-Za-z_]\w*+)\s*+/\s*+{_SIZE}\b(?!\s*[.(])")
_WALKED = re.compile(rf"\bfor\s*\([^;]*=\s*0\s*;\s*(\w+)\s*<\s*(\w+)\s*;\s*\1\s*\+=\s*{_SIZE}\s*\)")


def multiples_of(fit: Fit, text: str) -> list[str]:
    whole, code = (_DIRECTIVE.sub("", bare(part)) for part in (text, device_text(text)))
    found = [*_CHECKED.findall(whole), *_REFUSED.findall(whole)]
    found += [  # a rest of the division that the text treats needs no condition
        (name, size)
        for name, size in _DIVIDED.findall(code)
        if not re.search(rf"\b{name}\s*%|\b{name}\s*\+\s*\w+\s*-\s*1\b", code)
    ]
    found += [(name, size) for _, name, size in _WALKED.findall(code) if not _is_guarded(code, name)]
    sizes = constants_of(text)
    musts = [(fit.meaning(name), int(size) if size.isdigit() else sizes.get(size, 0)) for name, size in found]
    return list(dict.fromkeys(f"{name} % {size} == 0" for name, size in musts if _is_new(fit, name, size)))


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

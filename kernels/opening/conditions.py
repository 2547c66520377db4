"""The conditions of a proposal: the problems that the untouched text solves."""

import re

from kernels.build.plain.tokens import bare
from kernels.core.fields import field_values, fields_of
from kernels.opening.host import constants_of
from kernels.opening.matching import Fit, another, changed, plain, shaping
from kernels.opening.multiples import multiples_of


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

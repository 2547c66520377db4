"""The names and C expressions in a text of the host, in the words of the front matter."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernels.build.plain.device import without_host_functions
from kernels.build.plain.tokens import bare, tokens
from kernels.core.fields import field_values, fields_of
from kernels.opening.host import HostLaunch, constants_of, kernels_of, parts, variable
from kernels.opening.matching import Fit, Meaning, another, changed, plain, shaping
from kernels.opening.uses import strides

_BYTES = {"float": 4, "int": 4, "unsigned": 4, "half": 2, "__half": 2, "__nv_bfloat16": 2, "double": 8, "float4": 16}
_INNER = r"((?:[\w*+ ]|\([\w*+ ]*\))+?)"
_ROUND_UP = re.compile(rf"\({_INNER} \+ \(?(\w+) ?- ?1\)?\) ?// ?(\2)\b")
_ROUND_UP_NUMBER = re.compile(rf"\({_INNER} \+ (\d+)\) ?// ?(\d+)\b")
_CEIL = re.compile(r"(?:\w*ceil\w*|\w*div_?up\w*|cdiv)", re.I)


def translated(text: str, names: Mapping[str, str]) -> str | None:
    """The expression, or None with an unknown name. names: C name -> expression."""
    text = re.sub(r"sizeof\s*\(\s*([\w ]+?)\s*\)", lambda found: str(_BYTES.get(found[1], "?")), text)
    text = re.sub(r"static_cast\s*<[^<>]*>|\((?:int|unsigned|size_t|float|double|unsigned int)\)", "", text)
    text = re.sub(r"(?<=\d)[uUlLfF]+\b", "", text)
    text = re.sub(r"(?<!/)/(?!/)", "//", text).strip()
    text = re.sub(r"\bceilf?\s*\(\s*([^()]+?)\s*//\s*(\w+)\s*\)", r"ceil_div(\1, \2)", text)
    unknown = list[str]()

    def word(found: re.Match[str]) -> str:
        name = found[0]
        if _CEIL.fullmatch(name) and text[found.end() :].lstrip().startswith("("):
            return "ceil_div"
        if name in ("min", "max"):
            return name
        if name not in names:
            unknown.append(name)
            return name
        held = names[name]
        return f"({held})" if re.search(r"\W", held) else held

    said = _arm(re.sub(r"[A-Za-z_]\w*", word, text.replace("std::", "")))
    if unknown or "?" in said or re.search(r"[&<>.\[\]{}=]", said):
        return None
    text = re.sub(r"\s+", " ", said)
    text = _ROUND_UP.sub(r"ceil_div(\1, \2)", text)
    text = _ROUND_UP_NUMBER.sub(_rounded, text)
    while (bare := re.sub(r"^\(((?:[^()]|\([^()]*\))*)\)$|\b(ceil_div\()\(([^()]*)\),", _unwrap, text)) != text:
        text = bare
    return text


def _arm(text: str) -> str:
    """The arm of A ? B : C for a comparison of two numbers, else the text."""
    found = re.fullmatch(r"\(?(\d+) *(<=|<|>=|>|==) *(\d+)\)? *\?([^?:]+):([^?:]+)", text)
    if not found:
        return text
    left, right, sign = int(found[1]), int(found[3]), found[2]
    holds = left < right if sign[0] == "<" else left > right if sign[0] == ">" else False
    return (found[4] if holds or sign[-1] == "=" and left == right else found[5]).strip()


def _rounded(found: re.Match[str]) -> str:
    same = int(found[2]) == int(found[3]) - 1
    return f"ceil_div({found[1]}, {found[3]})" if same else found[0]


def _unwrap(found: re.Match[str]) -> str:
    return found[1] if found[1] is not None else f"{found[2]}{found[3]},"


MOST_STEPS = 6  # from a variable to the variables of its declaration


@dataclass(frozen=True)
class Names:
    """The names of a text.

    meaning: a name -> the size or field that it means, or "".
    arguments: names in the arguments of a launch -> the meaning of their parameters.
    allowed: a field -> its values, if they are few. A constant with one of these values means the field."""

    text: str
    meaning: Meaning
    arguments: Mapping[str, str] = field(default_factory=dict)
    allowed: Mapping[str, tuple[object, ...]] = field(default_factory=dict)

    def expression(self, text: str, line: int, steps: int = MOST_STEPS) -> str | None:
        known = self.arguments  # of a template, T may be float
        text = re.sub(r"sizeof\s*\(\s*(\w+)\s*\)", lambda one: f"sizeof({known.get(one[1], one[1])})", text)
        words = {token.text for token in tokens(text) if re.match(r"[A-Za-z_]", token.text)}
        found = {word: self._name(word, line, steps) for word in words}
        return translated(text, {word: said for word, said in found.items() if said is not None})

    def sizes(self, text: str, line: int) -> list[str] | None:
        """One to three sizes: of a dim3, of a variable that is a dim3, or one expression. None if one is unknown."""
        text = text.strip()
        declared = variable(self.text, text, line) if re.fullmatch(r"[A-Za-z_]\w*", text) else ""
        text = declared if declared.startswith(("dim3", "{")) else text
        inside = re.fullmatch(r"(?:dim3\s*)?[({](.*)[)}]", text, re.S)
        listed = parts(inside[1]) if inside and text.startswith(("dim3", "{")) else [text]
        said = [self.expression(part, line) for part in listed]
        known = [one for one in said if one is not None]
        while len(known) > 1 and known[-1] == "1":
            known.pop()
        return known if said and len(known) and None not in said else None

    def _name(self, name: str, line: int, steps: int) -> str | None:
        if name in self.arguments:
            return self.arguments[name]
        meant = self.meaning(name)
        if name in (constants := constants_of(self.text)) and constants[name] not in self.allowed.get(meant, ()):
            return str(constants[name])
        if meant:
            return meant
        declared = variable(self.text, name, line) if steps else ""
        return self.expression(declared, line, steps - 1) if declared and name not in declared else None


def arguments_of(launch: HostLaunch, symbols: list[str], meaning: Meaning) -> dict[str, str]:
    """The names in a launch's arguments -> the meaning of their parameters."""
    found = {}
    for text, symbol in zip(launch.args, symbols):
        if re.fullmatch(r"[A-Za-z_]\w*", text) and (meant := meaning(symbol)):
            found[text] = meant
    return found


def conditions_of(
    fit: Fit, text: str, entries: list[dict[str, object]], given: Mapping[str, int], numbers: Mapping[str, int]
) -> list[dict[str, str]]:
    """[[conditions]] for the fields that no argument of the launches gives to the kernel. given: a field -> its only
    value. numbers: a name of the host -> its number."""
    said = " ".join(str(value) for entry in entries for value in entry.values())
    used = set(re.findall(r"[A-Za-z_]\w*", said))
    words = {plain(word) for word in re.findall(r"[A-Za-z_]\w*", bare(text))}
    musts = [f"{name} == '{value}'" for name, value in fit.fixed.items()]
    for name, value in field_values(fit.shown).items():
        if isinstance(value, bool) and name not in used and plain(name) not in words:
            musts.append(f"not {name}")
    musts += [f"{name} == {value}" for name, value in given.items()]
    for name in shaping(fit.shown):
        if name in given:
            continue
        if not _is_used(fit, name, used) and not _is_macro(fit, name, used, text) and name not in fit.shown.follows:
            musts.append(f"{name} == {_value(fit, name, text)}")
    for entry in entries:
        sizes = re.findall(r"\b([a-z_]+) // (\d+)", str(entry["grid"]))
        musts += [f"{name} % {size} == 0" for name, size in sizes if int(size) > 1]
    needs = {must: f"The kernel needs {must}." for must in [*musts, *multiples_of(fit, text, numbers)]}
    for must in unguarded(fit, text, entries):
        needs.setdefault(must, f"The kernel needs {must}: it has no guard for a last tile that is not full.")
    return [{"must": must, "message": message} for must, message in needs.items()]


def _is_used(fit: Fit, name: str, used: set[str]) -> bool:
    """Whether a used name depends on the field: the field, or a size such as the keys of a head."""
    problem = fit.shown
    other = changed(problem, **{name: another(problem, name)})
    if name in used or other is None:
        return name in used
    before, after = {**problem.values(), **problem.sizes}, {**other.values(), **other.sizes}
    whole = (size for size in used & set(before) if size in after and isinstance(before[size], int))
    return any(before[size] != after[size] for size in whole)  # a scale tells no width


def _is_macro(fit: Fit, name: str, used: set[str], text: str) -> bool:
    """Whether the text or an entry takes the field as a macro of the problem, such as HEAD_DIM."""
    problem = fit.shown
    macros = {macro for macro in problem.defines if macro.lower() == name.lower()}
    words = set(re.findall(r"[A-Za-z_]\w*", bare(text)))
    return bool(macros & used) or bool(macros & words - set(constants_of(text)))


def _value(fit: Fit, name: str, text: str) -> object:
    """The only value of a field: of a constant with its name, else 1, else the default."""
    field = fields_of(fit.shown.problem_type)[name]
    allowed = field.metadata["allowed"]
    for constant, value in constants_of(text).items():
        if fit.meaning(constant) == name and value in (allowed or (value,)):
            return value
    widths = _strides(fit, text) & set(allowed or ())
    if len(widths) == 1:
        return widths.pop()
    default = field_values(fit.shown)[name]
    return 1 if default and field.metadata["low"] == 1 else default


def _strides(fit: Fit, text: str) -> set[int]:
    """The numbers by which the indices of the problem's tensors multiply."""
    constants = constants_of(text)
    names = {name for kernel in kernels_of(text) for pointer in fit.tensors for name in strides(text, kernel, pointer)}
    return {int(name) if name.isdigit() else constants.get(name, 0) for name in names}


_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n)*", re.M)
_SIZE = r"(\d+|[A-Za-z_]\w*)"
_CHECKED = re.compile(rf"\bassert\s*\(\s*(\w+)\s*%\s*{_SIZE}\s*==\s*0")
_REFUSED = re.compile(
    rf"\bif\s*\(\s*(\w+)\s*%\s*{_SIZE}\s*(?:!=\s*0\s*)?\)\s*\{{?\s*(?:return|exit|abort|throw|f?printf|std)\b"
)
_ASSUMED = re.compile(rf"(?<!\w)(\w++)\s*+%\s*+{_SIZE}\s*+==\s*+0")
_DIVIDED = re.compile(rf"\b(?<![.)\]+*-])([A-Za-z_]\w*+)\s*+/\s*+{_SIZE}\b(?!\s*[.(])")
_WALKED = re.compile(rf"\bfor\s*\([^;]*=\s*0\s*;\s*(\w+)\s*<\s*(\w+)\s*;\s*\1\s*\+=\s*{_SIZE}\s*\)")


def _assumed(text: str) -> list[tuple[str, str]]:
    """(size, divisor) of the comments that assume, require or demand a multiple: // assume N % 32 == 0."""
    said = (line for line in text.splitlines() if re.search(r"//|\*", line))
    said = (line for line in said if re.search(r"assum|requir|must", line, re.I))
    return [found for line in said for found in _ASSUMED.findall(line)]


def divisors_of(text: str) -> set[str]:
    """The names by which the text requires a size to be divisible."""
    code = bare(text)
    found = (*_CHECKED.findall(code), *_REFUSED.findall(code), *_assumed(text))
    return {size for _, size in found if not size.isdigit()}


def multiples_of(fit: Fit, text: str, numbers: Mapping[str, int]) -> list[str]:
    whole, code = (_DIRECTIVE.sub("", bare(part)) for part in (text, without_host_functions(text)))
    found = [*_CHECKED.findall(whole), *_REFUSED.findall(whole), *_assumed(text)]
    found += [  # a rest of the division that the text treats needs no condition
        (name, size)
        for name, size in _DIVIDED.findall(code)
        if not re.search(rf"\b{name}\s*%|\b{name}\s*\+\s*\w+\s*-\s*1\b", code)
    ]
    found += [(name, size) for _, name, size in _WALKED.findall(code) if not _is_guarded(code, name)]
    sizes = {**numbers, **constants_of(text)}
    named = [
        (name, size) for name, size in found if name not in sizes
    ]  # a number of the text is no size of the problem
    musts = [(fit.meaning(name), int(size) if size.isdigit() else sizes.get(size, 0)) for name, size in named]
    return list(dict.fromkeys(f"{name} % {size} == 0" for name, size in musts if _is_new(fit, name, size)))


def unguarded(fit: Fit, text: str, entries: list[dict[str, object]]) -> list[str]:
    """A condition for each size that a launch rounds up to whole tiles, if the device code compares nothing with it."""
    code, constants = without_host_functions(text), constants_of(text)
    words = set(re.findall(r"[A-Za-z_]\w*", code)) - set(constants)
    said = " ".join(str(entry[key]) for entry in entries for key in ("grid", "args"))
    found = list[str]()
    for name, size in dict.fromkeys(re.findall(r"ceil_div\((\w+), (\d+)\)", said)):
        spelled = [word for word in words if fit.meaning(word) == name and not re.search(rf"\b{word}\s*\[", code)]
        if spelled and not any(_is_compared(code, word) for word in spelled) and _is_new(fit, name, int(size)):
            found.append(f"{name} % {size} == 0")
    return found


def _is_compared(code: str, name: str) -> bool:
    return bool(re.search(rf"(?:[<>]=?|[=!]=)\s*{name}\b|\b{name}\s*(?:[<>%]|[=!]=)|\bmin\s*\([^;]*\b{name}\b", code))


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

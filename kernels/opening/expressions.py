"""A C expression of a launch as an expression of the front matter."""

import re
from collections.abc import Mapping

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

    said = re.sub(r"[A-Za-z_]\w*", word, text.replace("std::", ""))
    if unknown or "?" in said or re.search(r"[&<>.\[\]{}=]", said):
        return None
    return _tidy(said)


def _tidy(text: str) -> str:
    """(n + B - 1) // B as ceil_div(n, B), without needless brackets."""
    text = re.sub(r"\s+", " ", text)
    text = _ROUND_UP.sub(r"ceil_div(\1, \2)", text)
    text = _ROUND_UP_NUMBER.sub(_rounded, text)
    while (bare := re.sub(r"^\(((?:[^()]|\([^()]*\))*)\)$|\b(ceil_div\()\(([^()]*)\),", _unwrap, text)) != text:
        text = bare
    return text


def _rounded(found: re.Match[str]) -> str:
    same = int(found[2]) == int(found[3]) - 1
    return f"ceil_div({found[1]}, {found[3]})" if same else found[0]


def _unwrap(found: re.Match[str]) -> str:
    return found[1] if found[1] is not None else f"{found[2]}{found[3]},"

"""The signatures of the __global__ functions of a .cu, read from its text."""

import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.S)
_QUALIFIERS = ("const", "__restrict__", "__restrict", "volatile", "__grid_constant__")
# Between __global__ and the name: void, and attributes with up to three levels of parentheses. No step goes back.
_NESTED = r"\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\)"
_ATTRIBUTES = rf"(?:(?:__\w++(?<=__)|alignas\b)\s*+(?:{_NESTED}\s*+)?+)*+"
_HEADER = re.compile(rf"\s++{_ATTRIBUTES}void\s++{_ATTRIBUTES}(\w++)\s*+\(([^();{{}}]*+)\)")
_GLOBAL = re.compile(r"\b__global__\b")
_PLAIN_C = re.compile(r'\bextern\s++"C"\s++__global__\s')
_OF_PROBES = re.compile(r"\bPROBE_(?:PARAM|CHILDREN)\b")
C_TYPES = {
    "int32": ("int", "int32_t", "signed", "signed int"),
    "uint32": ("unsigned", "unsigned int", "uint32_t"),
    "int64": ("long long", "int64_t", "long", "long long int", "long int"),
    "float32": ("float",),
    "float64": ("double",),
    "uint64": ("unsigned long long", "size_t", "uint64_t", "unsigned long"),
    "bool": ("bool",),
}
"""A number's type in the comment -> its spellings in the signature. Another spelling, such as a typedef, passes."""
OTHER_C_TYPES = (
    *("char", "signed char", "unsigned char", "short", "unsigned short", "int8_t", "uint8_t", "int16_t"),
    *("uint16_t", "half", "__half", "__nv_bfloat16"),
)
"""Spellings of numbers without a type in the comment."""


def parameters(source: str, entry: str) -> tuple[tuple[str, str], ...]:
    """(C type, name) of each parameter of a __global__ function, in order, or () without this function.

    The type has no const and no __restrict__, such as float*. An entry may be an instance, such as flash<64>.
    """
    bare = _COMMENT.sub(" ", source)
    for after in _GLOBAL.split(bare)[1:]:
        found = _HEADER.match(after)
        if found and found[1] == function_of(entry):
            texts = (
                re.findall(r"[\w:<>]+|[*&]", text) for text in _OF_PROBES.sub("", found[2]).split(",") if text.strip()
            )
            listed = ([word for word in words if word not in _QUALIFIERS] for words in texts)
            return tuple((re.sub(r" (?=[*&])", "", " ".join(words[:-1])), "".join(words[-1:])) for words in listed)
    return ()


def signature(source: str, entry: str) -> tuple[str, ...]:
    return tuple(name for _, name in parameters(source, entry))


def function_of(entry: str) -> str:
    """The function of an entry: flash for flash<64, 32>."""
    return entry.partition("<")[0].strip()


def symbol_of(entry: str) -> str:
    """The entry as a name in C: flash_64_32_ for flash<64, 32>."""
    return re.sub(r"\W+", "_", entry)


def is_plain_c(source: str, entry: str) -> bool:
    """Whether an entry is extern "C", so that its symbol is its name."""
    name = re.compile(rf"\b{re.escape(entry)}\s*+\(")
    return any(name.search(re.split("[;{]", after, maxsplit=1)[0]) for after in _PLAIN_C.split(source)[1:])


def without_comments(text: str) -> str:
    """Source text without comments, blank lines and the space at the ends of lines."""
    lines = (line.strip() for line in _COMMENT.sub(" ", text).splitlines())
    return "\n".join(line for line in lines if line)

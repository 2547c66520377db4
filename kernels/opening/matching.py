"""The problem that fits the parameters of kernels: its tensors and sizes, by name and type."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product

from kernels.core.fields import field_values, fields_of
from kernels.core.problem import Problem
from kernels.core.tensors import Role, Tensor
from kernels.errors import ProblemError

POINTED = {
    **dict.fromkeys(("float", "float2", "float3", "float4"), "float32"),
    **dict.fromkeys(("half", "__half", "half2", "__half2"), "float16"),
    **dict.fromkeys(("__nv_bfloat16", "nv_bfloat16", "__nv_bfloat162", "nv_bfloat162"), "bfloat16"),
    **dict.fromkeys(("int", "int32_t", "signed int"), "int32"),
    **dict.fromkeys(("long long", "int64_t", "long"), "int64"),
    **dict.fromkeys(("uint8_t", "unsigned char"), "uint8"),
    **dict.fromkeys(("unsigned", "unsigned int", "uint32_t", "uint"), "uint32"),
    **dict.fromkeys(("unsigned long long", "unsigned long", "uint64_t", "size_t"), "uint64"),
    **dict.fromkeys(("char", "signed char", "int8_t"), "int8"),
    **dict.fromkeys(("short", "int16_t"), "int16"),
    **dict.fromkeys(("unsigned short", "uint16_t"), "uint16"),
    "double": "float64",
    "__nv_fp8_e4m3": "float8_e4m3",
}
"""The type behind a pointer -> the type of its tensor."""
LANES = {"float2": 2, "float3": 3, "float4": 4, "half2": 2, "__half2": 2}
Meaning = Callable[[str], str]
"""A name of the text -> the size or field that it means, or ""."""
MOST_VARIANTS = 64
LEAST_TENSORS = 2


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel. entry: of the kernel. c_type: without const, such as float*. dtype: of a pointer, or ""
    for another type."""

    entry: str
    c_type: str
    name: str
    dtype: str = ""

    @property
    def is_pointer(self) -> bool:
        return self.c_type.endswith("*")


@dataclass(frozen=True)
class Fit:
    """A problem as the meaning of parameters.

    shown: the problem with the values of the fields in `fixed`, else its defaults.
    fixed: the text fields that decide types or the order in memory.
    score: more for more tensors with name and type."""

    family: str
    problem: str
    shown: Problem
    fixed: Mapping[str, object]
    tensors: Mapping[str, str]
    score: float

    @property
    def allowed(self) -> dict[str, tuple[object, ...]]:
        """A field of the problem with few values -> its values."""
        fields = fields_of(self.shown.problem_type)
        return {name: held for name, field in fields.items() if (held := field.metadata["allowed"])}

    def intermediate(self, name: str) -> tuple[tuple[str, str], ...]:
        """(axis, size) of each dimension of an intermediate with this name, or ()."""
        known = self.shown.intermediates
        return known.get(_meaning(name, known, self.shown.spellings), ())

    def meaning(self, name: str) -> str:
        problem = self.shown
        known = {**problem.values(), **problem.defines, **problem.sizes}
        meant = _meaning(name, [n for n in known if not isinstance(known[n], (str, tuple))], problem.spellings)
        size = problem.effective.get(meant, "")
        return size if size in known else meant


GENERIC = frozenset(
    (*"abcdefghijlmnopqrstuwxyz", "in", "out", "inp", "input", "output", "src", "dst", "data", "idata", "odata", "res")
    + ("result", "weight", "weights", "bias", "left", "right", "buf", "buffer", "arr", "vec", "mat")
) - {"q"}
"""Names of parameters that say nothing of a problem."""
LEAST_NAMES = 2


def trusted(fit: Fit, text: str) -> bool:
    """Whether more than generic names speak for a fit: all inputs of the problem, and the signs in the text."""
    said = {tensor for name, tensor in fit.tensors.items() if plain(name) not in GENERIC}
    inputs = {tensor.name for tensor in fit.shown.tensors() if tensor.role is Role.INPUT}
    missing = inputs - set(fit.tensors.values()) - set(fit.shown.optional)
    return len(said) >= LEAST_NAMES and not missing and all(re.search(sign, text) for sign in fit.shown.signs)


def plain(name: str) -> str:
    """A name in lower case, without _, and without marks of a pointer or a place."""
    name = re.sub(
        r"^(?:d|dev|g|gmem|p|ptr|qkv|QKV)_(?=\w)|^k(?=[A-Z])|_(?:ptr|gmem|d|dev|device|global|mat|data)$", "", name
    )
    return name.replace("_", "").lower()


def best(problems: Iterable[tuple[str, str, type[Problem]]], parameters: list[Parameter]) -> list[Fit]:
    fits = [fit for family, name, kind in problems for fit in _fits(family, name, kind, parameters)]
    return sorted(fits, key=lambda fit: -fit.score)


def _fits(family: str, name: str, kind: type[Problem], parameters: list[Parameter]) -> Iterator[Fit]:
    pointers = [p for p in parameters if p.is_pointer]
    for penalty, (fixed, problem) in enumerate(_variants(kind)):
        tensors = {tensor.name: tensor for tensor in problem.tensors()}
        matched, known = dict[str, str](), problem.intermediates
        within = {one.name for one in pointers if _meaning(one.name, known, problem.spellings)}
        for pointer in pointers:
            meant = _meaning(pointer.name, tensors, problem.spellings)
            if pointer.name in within and len(within) > 1 and plain(pointer.name) != plain(meant):
                continue  # l next to m is the sum of a row, and no tensor
            if meant and (not pointer.dtype or pointer.dtype == tensors[meant].dtype):
                matched.setdefault(pointer.name, meant)
        held = {tensors[name] for name in matched.values()}
        outputs = {tensor for tensor in held if tensor.role is Role.OUTPUT}
        if len(held) < LEAST_TENSORS or not outputs:
            continue
        missing = sum(t.role is Role.INPUT for t in tensors.values()) - sum(t.role is Role.INPUT for t in held)
        score = len(held) - 0.5 * missing - 0.001 * penalty
        score += 0.05 * sum(plain(p.name) == plain(matched.get(p.name, "")) for p in pointers)
        yield Fit(family, name, problem, fixed, matched, score)


def _variants(kind: type[Problem]) -> Iterator[tuple[dict[str, object], Problem]]:
    """(fields, problem) for the values of the text fields that decide the tensors' types or axes, the default first."""
    default = kind()
    deciding = [name for name, field in fields_of(kind).items() if _decides(default, name, field.metadata["allowed"])]
    choices = [dict.fromkeys((field_values(default)[n], *fields_of(kind)[n].metadata["allowed"])) for n in deciding]
    for values in islice(product(*choices), MOST_VARIANTS):
        fixed = dict(zip(deciding, values))
        if (made := changed(default, **fixed)) is not None:
            yield fixed, made


def _decides(problem: Problem, name: str, allowed: tuple[object, ...] | None) -> bool:
    if not allowed or not all(isinstance(value, str) for value in allowed):
        return False
    others = [changed(problem, **{name: value}) for value in allowed]
    return any(_kinds(other) != _kinds(problem) for other in others if other is not None)


def _kinds(problem: Problem) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(tensor.name, tensor.dtype, tensor.axes) for tensor in problem.tensors()]


def changed(problem: Problem, **fields: object) -> Problem | None:
    """A copy with other fields, or None if they are not possible."""
    try:
        made = problem.with_fields(**fields)
        made.tensors()
    except ProblemError:
        return None
    return made


def _meaning(name: str, known: Iterable[str], spellings: Mapping[str, tuple[str, ...]]) -> str:
    """The known name of a parameter's name: equal, or one that is spelled like it."""
    wanted, names = plain(name), list(known)
    for one in names:
        if plain(one) == wanted:
            return one
    for meant, spelled in spellings.items():
        if wanted in spelled and all(word in names for word in re.findall(r"[A-Za-z_]\w*", meant)):
            return meant
    return ""


def shaping(problem: Problem) -> list[str]:
    """The numeric fields that decide the shapes of the tensors."""
    found = []
    for name, value in field_values(problem).items():
        if isinstance(value, bool) or not isinstance(value, int):
            continue
        made = changed(problem, **{name: another(problem, name)})
        if made is not None and _shapes(made) != _shapes(problem):
            found.append(name)
    return found


def another(problem: Problem, name: str) -> object:
    value, allowed = field_values(problem)[name], fields_of(problem.problem_type)[name].metadata["allowed"]
    return next((v for v in allowed or () if v != value), value + 1)


def _shapes(problem: Problem) -> list[tuple[int, ...]]:
    return [tensor.shape for tensor in problem.tensors()]


def tensor_of(problem: Problem, name: str) -> Tensor:
    return next(tensor for tensor in problem.tensors() if tensor.name == name)


def with_dtype(parameter: Parameter, arguments: Mapping[str, str]) -> Parameter:
    """The parameter with the type of its tensor. arguments: a template's parameter or typedef -> its type."""
    base = parameter.c_type.rstrip("*").strip()
    return replace(parameter, dtype=POINTED.get(arguments.get(base, base), ""))

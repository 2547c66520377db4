"""A kernel, read only from its .cu with its opening comment in TOML (core/frontmatter.py)."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from kernels.core.dtypes import DTYPES
from kernels.core.expressions import evaluate, whole
from kernels.core.fields import check_value, nearest, show_value
from kernels.core.launch import (
    Condition,
    Constant,
    ConstantRole,
    Launch,
    LaunchText,
    Plan,
    ScratchText,
    TensorMap,
    Tuned,
)
from kernels.core.problem import Problem
from kernels.core.remembered import remembered
from kernels.core.tensors import Initial, Role, Tensor
from kernels.errors import FrontMatterError, ProblemError

SCALARS = {"int32": np.int32, "uint32": np.uint32, "int64": np.int64, "float32": np.float32, "float64": np.float64}
MOST_THREADS, MOST_GRID_YZ = 1024, 65535  # of a block; of a grid in y and in z
_BRACES = re.compile(r"\{([^{}]+)\}")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_QUALIFIERS = ("const", "__restrict__", "__restrict", "volatile", "__grid_constant__")
# Text between __global__ and the name: void, and attributes with up to three levels of parentheses.
_NESTED = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_ATTRIBUTE = rf"(?:__\w+__|alignas)\s*(?:{_NESTED})?\s*"
_GLOBAL = re.compile(rf"__global__\s+(?:{_ATTRIBUTE})*void\s+(?:{_ATTRIBUTE})*$")
C_TYPES = {
    "int32": ("int", "int32_t", "signed", "signed int"),
    "uint32": ("unsigned", "unsigned int", "uint32_t"),
    "int64": ("long long", "int64_t", "long", "long long int", "long int"),
    "float32": ("float",),
    "float64": ("double",),
}
"""A number's type in the comment -> its spellings in the signature. Another spelling, such as a typedef, passes."""
OTHER_C_TYPES = (
    *("bool", "char", "signed char", "unsigned char", "short", "unsigned short", "int8_t", "uint8_t", "int16_t"),
    *("uint16_t", "unsigned long", "unsigned long long", "uint64_t", "size_t", "half", "__half", "__nv_bfloat16"),
)
"""Spellings of numbers without a type in the comment."""


@dataclass(frozen=True, eq=False)
class KernelSpec:
    """One kernel.

    files: (name, text) of the .cu and of all our headers in it. This text is hashed and compiled.
    title, idea, costs, limits, literature: texts for readers.
    changed_from, changed: the rung before it, and the change.
    problem_type: the class of its problems, in families/<family>/.
    requires: the least architecture, such as sm_80, exactly one, such as sm_90a, or "" for any.
    tensor_products: the 16-bit products on tensor cores for one fp32 multiply-add, or 0 for one FMA.
    conditions: on a problem and the constants.
    formerly: a former name. Links and scripts may still use it.
    """

    name: str
    path: Path
    files: tuple[tuple[str, str], ...]
    family: str
    problem_type: Any
    title: str
    idea: str
    changed_from: str
    changed: str
    costs: str
    limits: str
    literature: str
    rung: int
    constants: tuple[Constant, ...]
    tuned: tuple[Tuned, ...]
    scratch: tuple[ScratchText, ...]
    launch_texts: tuple[LaunchText, ...]
    requires: str = ""
    tensor_products: int = 0
    conditions: tuple[Condition, ...] = ()
    formerly: str = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KernelSpec):
            return False
        return (self.path, self.files, self.conditions) == (other.path, other.files, other.conditions)

    def __hash__(self) -> int:
        return hash((self.path, self.files))

    @property
    def source(self) -> str:
        """The text of the .cu."""
        return self.files[0][1]

    @property
    def code_hash(self) -> str:
        """Sixteen hex digits for source and headers without comments, the launches and GPU_OPTIONS.

        Recordings and times have it in their names.
        """
        return _code_hash(self)

    # ---- constants ----

    def settings(self, chosen: Any = ()) -> dict[str, int]:
        """Every constant's value, from `chosen` (a mapping or pairs) or the default. Raises ProblemError."""
        chosen = dict(chosen)
        values = {
            c.name: check_value(c.name, chosen.pop(c.name, c.default), c.default, {"allowed": c.values})
            for c in self.constants
        }
        if chosen:
            has = f"It has {', '.join(values)}" if values else "It has none"
            raise ProblemError(
                f"{self.name} has no constant {', '.join(chosen)}. {has}.{nearest(next(iter(chosen)), values)}"
            )
        return values

    def settings_for(self, problem: Any, chosen: Any = ()) -> dict[str, int]:
        """Every constant's value, from `chosen`, else from `tuned`, else the default."""
        names = self._problem_names(problem)
        best: dict[str, int] = {}
        for number, tuned in enumerate(self.tuned):
            if evaluate(tuned.when, names, f"{self.path.name}: tuned[{number}].when"):
                best |= dict(tuned.constants)
        return self.settings({**best, **dict(chosen)})

    @property
    def what_ifs(self) -> tuple[Constant, ...]:
        """The constants for instructive faults."""
        return tuple(c for c in self.constants if c.what_if)

    def constants_of(self, *roles: ConstantRole) -> tuple[Constant, ...]:
        """The constants with one of these roles, in order."""
        return tuple(c for c in self.constants if c.role in roles)

    def constant_of(self, role: ConstantRole) -> Constant | None:
        """The first constant with that role, or None."""
        return next(iter(self.constants_of(role)), None)

    def solves(self, problem: Problem) -> bool:
        """Whether the kernel solves problems of that problem's class."""
        return self.solves_class(problem.problem_type)

    def solves_class(self, kind: type[Problem]) -> bool:
        """Whether the kernel solves problems of a class."""
        own = self.problem_type
        return own is kind

    def same_problems(self, other: "KernelSpec") -> bool:
        """Whether both kernels solve problems of one class."""
        return self.solves_class(other.problem_type)

    # ---- plans ----

    def plan(self, problem: Any, settings: Any = ()) -> Plan:
        """The launches and tensors for a problem and constants (a mapping or pairs). Raises ProblemError."""
        return _plan(self, problem, tuple(self.settings(settings).items()))

    def check_conditions(self, problem: Any, settings: Any) -> None:
        """Raises ProblemError for the first failed condition, before any work on the problem."""
        _check_conditions(self.conditions, {**self._problem_names(problem), **dict(settings)}, self.path.name)

    def cannot_run(self, problem: Any, settings: Any, device: Any) -> str | None:
        """The reason against a run on a device (run.backends.Device), with the remedy, or None."""
        if device.backend == "gpu" and self.requires and not runs_on(self.requires, device.target):
            return (
                f"{self.name} needs {self.requires}{'' if self.requires[-1].isalpha() else ' or later'}, and "
                f"{device.name} is {device.target}. "
                "It can still be compiled, inspected and shown from recordings."
            )
        plan = self.plan(problem, settings)
        for launch in plan.launches:
            if device.backend == "cpu" and launch.cluster:
                return f"{self.name} uses clusters, which the CPU shim does not have. Choose a GPU or a recording."
            if launch.threads > MOST_THREADS:
                chosen = ", ".join(f"{name} {value}" for name, value in dict(settings).items())
                return (
                    f"{self.name} would need {launch.threads:,} threads per block ({chosen}). The limit is "
                    f"{MOST_THREADS:,}. Choose smaller ones."
                )
            if launch.shared_bytes > device.shared_bytes_per_block:
                return (
                    f"{self.name} needs {launch.shared_bytes:,} bytes of shared memory per block. {device.name} allows "
                    f"{device.shared_bytes_per_block:,}. {problem.shared_remedy}"
                )
            if max(launch.grid[1:]) > MOST_GRID_YZ:
                return (
                    f"{self.name} would need a grid of {launch.grid}. CUDA allows {MOST_GRID_YZ:,} in y and z. "
                    f"{problem.remedy}"
                )
        return None

    def symbols(self, entry: str) -> tuple[str, ...]:
        """The parameter names of an entry, in order, the probes' own left out."""
        return signature(self.source, entry)

    @cached_property
    def tensor_of_symbol(self) -> dict[str, str]:
        """A probe's name of a tensor in global memory, such as K (of K_gmem) -> the tensor's name, such as k_cache."""
        found: dict[str, str] = {}
        for text in self.launch_texts:
            for symbol, arg in zip(self.symbols(text.entry), text.args):
                if isinstance(arg, str) and " " not in arg:
                    found[symbol.removesuffix("_gmem")] = arg
                elif isinstance(arg, dict) and "map" in arg:
                    found[symbol.removesuffix("_map")] = arg["map"]
        return found

    def _problem_names(self, problem: Any) -> dict[str, Any]:
        """The problem's names for expressions."""
        return {
            **problem.values(),
            **problem.defines,
            **problem.sizes,
        }


def runs_on(requires: str, target: str) -> bool:
    """Whether architecture `target` meets `requires`: sm_80 means sm_80 and later, sm_90a means only sm_90a."""
    if requires[-1].isalpha():
        return target == requires
    return int(re.sub(r"\D", "", target)) >= int(re.sub(r"\D", "", requires))


def parameters(source: str, entry: str) -> tuple[tuple[str, str], ...]:
    """(C type, name) of each parameter of a __global__ function, in order, or () without this function.

    The type has no const and no __restrict__, such as float*.
    """
    bare = _COMMENT.sub(" ", source)
    for found in re.finditer(rf"\b{re.escape(entry)}\s*\(([^)]*)\)", bare):
        if _GLOBAL.search(bare[: found.start()]):
            texts = found[1].replace("PROBE_PARAM", "").split(",")
            return tuple(_parameter(text) for text in texts if text.strip())
    return ()


def _parameter(text: str) -> tuple[str, str]:
    words = [word for word in re.findall(r"[\w:<>]+|[*&]", text) if word not in _QUALIFIERS]
    return re.sub(r" (?=[*&])", "", " ".join(words[:-1])), words[-1]


def signature(source: str, entry: str) -> tuple[str, ...]:
    """The names of `parameters`."""
    return tuple(name for _, name in parameters(source, entry))


def without_comments(text: str) -> str:
    """Source text without comments, blank lines and the space at the ends of lines."""
    lines = (line.strip() for line in _COMMENT.sub(" ", text).splitlines())
    return "\n".join(line for line in lines if line)


@lru_cache(maxsize=512)
def _code_hash(spec: KernelSpec) -> str:
    digest = hashlib.sha256()
    for name, text in spec.files:
        own = "" if name == spec.files[0][0] else name  # a renamed .cu is the same code
        digest.update(f"{own}\0{without_comments(text)}\0".encode())
    digest.update(
        json.dumps([[asdict(t) for t in spec.launch_texts], [asdict(t) for t in spec.scratch]], sort_keys=True).encode()
    )
    digest.update("\0".join(GPU_OPTIONS).encode())
    return digest.hexdigest()[:16]


GPU_OPTIONS = ("--std=c++17", "-lineinfo", "--fmad=false")
"""Options of every build for a GPU. fmad=false: only fmaf in the source is fused, so the GPU rounds as the CPU."""


@remembered(256)
def _plan(spec: KernelSpec, problem: Any, settings: tuple[tuple[str, int], ...]) -> Plan:
    names = {**spec._problem_names(problem), **dict(settings)}
    place = spec.path.name
    _check_conditions(spec.conditions, names, place)
    scratch = tuple(_scratch(text, names, place) for text in spec.scratch)
    tensors = (*problem.tensors(), *scratch)
    known = {t.name for t in tensors}
    launches = tuple(_launch(text, names, known, f"{place}: launches.{text.entry}") for text in spec.launch_texts)
    return Plan(launches, tensors)


def _check_conditions(conditions: tuple[Condition, ...], names: dict[str, Any], place: str) -> None:
    """Raises ProblemError with the message of the first failed condition."""
    for number, condition in enumerate(conditions):
        where = f"{place}: conditions[{number}]"
        if not evaluate(condition.must, names, f"{where}.must"):
            parts = _BRACES.split(condition.message)  # text, expression, text, expression, ..., text
            parts[1::2] = [show_value(evaluate(part, names, f"{where}.message")) for part in parts[1::2]]
            raise ProblemError("".join(parts))


def _scratch(text: ScratchText, names: dict[str, Any], place: str) -> Tensor:
    where = f"{place}: scratch.{text.name}.shape"
    return Tensor(
        text.name,
        tuple(whole(s, names, where) for s in text.shape),
        text.dtype,
        text.axes,
        Role.SCRATCH,
        Initial(text.initial),
    )


def _launch(text: LaunchText, names: dict[str, Any], tensors: set[str], where: str) -> Launch:
    def three(sizes: tuple[str | int, ...], key: str) -> tuple[int, int, int]:
        made = [whole(s, names, f"{where}.{key}", least=1) for s in sizes]
        return tuple(made + [1] * (3 - len(made)))  # type: ignore[return-value]

    launch = Launch(
        text.entry,
        three(text.grid, "grid"),
        three(text.block, "block"),
        whole(text.shared_bytes, names, f"{where}.shared_bytes"),
        tuple(_argument(arg, names, tensors, f"{where}.args[{n}]") for n, arg in enumerate(text.args)),
        text.item,
        whole(text.blocks_per_item, names, f"{where}.blocks_per_item", least=1),
        three(text.cluster, "cluster") if text.cluster else None,
    )
    if launch.cluster and any(size % part for size, part in zip(launch.grid, launch.cluster)):
        raise FrontMatterError(
            f"{where}: a grid of {launch.grid} is no whole number of clusters of {launch.cluster}. "
            "Make each size of the grid a multiple of the cluster's."
        )
    if launch.blocks % launch.blocks_per_item:
        raise FrontMatterError(
            f"{where}: {launch.blocks} blocks are no whole number of items of {launch.blocks_per_item}. Make "
            f"blocks_per_item divide the grid."
        )
    return launch


def _argument(arg: Any, names: dict[str, Any], tensors: set[str], where: str) -> Any:
    if isinstance(arg, dict) and "map" in arg:
        box = arg["box"]
        sizes, axes = (box.values(), tuple(box)) if isinstance(box, dict) else (box, ())
        made = tuple(whole(s, names, where, 1) for s in sizes)
        return TensorMap(_known(arg["map"], tensors, where), made, int(arg.get("swizzle", 0)), axes)
    if isinstance(arg, dict):
        return _struct(arg["struct"], names, where)
    kind, _, expression = arg.partition(" ")
    if not expression:
        return _known(arg, tensors, where)
    return SCALARS[kind](evaluate(expression, names, where))


def _known(name: str, tensors: set[str], where: str) -> str:
    if name not in tensors:
        raise FrontMatterError(
            f"{where}: there is no tensor {name!r}. This problem and kernel have {', '.join(sorted(tensors))}."
        )
    return name


def _struct(parts: list[str], names: dict[str, Any], where: str) -> np.void:
    """A struct by value, with members aligned as in C. A tuple becomes an array."""
    values = []
    for part in parts:
        kind, _, expression = part.partition(" ")
        values.append(np.atleast_1d(np.asarray(evaluate(expression, names, where), SCALARS[kind])))
    layout = np.dtype([(f"f{n}", v.dtype, v.shape) for n, v in enumerate(values)], align=True)
    made = np.zeros(1, layout)
    for n, value in enumerate(values):
        made[f"f{n}"] = value
    return made.view(f"V{layout.itemsize}")[0]


def scalar_kinds() -> str:
    """The C types of arguments, for messages."""
    return ", ".join(SCALARS)


def dtype_names() -> str:
    """The element types of tensors, for messages."""
    return ", ".join(DTYPES)

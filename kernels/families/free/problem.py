"""The problem of a kernel without a problem: its opening comment declares sizes, tensors and initial values.

Each declaration has a class of its own, so that its sizes are fields, as those of every problem.
"""

import copyreg
import keyword
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, make_dataclass
from functools import cached_property
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

from kernels.core.dtypes import DTYPES, element_type
from kernels.core.expressions import whole
from kernels.core.fields import field_values, problem_field, seed_field
from kernels.core.problem import Case, Problem
from kernels.core.tensors import Initial, Role, Tensor
from kernels.core.toml_tables import TEXT, Keys, Table, check_keys, tables, typed
from kernels.errors import FrontMatterError, ProblemError
from kernels.families.free import contents
from kernels.families.free.truth import Truth

MOST_SIZE = 2**31 - 1
TENSOR_KEYS: Keys = {
    **{"shape": (list, "a list"), "axes": (list, "a list"), "dtype": TEXT, "role": TEXT},
    **{"initial": None, "meaning": TEXT},
}
ROLES = {"input": Role.INPUT, "output": Role.OUTPUT}
RANDOM: contents.Initial = ("normal", 0.0, 1.0)
RANDOM_WHOLE: contents.Initial = ("random", 0, 9)
BYTES_OF_TERMS = 8  # accesses per element, for the estimate of a run


@dataclass(frozen=True)
class TensorText:
    """A tensor in an opening comment. shape: sizes or expressions over the fields."""

    name: str
    shape: tuple[str | int, ...]
    axes: tuple[str, ...]
    dtype: str
    role: str
    initial: contents.Initial
    meaning: str = ""


@dataclass(frozen=True)
class Declared:
    """The declarations of an opening comment.

    file: its name, for messages.
    sizes: the fields with their defaults.
    truth: tensor -> the NumPy expression of its right values.
    main: the verdict of main() on its own result, or ""."""

    file: str = ""
    sizes: tuple[tuple[str, int | float], ...] = ()
    tensors: tuple[TensorText, ...] = ()
    truth: tuple[tuple[str, str], ...] = ()
    main: str = ""


class _Made(type):
    """The class of the problems' classes. A class travels to a worker as its declaration."""


@dataclass(frozen=True)
class FreeProblem(Problem, metaclass=_Made):
    """A run of a kernel without a problem. It is compared with a truth only if the opening comment has one."""

    seed: int = seed_field()

    title: ClassVar[str] = "A kernel's own run"
    declaration: ClassVar[Declared] = Declared()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tensors()

    @classmethod
    def declared(cls, file: str, table: Table) -> "type[FreeProblem]":
        held = Declared(file, _sizes(file, table), _tensors(file, table), _truths(file, table), table.get("main", ""))
        made = of(held)
        try:
            Truth.check(file, held.truth, {text.name for text in held.tensors}, dict(held.sizes))
            made()
        except ProblemError as error:
            raise FrontMatterError(str(error)) from None
        return made

    def tensors(self) -> tuple[Tensor, ...]:
        return self._tensors

    @cached_property
    def _tensors(self) -> tuple[Tensor, ...]:
        values, found = field_values(self), []
        for text in self.declaration.tensors:
            where = f"{self.declaration.file}: tensors.{text.name}.shape"
            shape = tuple(whole(size, values, where) for size in text.shape)
            given = {"poison": Initial.POISON, "zero": Initial.ZERO}.get(str(text.initial), Initial.GIVEN)
            found.append(Tensor(text.name, shape, text.dtype, text.axes, ROLES[text.role], given))
        return tuple(found)

    def inputs(self) -> dict[str, np.ndarray]:
        return {
            text.name: contents.made(text.initial, tensor.shape, text.dtype, (self.seed, number))
            for number, (text, tensor) in enumerate(zip(self.declaration.tensors, self.tensors()))
            if tensor.initial is Initial.GIVEN
        }

    def start(self) -> dict[str, np.ndarray]:
        """Every tensor before a run, also the poisoned and the zero ones."""
        return {tensor.name: tensor.fresh() for tensor in self.tensors()} | self.inputs()

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """output -> float64 array by the comment's `truth`. Empty without one. Raises ProblemError."""
        return self._truth.values(self.start(), field_values(self), np.float64)

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """The truth's expression in float32, rounded to the output's type."""
        found = self._truth.values(self.start(), field_values(self), np.float32)
        types = {tensor.name: element_type(tensor.dtype).numpy for tensor in self.tensors()}
        return {name: array.astype(types[name]) for name, array in found.items()}

    def largest_terms(self) -> dict[str, float]:
        return self._truth.largest_terms(self.start(), field_values(self))

    @property
    def terms(self) -> int:
        return self._truth.terms(self.start(), field_values(self))

    @property
    def compared(self) -> bool:
        return bool(self.declaration.truth)

    @property
    def _truth(self) -> Truth:
        shapes = {tensor.name: tensor.shape for tensor in self.tensors()}
        return Truth(self.declaration.file, self.declaration.truth, shapes)

    @property
    def cpu_steps(self) -> int:
        """The bytes of the tensors: the work of a kernel is unknown before its run."""
        return BYTES_OF_TERMS * sum(tensor.size for tensor in self.tensors())

    @property
    def size(self) -> str:
        fields = ", ".join(f"{name} {getattr(self, name):,}" for name, _ in self.declaration.sizes)
        return fields or f"{sum(tensor.nbytes for tensor in self.tensors()):,} bytes of tensors"

    def meanings(self) -> Mapping[str, str]:
        return {text.name: text.meaning for text in self.declaration.tensors if text.meaning}

    @classmethod
    def check_cases(cls, kernel: Any) -> Iterable[Case]:
        return [Case(cls())]

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {"As its comment says": {}}

    @classmethod
    def own_word(cls) -> str:
        return cls.declaration.main


_made: WeakValueDictionary[Declared, type[FreeProblem]] = WeakValueDictionary()


def of(declaration: Declared) -> type[FreeProblem]:
    """The class of a declaration, one and the same for equal ones."""
    if declaration == Declared():
        return FreeProblem
    found = _made.get(declaration)
    if found is None:
        fields: list[Any] = [(name, type(default), _field(name, default)) for name, default in declaration.sizes]
        named = {"declaration": declaration, "__module__": __name__}
        found = make_dataclass("FreeProblem", fields, bases=(FreeProblem,), namespace=named, frozen=True)
        _made[declaration] = found
    return found


def _field(name: str, default: int | float) -> Any:
    low, high = (0, MOST_SIZE) if isinstance(default, int) and default >= 0 else (-1e30, 1e30)
    low = -MOST_SIZE if isinstance(default, int) and default < 0 else low
    return problem_field(default, f"{name} of the kernel", low=low, high=high)


def _reduced(kind: type[FreeProblem]) -> tuple[Any, ...]:
    return of, (kind.declaration,)


copyreg.pickle(_Made, _reduced)  # type: ignore[arg-type]


def _sizes(file: str, table: Table) -> tuple[tuple[str, int | float], ...]:
    found = typed(file, "sizes", table.get("sizes", {}), dict, "a table [sizes] of numbers")
    for name, value in found.items():
        typed(file, f"sizes.{name}", value, (int, float), "a number")
        if isinstance(value, bool) or not is_free_name(name):
            raise FrontMatterError(f"{file}: sizes.{name} is {value!r}. It must be a number under a name of your own.")
    return tuple(found.items())


_TAKEN = frozenset(dir(FreeProblem)) | {"seed"}


def is_free_name(name: str) -> bool:
    """Whether a size or a tensor may have this name."""
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_") and name not in _TAKEN


def _tensors(file: str, table: Table) -> tuple[TensorText, ...]:
    found = []
    for name, entry in tables(file, "tensors", table).items():
        where = f"tensors.{name}"
        check_keys(file, where, entry, TENSOR_KEYS, ("shape",))
        dtype, role, shape = entry.get("dtype", "float32"), entry.get("role", "input"), entry["shape"]
        if not name.isidentifier():
            raise FrontMatterError(f"{file}: {where} is not a name in C. Use letters, digits and _.")
        if dtype not in DTYPES:
            raise FrontMatterError(f"{file}: {where}.dtype is {dtype!r}. It must be one of {', '.join(DTYPES)}.")
        if role not in ROLES:
            raise FrontMatterError(f"{file}: {where}.role is {role!r}. It must be input or output.")
        for size in shape:
            typed(file, f"{where}.shape", size, (str, int), "a list of sizes")
        axes = entry.get("axes", _axes(len(shape)))
        if len(axes) != len(shape) or not all(isinstance(axis, str) for axis in axes):
            raise FrontMatterError(
                f"{file}: {where} has {len(shape)} sizes and the axes {axes!r}. Name each dimension."
            )
        default = RANDOM if DTYPES[dtype].is_float else RANDOM_WHOLE
        initial = contents.read(file, f"{where}.initial", entry["initial"], dtype) if "initial" in entry else default
        found.append(TensorText(name, tuple(shape), tuple(axes), dtype, role, initial, entry.get("meaning", "")))
    return tuple(found)


def _axes(count: int) -> list[str]:
    return {0: [], 1: ["element"], 2: ["row", "column"]}.get(count, [f"axis_{n}" for n in range(count)])


def _truths(file: str, table: Table) -> tuple[tuple[str, str], ...]:
    """output -> expression. One expression in quotes is that of the only output."""
    said = table.get("truth", {})
    outputs = [name for name, entry in tables(file, "tensors", table).items() if entry.get("role") == "output"]
    if isinstance(said, str):
        if len(outputs) != 1:
            named = ", ".join(outputs) or "none"
            raise FrontMatterError(
                f"{file}: truth is one expression for the outputs {named}. Write truth.NAME for each."
            )
        said = {outputs[0]: said}
    typed(file, "truth", said, dict, "an expression in quotes, or a table of expressions")
    for name, text in said.items():
        typed(file, f"truth.{name}", text, str, "an expression in quotes")
        if name not in outputs:
            raise FrontMatterError(f"{file}: truth.{name} is no output. There are {', '.join(outputs) or 'none'}.")
    return tuple(said.items())

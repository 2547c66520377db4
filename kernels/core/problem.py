"""A problem: a frozen, validated, hashable dataclass with seeded inputs and the right answer.

A family's problem inherits Problem and declares its facts. Code outside the family reads these declarations. It never
checks a problem's class and never looks up its attributes by name. core.fields.problem_field declares a field.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from kernels.core.call import Call, Values
from kernels.core.fields import check_fields, field_values, write_value
from kernels.core.launch import CONSTANTS, ConstantRole
from kernels.core.masks import Mask
from kernels.core.paged import Cache, CacheCall, CacheChange, CacheUse
from kernels.core.scope import Scope
from kernels.core.tensors import Initial, Role, Tensor
from kernels.errors import FrontMatterError, PeerUnavailable, ProblemError

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor


@dataclass(frozen=True, eq=False)
class Head:
    """The attention of one head.

    output: the name of the tensor with its result.
    at: the place of its rows in the output, in the order of Problem.logical, such as (batch, head).
    scores: [queries, keys] float64, with scale and bias, without a mask.
    values: [keys, dim] float64.
    seen: [queries, keys], whether the query sees the key.
    rows, columns: Q [queries, dim] and K [keys, dim] in float64, if the scores are only scale * Q @ K^T."""

    output: str
    at: tuple[int, ...]
    scores: np.ndarray
    values: np.ndarray
    seen: np.ndarray
    rows: np.ndarray | None = None
    columns: np.ndarray | None = None

    @property
    def hidden(self) -> np.ndarray:
        """The scores with -inf for the keys that a query does not see."""
        return np.where(self.seen, self.scores, -np.inf)


def check_groups(num_heads: int, num_kv_heads: int) -> None:
    """Raises ProblemError unless each KV head has equally many query heads."""
    if num_heads % num_kv_heads:
        raise ProblemError(
            f"num_heads is {num_heads} and num_kv_heads {num_kv_heads}, and num_heads must be a multiple of "
            "num_kv_heads."
        )


class Work(NamedTuple):
    """The work of a run, independent of the kernel.

    flops: 4 per score and dim, from the two matrix products of attention.
    tokens: the tokens with an output, or the moved tokens.
    touched: tensor -> moved bytes of all launches, for tensors with partial or repeated accesses."""

    flops: int
    tokens: int
    touched: dict[str, int]


Size = float | str | bool
OF_FREE = ("sizes", "tensors", "truth", "main")
"""The keys of an opening comment that declare a run without a problem (families/free/)."""
Sweeps = Iterable[tuple[list[tuple[str, list[Any]]], Mapping[str, object]]]


@dataclass(frozen=True)
class Case:
    """A problem with constants of a kernel, to be checked, recorded or swept.

    settings: pairs of constants that differ from the defaults.
    scope: the traced items of a recording."""

    problem: "Problem"
    settings: tuple[tuple[str, int], ...] = ()
    scope: Scope | None = None


@lru_cache(maxsize=1)
def inputs_of(problem: "Problem") -> dict[str, np.ndarray]:
    """The inputs of the last problem, kept because a paged cache of a gigabyte takes 20 s to draw. Do not write into
    them."""
    return problem.inputs()


class Problem:
    """The members of every problem, with their defaults. A problem defines at least tensors, inputs, truth, yardstick,
    cpu_steps, size and check_cases."""

    title: ClassVar[str] = ""  # the kind of problem in two or three words, such as Attention
    remedy: ClassVar[str] = "Choose a smaller problem."  # ends the message that refuses a problem as too large
    # A tensor's name -> its part in the picture of attention: Q, K, V, S, P or O. The names include a kernel's own
    # tensors. The picture leaves out a tensor without a part.
    picture: ClassVar[Mapping[str, str]] = {}
    # A tensor, a field or an expression -> usual names of a parameter for it, in lower case and without _.
    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    optional: ClassVar[tuple[str, ...]] = ()  # inputs that not every kernel of the problem takes
    # Regular expressions for the text of each kernel of the problem, such as the exponential.
    signs: ClassVar[tuple[str, ...]] = ()
    # An intermediate, such as s -> (axis, size) of each dimension.
    intermediates: ClassVar[Mapping[str, tuple[tuple[str, str], ...]]] = {}
    # A field -> the expression that a kernel means by it if it names no other field of that expression.
    folded: ClassVar[Mapping[str, str]] = {}
    # A field whose 0 means as another field -> the size with its value, such as seq_len_kv -> keys.
    effective: ClassVar[Mapping[str, str]] = {}
    constants: ClassVar[Mapping[ConstantRole, str]] = CONSTANTS
    # A size that a bench can sweep -> the fields that it changes.
    derived_fields: ClassVar[Mapping[str, Callable[[Any, int], dict[str, object]]]] = {}
    follows: ClassVar[tuple[str, ...]] = ()  # the fields that the problem makes from the others if they are not given
    masked: ClassVar[bool] = False  # whether a query's keys have a mask of their own, apart from the causal one
    gradients: ClassVar[bool] = False  # whether the outputs are the gradients dq, dk and dv of attention
    duels_from: ClassVar[int] = 0  # the first rung in duel_problems
    duel_constants: ClassVar[tuple[str, ...]] = ()  # constants whose other values take part there too
    # A kind of mask -> the fields that it reads. Empty for a problem without such fields.
    mask_fields: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    operator: ClassVar[str] = ""  # the PyTorch operator (ops/) with calls of such problems, or none
    valued: ClassVar[tuple[str, ...]] = ()  # inputs whose values a file can give (with_values)
    cache_use: ClassVar[CacheUse | None] = None  # None for a problem without a paged KV cache

    causal: bool = False  # each query sees only the keys up to itself
    dtype: str = "float32"  # the type of the inputs
    cache_dtype: str = ""  # the type of a paged cache, if it is not that of the inputs
    score_scale: float = 1.0  # the standard deviation of the scores

    def __post_init__(self) -> None:
        """Reads and checks every field. A problem with more to check calls this method first. Raises ProblemError."""
        check_fields(self)

    # ---- tensors and numbers ----

    def tensors(self) -> tuple[Tensor, ...]:
        """Every input and output. The front matter of a kernel declares the tensors of this kernel only."""
        raise NotImplementedError

    def inputs(self) -> dict[str, np.ndarray]:
        """name -> array of every given tensor. Equal problems always give equal arrays."""
        raise NotImplementedError

    def unrounded(self) -> dict[str, np.ndarray]:
        """The inputs before they are rounded to the types of their tensors, with the names and shapes of inputs()."""
        return self.inputs()

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """output -> float64 array. on_gpu: whether a long truth may be computed on the GPU."""
        raise NotImplementedError

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """output -> torch's answer in the problem's own type, the measure of a kernel's error. A problem without
        rounding gives the truth."""
        return self.truth()

    def largest_terms(self) -> dict[str, float]:
        """output -> the largest term in a sum of its elements, or 0 (the default) without rounding."""
        return {}

    @property
    def terms(self) -> int:
        """The terms of the longest sum in an output. 1 without long sums."""
        return 1

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, object]]:
        """(arrays, options) for torch's scaled_dot_product_attention: q, k, v [batch, heads, length, head_dim].

        Raises PeerUnavailable if torch's attention cannot compute the problem."""
        raise PeerUnavailable("torch's attention cannot compute this problem.")

    @property
    def has_peers(self) -> bool:
        """Whether torch's attention can compute problems of this class."""
        return type(self).peer_inputs is not Problem.peer_inputs

    def cache_call(self, inputs: dict[str, np.ndarray]) -> CacheCall:
        """The problem as a call of a serving engine's attention, if cache_use attends. Raises PeerUnavailable if
        engines define the problem otherwise."""
        raise PeerUnavailable("This problem reads no paged cache.")

    def logical(self, array: np.ndarray) -> np.ndarray:
        """An array [batch, head, row, dim] in the axis order of the problem's tensors, and back: a view."""
        return array

    def rows_of(self, tensor: str) -> np.ndarray:
        """The rows of the whole sequence in a tensor of one device, in its order. Empty if it has all rows."""
        return np.zeros(0, int)

    def orders(self) -> "Mapping[str, tuple[Problem, str]]":
        """The ways to deal its rows out to the devices, by name, this problem among them. Empty without a choice. Each
        is the problem and a sentence on what a device gets."""
        return {}

    def meanings(self) -> Mapping[str, str]:
        """A few words on the content of its tensors, by name. Empty by default."""
        return {}

    def heads(self) -> Iterator[Head]:
        """Each head of attention, in the order of the items, to explain a wrong result. None by default."""
        return iter(())

    @property
    def masks(self) -> tuple[Mask, ...]:
        """The mask of all heads, or one mask per head, batch by batch. Empty unless the problem is `masked`."""
        return ()

    @property
    def compared(self) -> bool:
        """Whether a truth is known, so that a run's outputs are compared with it."""
        return True

    # ---- sizes ----

    @property
    def sizes(self) -> dict[str, object]:
        """Derived numbers for front matter, such as scale."""
        return {}

    @property
    def defines(self) -> dict[str, int]:
        """The compile-time constants of the problem, such as HEAD_DIM."""
        return {}

    @property
    def cpu_steps(self) -> int:
        """Elementary operations, or accesses if they are more: the estimate of a run on the CPU."""
        raise NotImplementedError

    @property
    def size(self) -> str:
        """The problem's size in words, for messages."""
        raise NotImplementedError

    @property
    def shared_remedy(self) -> str:
        """Ends the message that a block needs too much shared memory."""
        return self.remedy

    @property
    def work(self) -> Work | None:
        """The work for rates, or None if only times count."""
        return None

    @property
    def bench_columns(self) -> dict[str, Size]:
        """The sizes for a comparison of times (measure.bench_rows.SIZES), name -> value. Empty for none."""
        return {}

    @property
    def input_bytes(self) -> int:
        return sum(t.nbytes for t in self.tensors() if t.initial is Initial.GIVEN)

    @property
    def call_bytes(self) -> int:
        return sum(t.nbytes for t in self.tensors() if t.initial is Initial.GIVEN or t.role is Role.OUTPUT)

    @property
    def listed_pairs(self) -> int:
        """Pairs of a query and a key in the work before a run, for a problem with lists. 0 without lists."""
        return 0

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self.tensors() if t.role is Role.OUTPUT)

    @property
    def problem_type(self) -> type[Self]:
        """The class of the problem, for another problem of the same kind."""
        return type(self)

    def values(self) -> dict[str, object]:
        return field_values(self)

    def texts(self) -> dict[str, str]:
        """field -> value as a link and a command line write it."""
        return {name: write_value(value) for name, value in self.values().items()}

    def with_fields(self, **changes: object) -> Self:
        """A copy with these fields. A problem that fills in fields from others makes those anew."""
        return replace(self, **changes)  # type: ignore[type-var]

    def with_values(self, name: str) -> Self | None:
        """A copy with the values of a file (build/own_values.py) as its `valued` inputs. None if it takes none."""
        return None

    def of_values(self, values: Values) -> tuple[Self, Mapping[str, np.ndarray]]:
        """A copy with the sizes that the values of its call give, and the arrays of a file for with_values. No array,
        if the problem takes none. Raises ProblemError for too many bytes."""
        return self, {name: values.read(name) for name in self.valued if name in values}

    @classmethod
    def declared(cls, file: str, table: dict[str, Any]) -> "type[Problem]":
        """The class of the problems of a .cu with this opening comment. Raises FrontMatterError for a key that only
        the family free has. file: its name, for messages."""
        for key in OF_FREE:
            if key in table:
                raise FrontMatterError(f'{file}: {key} is a key of family free. Remove it, or write family = "free".')
        return cls

    @classmethod
    def own_word(cls) -> str:
        """The verdict of the file's main() on its own result, or ""."""
        return ""

    @classmethod
    def attends_to_cache(cls) -> bool:
        """Whether problems of this class read a paged KV cache."""
        return cls.cache_use is not None and cls.cache_use.attends

    @classmethod
    def role_of(cls, constant: str) -> ConstantRole | None:
        """The role of a kernel's constant, or None."""
        return next((role for role, pattern in cls.constants.items() if fnmatchcase(constant, pattern)), None)

    @classmethod
    def from_call(cls, call: Call) -> Self:
        """The problem of a call of `operator`. Raises ProblemError with the reason if the class has no such problem."""
        raise NotImplementedError

    def made(self) -> dict[str, np.ndarray]:
        """The inputs that follow from the fields. An operator's call leaves them out."""
        return {}

    def of_step(self, lengths: np.ndarray) -> "tuple[dict[str, np.ndarray], tuple[tuple[str, float], ...]]":
        """For a step of a decoding call: the inputs that follow from the contexts' lengths, and sizes for the plan."""
        return {}, ()

    def of_device_step(self) -> "tuple[dict[str, int], tuple[tuple[str, float], ...]]":
        """For a step whose lengths are on the GPU: the options of the operator that makes its inputs there, and sizes
        for the plan, as large as any step needs. No options without such inputs."""
        return {}, ()

    # ---- problems from a paged cache ----

    @classmethod
    def of_cache(cls, cache: Cache, **shape: object) -> Self:
        """The problem of one decoding step over a cache, if cache_use attends.

        shape: num_heads, head_dim and other fields. Raises ProblemError if the cache holds no sequence."""
        raise ProblemError(f"{cls.title} is not made from a cache.")

    @classmethod
    def of_change(cls, cache: Cache, change: CacheChange, **shape: object) -> "Self | None":
        """The problem of an event's writes or copies, or None without any.

        shape: num_kv_heads, head_dim, dtype and seed."""
        return None

    # ---- cases ----

    @classmethod
    def check_cases(cls, kernel: Any) -> Iterable[Case]:
        """The problems for a comparison of both builds of a kernel with float64."""
        raise NotImplementedError

    @classmethod
    def recorded_cases(cls, kernel: Any) -> Iterable[Case]:
        """The recorded runs for a machine without a GPU, each with its traced scope."""
        return [Case(cls(), (), None)]

    @classmethod
    def bench_default(cls) -> Self:
        return cls()

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        """The recorded (sweeps, fields held) pairs. One point at bench_default() by default."""
        return [([], {})]

    @classmethod
    def duel_problems(cls) -> "Iterable[Problem]":
        """The problems on which the kernels of this class take turns with their peers, none by default."""
        return ()

    @classmethod
    def chain_problems(cls) -> "Iterable[Problem]":
        """The problems on which a fused kernel takes turns with its separate kernels, none by default."""
        return ()

    def torch_chain(self) -> "Callable[..., dict[str, TorchTensor]]":
        """The chain of operations in torch, for torch.compile. It takes the inputs as keywords and returns the outputs
        by name, with new arrays or the written inputs. PeerUnavailable without one."""
        raise PeerUnavailable(f"{self.title} has no chain in torch.")

    @classmethod
    def counter_cases(cls, kernel: Any) -> Iterable[Case]:
        """The runs for a comparison with Nsight Compute's counters."""
        return [Case(cls(), (), None)]

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        """title -> fields: problems worth a look on the pages, the default first. Other fields keep their defaults."""
        return {}

    @classmethod
    def timeline_cases(cls, kernel: Any) -> Iterable[Case]:
        """The runs with a recorded timeline, none by default."""
        return ()

    @classmethod
    def launch_cases(cls, kernel: Any) -> Iterable[Case]:
        """The runs with recorded times of their launches and copies, none by default."""
        return ()

    @classmethod
    def pipeline_cases(cls, kernel: Any) -> Iterable[Case]:
        """The runs with a recorded pipeline: by default the last run with a recorded timeline."""
        return list(cls.timeline_cases(kernel))[-1:]

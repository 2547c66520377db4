"""What a kernel is asked to compute: a frozen, validated, hashable dataclass that makes its own seeded inputs and knows
the answer.

`Problem` is the protocol: what the rest of the program may ask of a problem. `ProblemBase` holds what most problems
share; a family's problem inherits it and says the rest. Fields are declared with core.fields.problem_field.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from kernels.core.fields import check_fields
from kernels.core.request import Scope
from kernels.core.tensors import Initial, Role, Tensor
from kernels.errors import PeerUnavailable


class Work(NamedTuple):
    """What a run does, whatever the kernel. flops: 4 per score and dim, the two matrix products of attention;
    tokens: those that it gives an output for, or moves; touched: tensor -> bytes, by all launches together, where a run
    touches only a part of the tensor or touches it twice."""

    flops: int
    tokens: int
    touched: dict[str, int]


@dataclass(frozen=True)
class Case:
    """A problem with a kernel's constants (pairs that differ from the defaults), to be checked, recorded or swept.
    scope: of a recording."""

    problem: "Problem"
    settings: tuple[tuple[str, int], ...] = ()
    scope: Scope | None = None


class Problem(Protocol):
    """Everything that the program asks of a problem. See ProblemBase for the defaults and for what each member
    means."""

    title: ClassVar[str]
    remedy: ClassVar[str]
    picture: ClassVar[Mapping[str, str]]
    derived_fields: ClassVar[Mapping[str, Callable[["Problem", int], dict[str, Any]]]]
    follows: ClassVar[tuple[str, ...]]

    def __hash__(self) -> int: ...
    def tensors(self) -> tuple[Tensor, ...]: ...
    def inputs(self) -> dict[str, np.ndarray]: ...
    def unrounded(self) -> dict[str, np.ndarray]: ...
    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]: ...
    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]: ...
    def largest_terms(self) -> dict[str, float]: ...
    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, Any]]: ...

    @property
    def causal(self) -> bool: ...
    @property
    def sizes(self) -> dict[str, Any]: ...
    @property
    def defines(self) -> dict[str, int]: ...
    @property
    def cpu_steps(self) -> int: ...
    @property
    def size(self) -> str: ...
    @property
    def input_bytes(self) -> int: ...
    @property
    def listed_pairs(self) -> int: ...
    @property
    def outputs(self) -> tuple[Tensor, ...]: ...
    @property
    def shared_remedy(self) -> str: ...
    @property
    def work(self) -> Work | None: ...
    @property
    def bench_columns(self) -> dict[str, Any]: ...

    @classmethod
    def check_cases(cls, kernel: Any) -> Iterable[Case]: ...
    @classmethod
    def recorded_cases(cls, kernel: Any) -> Iterable[Case]: ...
    @classmethod
    def bench_begin(cls) -> "Problem": ...
    @classmethod
    def bench_sweeps(cls) -> Iterable[tuple[list[tuple[str, list]], dict[str, Any]]]: ...
    @classmethod
    def counter_cases(cls, kernel: Any) -> Iterable[Case]: ...
    @classmethod
    def timeline_cases(cls, kernel: Any) -> Iterable[Case]: ...
    @classmethod
    def pipeline_cases(cls, kernel: Any) -> Iterable[Case]: ...
    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]: ...

    def with_fields(self, **changes: Any) -> "Problem": ...


@lru_cache(maxsize=1)
def inputs_of(problem: Any) -> dict[str, np.ndarray]:
    """The last problem's inputs, kept for what follows from them: a gigabyte of a paged cache takes 20 s to draw.
    Nobody writes into them."""
    return problem.inputs()


class ProblemBase:
    """What most problems share. A problem says at least: tensors, inputs, truth, yardstick, cpu_steps, size,
    check_cases."""

    title: ClassVar[str] = ""  # what the problem is, in two or three words, such as Attention
    remedy: ClassVar[str] = "Choose a smaller problem."  # ends the message that refuses one that is too large
    # A tensor's name -> its part in the picture of attention: Q, K, V, S, P or O. The names include a kernel's own
    # tensors. A tensor without a part is in no such picture.
    picture: ClassVar[Mapping[str, str]] = {}
    derived_fields: ClassVar[
        Mapping[str, Callable[[Any, int], dict[str, Any]]]
    ] = {}  # a size that a bench can sweep -> the fields that it changes
    follows: ClassVar[tuple[str, ...]] = ()  # the fields that the problem makes from the others, if they are not given
    causal: bool = False  # each query sees only the keys up to itself

    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor of the problem, inputs and outputs; what one kernel alone needs stands in that kernel's front
        matter."""
        raise NotImplementedError

    def inputs(self) -> dict[str, np.ndarray]:
        """name -> array of every tensor that is given before the run; the same for the same problem, always."""
        raise NotImplementedError

    def unrounded(self) -> dict[str, np.ndarray]:
        """The inputs as they were drawn, before any was rounded to its tensor's type: the same names and shapes."""
        return self.inputs()

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """output -> float64 array; computed on the GPU where that is asked and worth it."""
        raise NotImplementedError

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """output -> torch's own answer in the problem's own type: what a kernel's error is measured by. Of a problem
        without rounding, the truth."""
        return self.truth()

    def largest_terms(self) -> dict[str, float]:
        """output -> the largest number that can be added to one of its elements; 0 (the default) where nothing may
        be rounded."""
        return {}

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, Any]]:
        """(arrays, options) for torch's scaled_dot_product_attention: q, k, v [batch, heads, length, head_dim].
        PeerUnavailable where it is none."""
        raise PeerUnavailable("torch's attention cannot compute this problem.")

    def __post_init__(self) -> None:
        """Reads and checks every field; a problem with more to check calls it first. ProblemError."""
        check_fields(self)

    @property
    def sizes(self) -> dict[str, Any]:
        """Derived numbers that front matter may name beside the fields, such as scale."""
        return {}

    @property
    def defines(self) -> dict[str, int]:
        """The compile-time constants that follow from the problem, such as HEAD_DIM."""
        return {}

    @property
    def cpu_steps(self) -> int:
        """Elementary operations, or accesses if there are more: what a run on the CPU is estimated by."""
        raise NotImplementedError

    @property
    def size(self) -> str:
        """The problem's size in words, for messages."""
        raise NotImplementedError

    @property
    def shared_remedy(self) -> str:
        """Ends the message that says that a block needs too much shared memory."""
        return self.remedy

    @property
    def work(self) -> Work | None:
        """What rates are computed from; None where a time stands alone."""
        return None

    @property
    def bench_columns(self) -> dict[str, Any]:
        """The sizes by which times are compared (timing.bench.SIZES), name -> value; empty where there are none."""
        return {}

    @property
    def input_bytes(self) -> int:
        """Bytes of the tensors that are given."""
        return sum(t.nbytes for t in self.tensors() if t.initial is Initial.GIVEN)

    @property
    def listed_pairs(self) -> int:
        """Pairs of a query and a key that are gone through, before anything runs, to make the lists that a problem is
        given as; 0 where there are none."""
        return 0

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that are compared with the truth."""
        return tuple(t for t in self.tensors() if t.role is Role.OUTPUT)

    @classmethod
    def check_cases(cls, kernel: Any) -> Iterable[Case]:
        """The problems on which a kernel of this family, in both builds, is compared with float64."""
        raise NotImplementedError

    @classmethod
    def recorded_cases(cls, kernel: Any) -> Iterable[Case]:
        """What is worth having where there is no GPU, each with the scope that is traced."""
        return [Case(cls(), (), None)]

    @classmethod
    def bench_begin(cls) -> Any:
        """What a bench times where nothing else is asked for."""
        return cls()

    @classmethod
    def bench_sweeps(cls) -> Iterable[tuple[list[tuple[str, list]], dict[str, Any]]]:
        """(sweeps, fields held) pairs that are recorded; one point at bench_begin() by default."""
        return [([], {})]

    @classmethod
    def counter_cases(cls, kernel: Any) -> Iterable[Case]:
        """What is compared with Nsight Compute's counters."""
        return [Case(cls(), (), None)]

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        """title -> fields: problems worth looking at, for the pages; the first one is the default. A field that is not
        named begins where it begins."""
        return {}

    @classmethod
    def timeline_cases(cls, kernel: Any) -> Iterable[Case]:
        """The runs whose timelines are recorded; none by default."""
        return ()

    @classmethod
    def pipeline_cases(cls, kernel: Any) -> Iterable[Case]:
        """The runs whose pipelines are recorded: the last of those whose timelines are."""
        return list(cls.timeline_cases(kernel))[-1:]

    def with_fields(self, **changes: Any) -> Any:
        """A copy with these fields; a problem that fills in some of its fields from others makes those anew."""
        return replace(self, **changes)  # type: ignore[type-var]

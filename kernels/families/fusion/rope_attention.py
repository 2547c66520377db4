"""The problem of attention with rotary embedding inside: Q, and K if it is stored unturned, are turned on the way."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np

from kernels.core import reference
from kernels.core.call import Call
from kernels.core.fields import problem_field
from kernels.core.problem import Case, Problem, Sweeps
from kernels.core.reference import on_device, on_host
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Tensor
from kernels.errors import ProblemError
from kernels.families.fusion.rotary import PAIRS, table, torch_turned, turned
from kernels.families.tensor_cores.problem import SixteenBitProblem


@dataclass(frozen=True)
class RopeAttentionProblem(SixteenBitProblem):
    """Attention in 16 bits whose kernel turns Q, and K as well unless `keys_turned`. Key j has position j, and query i
    has position i + seq_len_kv - seq_len. Positions before 0 count as 0. cos_sin [keys, head_dim]: head_dim / 2 cosines
    of each position, then as many sines, float32."""

    head_dim: int = problem_field(64, "numbers per query, key and value", allowed=(64, 128))
    pairs: str = problem_field("halves", "the pairs of dims that turn together", allowed=PAIRS)
    keys_turned: bool = problem_field(False, "K is stored turned, as in a cache", allowed=(False, True))
    theta: float = problem_field(500000.0, "base of the angles: 500,000 in Llama 3", low=1, high=1e9)

    title: ClassVar[str] = "Attention with rotary embedding"
    operator: ClassVar[str] = ""
    recorded_length: ClassVar[int] = 96
    peer_inputs = Problem.peer_inputs  # torch's attention turns neither q nor k

    @property
    def defines(self) -> dict[str, int]:
        own = {"NEIGHBOURS": int(self.pairs == "neighbours"), "KEYS_TURNED": int(self.keys_turned)}
        return {**super().defines, **own}

    def tensors(self) -> tuple[Tensor, ...]:
        q, k, v, *made = super().tensors()
        return (q, k, v, Tensor("cos_sin", (self.keys, self.head_dim), "float32", ("position", "cos_sin")), *made)

    def inputs(self) -> dict[str, np.ndarray]:
        given = {name: np.array(self.logical(array), order="C") for name, array in super()._rounded().items()}
        return {**given, "cos_sin": table(self.keys, self.head_dim, self.theta)}

    def _rows(self) -> dict[str, np.ndarray]:
        """The rows of the table for q, and for k if the kernel turns it, [rows, head_dim]."""
        rows = table(self.keys, self.head_dim, self.theta)
        of_q = {"q": rows[np.maximum(0, np.arange(self.seq_len) + self.offset)]}
        return of_q if self.keys_turned else {**of_q, "k": rows}

    def _rounded(self) -> dict[str, np.ndarray]:
        """q, k, v [batch, head, row, dim] as attention takes them, q and k turned in float64 and kept in
        float32."""
        given = dict(super()._rounded())
        for name, rows in self._rows().items():
            given[name] = turned(given[name].astype(np.float64), rows, self.pairs).astype(np.float32)
        return given

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """torch's rotation and attention, each operation in `dtype`."""
        given = dict(super()._rounded())
        for name, rows in self._rows().items():
            x, cos_sin = on_device(given[name], device), on_device(rows, device)
            given[name] = on_host(torch_turned(x, cos_sin, self.pairs))
        q, k, v = given.values()
        return self._outputs(*reference.torch_grouped_attention(q, k, v, self.scale, self.causal, device))

    @classmethod
    def from_call(cls, call: Call) -> "RopeAttentionProblem":
        raise ProblemError("The operator attention takes Q and K as they are.")

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Those of attention with heads of 64 and 128, in both conventions, with K unturned and turned."""
        made = []
        for number, case in enumerate(super().check_cases(kernel)):
            problem = replace(
                cast(RopeAttentionProblem, case.problem), pairs=PAIRS[number % 2], keys_turned=number % 5 == 4
            )
            made.append(replace(case, problem=replace(problem, theta=(500000.0, 10000.0)[number % 2])))
        return made

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return [([("seq_len", [1024, 4096, 8192])], {"head_dim": 128, "num_heads": 16, "causal": True})]

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return []

    @classmethod
    def pipeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return []

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "A few tiles": {},
            "Pairs of neighbours": {"pairs": "neighbours"},
            "Keys stored turned": {"keys_turned": True},
            "Causal": {"causal": True},
        }

"""The gradients of attention: in float64 by the closed formula, by torch's own backward, and the problems of the
backward kernels with their cases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from kernels.build import own_values
from kernels.core import reference
from kernels.core.cases import small_tiles, traced, tuned, values, what_ifs
from kernels.core.dtypes import element_type
from kernels.core.fields import fields_of, problem_field
from kernels.core.problem import Case, Size, Sweeps
from kernels.core.reference import ROWS_AT_ONCE, on_device, on_host, seen
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor
from kernels.errors import ProblemError
from kernels.families.attention import DTYPES, HEADS, SCALES, SCORES
from kernels.families.tensor_cores.problem import SixteenBitProblem

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor

Three = tuple[np.ndarray, np.ndarray, np.ndarray]
Four = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
LENGTHS = (1, 2, 17, 63, 65, 100, 200)
PAIRS = ((40, 200), (200, 40), (1, 300), (130, 129))  # queries and keys that differ
LONGEST = 500
MOST_ON_CPU = 2**28  # scores of a forward that the CPU computes in about ten seconds
MANY_TOKENS = 16384  # batch * seq_len of the bench
WIDTH = 2048  # num_heads * head_dim of the bench
GRADIENT_STREAM = 2  # of the seed: dO


def exact_gradients(arrays: Four, scale: float, causal: bool, device: str = "cpu") -> Three:
    """(dq, dk, dv) in float64, a block of query rows at a time.

    P = softmax(S), dP = dO V^T, dS = P * (dP - rowsum(P * dP)), dQ = scale dS K, dK = scale dS^T Q, dV = P^T dO.
    arrays: q, k, v, do [batch, heads, rows, dim]. A KV head gets the sum over its query heads.
    A query without a visible key has dq 0."""
    import torch

    q, k, v, do = (on_device(a, device).to(torch.float64) for a in arrays)
    dq, dk, dv = (torch.zeros_like(a) for a in (q, k, v))
    count, length, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    rows = max(1, (8 if device == "cuda" else 1) * ROWS_AT_ONCE // length)
    for b, h in np.ndindex(q.shape[:2]):
        kv = h // group
        for first in range(0, count, rows):
            end = min(count, first + rows)
            part = slice(first, end)
            s = scale * (q[b, h, part] @ k[b, kv].T)
            if causal:
                s.masked_fill_(~seen(first, end, length, length - count, device), -torch.inf)
            p = torch.softmax(s, -1).nan_to_num_(0.0)
            dp = do[b, h, part] @ v[b, kv].T
            ds = scale * p * (dp - (p * dp).sum(-1, keepdim=True))
            dq[b, h, part] = ds @ k[b, kv]
            dk[b, kv] += ds.T @ q[b, h, part]
            dv[b, kv] += p.T @ do[b, h, part]
    return dq.cpu().numpy(), dk.cpu().numpy(), dv.cpu().numpy()


def torch_gradients(arrays: Four, o: np.ndarray, lse: np.ndarray, scale: float, causal: bool, device: str) -> Three:
    """The same by torch's own backward of scaled_dot_product_attention, in the arrays' type, from the given O and lse.
    torch's causal mask begins with the first key. So a causal problem becomes square: queries without a key are cut,
    and missing queries have zeros. Each query head has a copy of its K and V, whose gradients are added up at the end,
    as FlashAttention-2 does."""
    import torch

    q, k, v, do = (on_device(a, device) for a in arrays)
    group, pad = q.shape[1] // k.shape[1], torch.nn.functional.pad
    missing = k.shape[2] - q.shape[2] if causal else 0  # below 0: the queries without a key
    rows, grads, outputs = (pad(a, (0, 0, missing, 0)) for a in (q, do, on_device(o, device)))
    keys, values = (a.repeat_interleave(group, 1) for a in (k, v))
    sums = pad(on_device(lse, device), (missing, 0))
    dq, dk, dv = _backward((rows, keys, values, grads), outputs, sums, scale, causal)
    dq = pad(dq, (0, 0, -missing, 0))
    of_group, of_values = (a.unflatten(1, (k.shape[1], group)).sum(2) for a in (dk, dv))
    return on_host(dq), on_host(of_group), on_host(of_values)


def _backward(
    tensors: tuple["TorchTensor", ...], o: "TorchTensor", lse: "TorchTensor", scale: float, causal: bool
) -> tuple["TorchTensor", "TorchTensor", "TorchTensor"]:
    """torch's implementation for the device and type: FlashAttention-2 in 16 bits, else the memory-efficient one. A
    forward first makes the arguments that only torch needs."""
    import torch

    aten, (q, k, v, do) = torch.ops.aten, tensors
    if q.device.type == "cpu":
        cpu = aten._scaled_dot_product_flash_attention_for_cpu_backward
        return cpu(do, q, k, v, o, lse, 0.0, causal, scale=scale)
    if q.element_size() == 2:
        made = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
        flash = aten._scaled_dot_product_flash_attention_backward
        return flash(do, q, k, v, o, lse, *made[2:6], 0.0, causal, *made[6:8], scale=scale)
    made = aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal, scale=scale)
    made[1][..., : lse.shape[2]] = lse  # torch's has more columns
    efficient, asked = aten._scaled_dot_product_efficient_attention_backward, [True, True, True, False]
    return efficient(do, q, k, v, None, o, made[1], *made[2:], 0.0, asked, causal, scale=scale)[:3]


@lru_cache(maxsize=1)
def _given(problem: "GradientProblem") -> dict[str, np.ndarray]:
    """The last problem's inputs as [batch, head, row, dim]. Nobody writes into them."""
    given, kind = problem._rounded(), element_type(problem.dtype).numpy
    q, k, v = given.values()
    on_gpu = False
    if problem.score_count >= MOST_ON_CPU:
        import torch

        on_gpu = torch.cuda.is_available()
    o, lse = reference.grouped_attention(q, k, v, problem.scale, problem.causal, on_gpu)
    if own_values.is_name(problem.scores):
        do = own_values.load(problem.scores, {"do": o.shape})["do"]
    else:
        do = np.random.default_rng((problem.seed, GRADIENT_STREAM)).standard_normal(o.shape, dtype=np.float32)
    return {**given, "o": o.astype(kind), "lse": lse.astype(np.float32), "do": do.astype(kind)}


@dataclass(frozen=True)
class GradientProblem(SixteenBitProblem):
    """The gradients dQ, dK and dV of attention, from Q, K, V, O, lse and dO, in fp32. Q, K and V are as in
    SixteenBitProblem, with the same masks, grouped heads, layouts and `scores`. dO is normal with standard deviation 1.
    O and lse are exact and rounded once, O to `dtype` and lse to fp32, so only the backward is judged. dK and dV of a
    KV head are sums over its query heads. A query without keys has O 0, lse -inf and dQ 0."""

    seq_len: int = problem_field(128, "queries per head", low=1, high=65536)
    head_dim: int = problem_field(64, "numbers per query, key and value", allowed=(32, 64, 128))
    dtype: str = problem_field("float32", "type of all tensors", allowed=("float32",))

    title: ClassVar[str] = "Gradients of attention"
    operator: ClassVar[str] = "attention_backward"
    valued: ClassVar[tuple[str, ...]] = ("q", "k", "v", "do")
    gradients: ClassVar[bool] = True
    recorded_length: ClassVar[int] = 36  # two tiles. An fp32 rung logs far more than one on tensor cores
    picture: ClassVar[Mapping[str, str]] = {
        **{"q": "Q", "k": "K", "v": "V", "s": "S", "p": "P", "o": "O"},
        **{"do": "dO", "dp": "dP", "ds": "dS", "delta": "delta", "dq": "dQ", "dk": "dK", "dv": "dV"},
    }

    def tensors(self) -> tuple[Tensor, ...]:
        of = {t.name: t for t in super().tensors()}

        def like(name: str, other: str, role: Role) -> Tensor:
            return Tensor(name, of[other].shape, of[other].dtype, of[other].axes, role)

        given = [like(name, name, Role.INPUT) for name in of]
        return (*given, like("do", "o", Role.INPUT), *(like(f"d{name}", name, Role.OUTPUT) for name in "qkv"))

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim, "CAUSAL": int(self.causal)}

    @property
    def cpu_steps(self) -> int:
        """The multiply-adds of the five matrix products. Products that a kernel repeats count once."""
        return 5 * self.score_count * self.head_dim

    @property
    def bench_columns(self) -> dict[str, Size]:
        """Empty: times of the backward are not times of the forward with these sizes."""
        return {}

    def _of_formula(self) -> Four:
        given = _given(self)
        return given["q"], given["k"], given["v"], given["do"]

    def _named(self, gradients: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        return {f"d{name}": self.logical(array) for name, array in zip("qkv", gradients)}

    def inputs(self) -> dict[str, np.ndarray]:
        """q, k, v, o and do in `dtype` and `layout`, and lse. Equal problems give equal arrays."""
        return {
            name: array.copy() if name == "lse" else np.array(self.logical(array), order="C")
            for name, array in _given(self).items()
        }

    def unrounded(self) -> dict[str, np.ndarray]:
        """The inputs in float32. O and lse belong to the rounded Q, K and V."""
        widened = {name: array.astype(np.float32) for name, array in self.inputs().items()}
        return {**widened, **super().unrounded()}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        return self._named(exact_gradients(self._of_formula(), self.scale, self.causal, "cuda" if on_gpu else "cpu"))

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """dq, dk and dv by torch's backward of scaled_dot_product_attention in `dtype`, from the same O and lse."""
        given = _given(self)
        arrays = self._of_formula(), given["o"], given["lse"]
        return self._named(torch_gradients(*arrays, self.scale, self.causal, device))

    def largest_terms(self) -> dict[str, float]:
        """A term of dV is P dO, with P at most 1. P = e^(S - lse) takes the rounding of S, which is about lse if P is
        large. A term of dQ or dK is scale dS K or scale dS Q. dS = P * (dP - mean of dP, weighted by P) is at most half
        the largest |dP|, which is at most |dO| |V|."""
        q, k, v, do = (np.abs(a.astype(np.float32)) for a in self._of_formula())
        longest = [float(np.sqrt((a**2).sum(-1)).max()) for a in (do, v)]
        ds, lse = self.scale * longest[0] * longest[1] / 2, np.abs(_given(self)["lse"])
        rounding = max(1.0, float(lse[np.isfinite(lse)].max()))
        return {"dq": ds * float(k.max()), "dk": ds * float(q.max()), "dv": rounding * float(do.max())}

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, object]]:
        """q, k, v and do. A peer's own forward makes its O and lse."""
        arrays, options = super().peer_inputs(inputs)
        return [*arrays, self.logical(inputs["do"])], options

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "A few tiles": {},
            "Causal": {"causal": True},
            "Tiles that do not fit": {"seq_len": 100},
            "Grouped heads": {"seq_len": 96, "num_heads": 4, "num_kv_heads": 2},
            "Fewer queries than keys, causal": {"seq_len": 40, "seq_len_kv": 200, "causal": True},
            "Heads of 128": {"head_dim": 128},
        }

    @classmethod
    def bench_default(cls) -> Self:
        return cls(seq_len=1024, num_heads=16)

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        """Lengths up to 4,096 under both masks: an fp32 rung takes long."""
        return [([("seq_len", [512, 1024, 2048, 4096]), ("causal", ["false", "true"])], {})]

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Lengths, head_dims, types, masks, grouped heads, layouts and kinds of scores. Some problems have more queries
        than keys, some have fewer, and one has 500 tokens. Then follows each value of each constant. The list leaves
        out problems that the kernel's conditions refuse."""
        dims, dtypes = (fields_of(cls)[name].metadata["allowed"] for name in ("head_dim", "dtype"))
        cases = []
        for number, (n, d, dtype, causal) in enumerate(product(LENGTHS, dims, dtypes, (False, True))):
            heads, kv_heads = HEADS[number // 2 % 4] if n <= 65 else (1, 1)
            shape: dict[str, Any] = {
                "batch": number // 3 % 2 + 1 if n <= 17 else 1,
                "num_heads": heads,
                "num_kv_heads": kv_heads,
            }
            layout, scale = ("bhsd", "bshd")[number // 4 % 2], SCALES[number // 3 % 4] if n > 2 else 1.0
            rest = {"dtype": dtype, "causal": causal, "layout": layout, "score_scale": scale, "seed": number}
            cases.append(Case(cls(n, d, **shape, **rest)))
        plain = cls(200, 64, num_heads=1)
        pairs: list[dict[str, Any]] = [{"seq_len": queries, "seq_len_kv": keys} for queries, keys in PAIRS]
        kinds = [{"scores": scores, "score_scale": 2.0} for scores in SCORES[1:]]
        for others in (pairs, kinds):
            for number, (fields, causal) in enumerate(product(others, (False, True))):
                d = (64, 128)[number % 2] if others is kinds else 64
                dtype = dtypes[number // 2 % len(dtypes)]
                cases.append(Case(replace(plain, head_dim=d, causal=causal, dtype=dtype, seed=number, **fields)))
        cases.append(Case(replace(plain, seq_len=LONGEST, causal=True)))
        for number, setting in enumerate(values(kernel)):
            grouped = replace(plain, num_heads=3, num_kv_heads=1) if setting[0] == "QUERY_HEADS" else plain
            for n, d, causal in ((65, 128, False), (200, 64, True)):
                cases.append(Case(replace(grouped, seq_len=n, head_dim=d, causal=causal, seed=number), (setting,)))
        return tuned(kernel, cases)

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        default = cls(cls.recorded_length, num_heads=1, causal=True)
        small = tuple(kernel.settings_for(default).items()) if kernel.tuned else small_tiles(kernel)
        return traced(kernel, tuned(kernel, [Case(default, small), *what_ifs(kernel, default, small)]))

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        shapes = ((128, 64, False), (100, 64, True), (128, 128, False))
        return tuned(kernel, [Case(cls(n, d, causal=causal)) for n, d, causal in shapes])

    @classmethod
    def pipeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return tuned(kernel, [Case(cls(2048, 128, num_heads=16, causal=causal)) for causal in (False, True)])


def _batch_for_length(problem: "GradientProblem", length: int) -> dict[str, object]:
    """The fields for sequences of this length that have MANY_TOKENS tokens together. Raises ProblemError if these are
    no whole number of sequences."""
    if length < 1 or MANY_TOKENS % length:
        raise ProblemError(f"{MANY_TOKENS:,} tokens are no whole number of sequences of {length}.")
    return {"seq_len": length, "batch": MANY_TOKENS // length}


@dataclass(frozen=True)
class SixteenBitGradientProblem(GradientProblem):
    """The same in fp16 or bf16, with sums in fp32."""

    seq_len: int = problem_field(96, "queries per head", low=1, high=65536)
    head_dim: int = problem_field(64, "numbers per query, key and value", allowed=(64, 128))
    dtype: str = problem_field("float16", "type of all tensors but lse, with float32 sums", allowed=DTYPES)

    title: ClassVar[str] = "Gradients of attention in 16 bits"
    duels_from: ClassVar[int] = 4
    recorded_length: ClassVar[int] = 130
    duel_constants: ClassVar[tuple[str, ...]] = ("DETERMINISTIC",)
    derived_fields: ClassVar[Mapping[str, Callable[[Any, int], dict[str, object]]]] = {"length": _batch_for_length}

    @property
    def defines(self) -> dict[str, int]:
        return {**super().defines, "BF16": int(self.dtype == "bfloat16")}

    @classmethod
    def bench_default(cls) -> Self:
        return cls(seq_len=4096, head_dim=128, batch=4, num_heads=16)

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        lengths = [1024, 2048, 4096, 8192, 16384]
        return [
            (
                [("length", lengths), ("causal", ["false", "true"])],
                {"head_dim": d, "num_heads": WIDTH // d, "dtype": dtype},
            )
            for d in (128, 64)
            for dtype in DTYPES
        ]

    @classmethod
    def duel_problems(cls) -> list["SixteenBitGradientProblem"]:
        """MANY_TOKENS tokens in sequences of 4,096 to 16,384, heads of WIDTH numbers together, under both masks. Also
        fp16 at 4,096 and 16,384 tokens, Llama 3's 64 query and 8 KV heads, and one sequence of 2,048 to 16,384 tokens
        with 32 heads on 32 to 1 KV heads. Python may enqueue shorter ones more slowly than the GPU runs them."""
        made = []
        for dtype, head_dim, causal in product(("bfloat16", "float16"), (128, 64), (False, True)):
            for length in (4096, 8192, 16384) if dtype == "bfloat16" else (4096, 16384):
                batch, heads = MANY_TOKENS // length, WIDTH // head_dim
                made.append(cls(length, head_dim, batch, heads, causal, dtype))
        made += [cls(4096, 128, 1, 64, causal, "bfloat16", num_kv_heads=8) for causal in (False, True)]
        few = ((2048, 0), (2048, 16), (2048, 8), (2048, 4), (2048, 1), (4096, 1), (16384, 4))  # tokens, KV heads
        for (length, kv_heads), (head_dim, causal) in product(few, ((128, False), (128, True), (64, True))):
            made.append(cls(length, head_dim, 1, 32, causal, "bfloat16", num_kv_heads=kv_heads))
        return made

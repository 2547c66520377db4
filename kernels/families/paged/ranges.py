"""The problem of the kernels that read a paged KV cache in equal ranges.

It adds features of serving engines to paged decoding: bfloat16, an fp8 cache with a scale for each KV head, a soft cap,
a sliding window, and lse as an output.
"""

import math
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from kernels.core import reference
from kernels.core.distinct import distinct
from kernels.core.dtypes import element_type
from kernels.core.fields import problem_field
from kernels.core.paged import CacheCall, CacheUse
from kernels.core.problem import Size, Work, inputs_of
from kernels.core.tensors import Role, Tensor
from kernels.errors import PeerUnavailable, ProblemError
from kernels.families.paged.calls import RangeCalls
from kernels.families.paged.fields import CACHE_DTYPES, RANGE_BLOCK_SIZES, RANGE_DTYPES, RANGE_HEAD_DIMS
from kernels.families.paged.problem import PagedProblem
from kernels.families.paged.range_cases import RangesCases
from kernels.families.paged.rows import K_STREAM, V_STREAM
from kernels.kv_cache.layout import Layout
from kernels.kv_cache.work_list import WorkList, work_list

MOST_GROUP = 16
FP8_MAX = element_type("float8_e4m3").largest  # 448
MULTIPROCESSORS = 132  # of an H100 SXM or H200
SHORTEST = 128  # tokens: a range is not cut shorter where the ranges are chosen here
MUCH = 300 * 10**6  # bytes of K and V in one call from which they no longer leave the L2 first from the start
UNCHANGED = 128 * 2**20  # bytes that they then leave the L2's order as it is
PAGES_AT_ONCE = 256  # of a cache, where all of it is looked at


@dataclass(frozen=True)
class RangesProblem(RangeCalls, RangesCases, PagedProblem):
    """Decoding as in PagedProblem, over a work list of equal ranges (kv_cache/work_list.py).

    The score of a token is scale * q . k plus ALiBi's slope times the distance. With a soft cap, soft_cap * tanh(scale
    * q . k / soft_cap) replaces scale * q . k. lse is the natural logarithm of the sum of e^score, float32.

    window: a query sees the last `window` tokens of its sequence, with its own token. 0 for all.
    cache_dtype: float8_e4m3 for a cache of 8 bits. A stored number times k_scale (v_scale) gives its value.
    k_scale, v_scale: [num_kv_heads] float32, the largest |K| (|V|) of the KV head over 448.
    """

    context_lens: tuple = problem_field((40, 5, 70), "tokens of each sequence", low=1, high=65536)
    block_size: int = problem_field(16, "slots per page", allowed=RANGE_BLOCK_SIZES)
    head_dim: int = problem_field(64, "numbers per query, key and value", allowed=RANGE_HEAD_DIMS, formerly="head_size")
    dtype: str = problem_field("float16", "type of Q and O, and of the cache, with float32 sums", allowed=RANGE_DTYPES)
    ranges: int = problem_field(0, "equal ranges of pages, or 0 for an H200's number", low=0, high=65535)
    soft_cap: float = problem_field(0.0, "the largest |score|, by tanh, or 0 for none", low=0.0, high=1000.0)
    window: int = problem_field(0, "the last tokens, visible to a query, or 0 for all", low=0, high=65536)
    cache_dtype: str = problem_field("", "type of the cache if it differs from Q's", allowed=CACHE_DTYPES)

    title: ClassVar[str] = "Decoding in ranges, paged KV cache"
    cache_use: ClassVar[CacheUse | None] = CacheUse("attend", most_group=MOST_GROUP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group > MOST_GROUP:
            raise ProblemError(
                f"num_heads is {self.num_heads} and num_kv_heads {self.num_kv_heads}, {self.group} query heads for a "
                f"KV head. It can be at most {MOST_GROUP}."
            )
        if self.cache_dtype and self.block_size < 16:
            raise ProblemError(
                f"block_size is {self.block_size} and cache_dtype {self.cache_dtype}. A page of 8-bit numbers needs 16 "
                "slots at least."
            )

    @property
    def stored(self) -> str:
        """The type of the cache."""
        return self.cache_dtype or self.dtype

    @property
    def layout(self) -> Layout:
        return Layout(self.num_blocks, self.num_kv_heads, self.head_dim, self.block_size, self.stored)

    @property
    def begins(self) -> np.ndarray:
        """The first visible token of each sequence's query, int [num_seqs]."""
        lens = np.array(self.context_lens)
        return np.maximum(0, lens - self.window) if self.window else np.zeros_like(lens)

    @cached_property
    def work_list(self) -> WorkList:
        """The plan of the step."""
        lens = np.array(self.context_lens)
        firsts = self.begins // self.block_size
        pages = -(-lens // self.block_size) - firsts
        return work_list(firsts, pages, lens, self.range_count_of(int(pages.sum())))

    def range_count_of(self, pages: int) -> int:
        """The number of ranges for this number of pages."""
        few = min(MULTIPROCESSORS // self.num_kv_heads, pages * self.block_size // SHORTEST)
        return self.ranges or max(1, few)

    @property
    def read_bytes(self) -> int:
        """Bytes of K and V in the pages of the work list, for all KV heads."""
        return 2 * int(self.work_list.units[:, 2].sum()) * self.num_kv_heads * self.layout.page_bytes

    def tensors(self) -> tuple[Tensor, ...]:
        """PagedProblem's tensors, with the type of the caches.

        It adds the work list units [units, 8] int32, k_scale and v_scale [num_kv_heads], and lse [num_seqs, num_heads].
        """
        q, k, v, tables, lens, slopes, o = super().tensors()
        k, v = (Tensor(t.name, t.shape, self.stored, t.axes) for t in (k, v))
        scales = (Tensor(name, (self.num_kv_heads,), "float32", ("kv_head",)) for name in ("k_scale", "v_scale"))
        units = Tensor("units", self.work_list.units.shape, "int32", ("unit", "field"))
        lse = Tensor("lse", self.shape[:2], "float32", ("sequence", "head"), Role.OUTPUT)
        return (q, k, v, tables, lens, slopes, *scales, units, o, lse)

    @property
    def sizes(self) -> dict[str, object]:
        """PagedProblem's sizes.

        range_count, slots: of the work list.
        unchanged_bytes: bytes that the kernel reads before it tells the L2 to drop bytes first.
        """
        made = self.work_list
        much = UNCHANGED if self.read_bytes > MUCH else 0
        return {**super().sizes, "range_count": made.ranges, "slots": made.slots, "unchanged_bytes": much}

    @property
    def defines(self) -> dict[str, int]:
        return {
            "HEAD_DIM": self.head_dim,
            "BLOCK_SIZE": self.block_size,
            "GROUP": self.group,
            "C_BYTES": element_type(self.stored).bytes,
            "BF16": int(self.dtype == "bfloat16"),
            "FP8": int(bool(self.cache_dtype)),
            "ALIBI": int(self.alibi),
            "SOFT_CAP": int(self.soft_cap > 0),
            "WINDOW": int(self.window > 0),
        }

    @property
    def cpu_steps(self) -> int:
        """The multiply-adds of q . K and P @ V."""
        seen = np.array(self.context_lens) - self.begins
        return 2 * int(seen.sum()) * self.num_heads * self.head_dim

    @property
    def work(self) -> Work:
        """The touched bytes of the caches are the slots of visible tokens. A shared slot counts once."""
        slots = self.slots_and_tokens[0]
        rows = np.split(slots, np.cumsum(self.context_lens)[:-1])
        seen = len(distinct(np.concatenate([row[begin:] for row, begin in zip(rows, self.begins)])))
        held = seen * self.num_kv_heads * self.head_dim * element_type(self.stored).bytes
        return Work(2 * self.cpu_steps, self.num_seqs, {"k_cache": held, "v_cache": held})

    @property
    def bench_columns(self) -> dict[str, Size]:
        """Empty if the contexts differ, or if scores are more than scale * q . k."""
        return {} if self.soft_cap or self.window or self.cache_dtype or self.alibi else super().bench_columns

    @property
    def shared_remedy(self) -> str:
        return "Choose fewer STAGES."

    # ---- numbers ----

    def _token_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The drawn K and V of every position of every sequence, [positions, num_kv_heads, head_dim] float32."""
        return self.rows(K_STREAM, "float32"), self.rows(V_STREAM, "float32")

    def _stored_rows(self, stream: int, scale: np.ndarray) -> np.ndarray:
        """The rows of K or V over their scale, in the cache's type."""
        if not self.cache_dtype:
            return self.rows(stream, self.stored)
        rows = self.rows(stream, "float32")
        rows /= scale[:, None]
        return np.clip(rows, -FP8_MAX, FP8_MAX, out=rows).astype(element_type(self.stored).numpy)

    @cached_property
    def scales(self) -> tuple[np.ndarray, np.ndarray]:
        """k_scale and v_scale, float32 [num_kv_heads], or ones for a cache of Q's type."""
        if not self.cache_dtype:
            return np.ones(self.num_kv_heads, np.float32), np.ones(self.num_kv_heads, np.float32)
        k, v = (np.abs(rows).max(axis=(0, 2)) / np.float32(FP8_MAX) for rows in self._token_rows())
        return k.astype(np.float32), v.astype(np.float32)

    def inputs(self) -> dict[str, np.ndarray]:
        """PagedProblem's arrays with the caches in their own type, units, k_scale and v_scale."""
        slots, _ = self.slots_and_tokens
        nan = np.array(np.nan, element_type(self.stored).numpy)
        k_cache, v_cache = (np.full(shape, nan) for shape in (self.layout.k_shape, self.layout.v_shape))
        k_scale, v_scale = self.scales
        with ThreadPoolExecutor() as pool:  # NumPy draws without holding the interpreter
            q = pool.submit(self.queries)
            k, v = pool.map(self._stored_rows, (K_STREAM, V_STREAM), (k_scale, v_scale))
        self.layout.write(k_cache, v_cache, slots, k, v)
        return {
            "q": q.result(),
            "k_cache": k_cache,
            "v_cache": v_cache,
            "block_tables": self.tables(),
            "context_lens": np.array(self.context_lens, np.int32),
            "alibi_slopes": self.slopes,
            "k_scale": k_scale,
            "v_scale": v_scale,
            "units": self.work_list.units,
        }

    def seen(self, dequantised: bool = True) -> Iterable[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
        """Yields for each sequence q [num_heads, head_dim], K and V of its visible tokens, and the number of the first.

        K, V: [seen, num_kv_heads, head_dim] float32.
        dequantised: the cache's numbers times their scales. Otherwise the numbers as drawn.
        """
        arrays = self.inputs()
        drawn = [np.split(rows, np.cumsum(self.context_lens)[:-1]) for rows in self._token_rows()]
        for n, (table, length, begin) in enumerate(zip(self.block_tables, self.context_lens, self.begins)):
            pair = self.layout.gather(arrays["k_cache"], arrays["v_cache"], table, length)
            k, v = (
                (rows.astype(np.float32) * scale[:, None] for rows, scale in zip(pair, self.scales))
                if dequantised
                else (rows[n] for rows in drawn)
            )
            yield arrays["q"][n], k[begin:], v[begin:], int(begin)

    def scores(self, dequantised: bool = True) -> Iterable[np.ndarray]:
        """The scores of each sequence's visible tokens, float64 [num_heads, seen]. dequantised: as in seen()."""
        return (self._scores(q, k) for q, k, _, _ in self.seen(dequantised))

    def _scores(self, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        s = self.scale * np.einsum(
            "hd,thd->ht", q.astype(np.float64), np.repeat(k.astype(np.float64), self.group, axis=1)
        )
        if self.soft_cap:
            s = self.soft_cap * np.tanh(s / self.soft_cap)
        return s + self.slopes[:, None].astype(np.float64) * np.arange(1 - len(k), 1)

    def attention(self, dequantised: bool = True) -> dict[str, np.ndarray]:
        """o and lse in float64. dequantised: as in seen()."""
        o, lse = np.empty(self.shape), np.empty(self.shape[:2])
        for n, (q, k, v, _) in enumerate(self.seen(dequantised)):
            s, v = self._scores(q, k), np.repeat(v.astype(np.float64), self.group, axis=1)
            m = s.max(axis=1, keepdims=True)
            p = np.exp(s - m)
            total = p.sum(axis=1, keepdims=True)
            o[n], lse[n] = np.einsum("ht,thd->hd", p / total, v), (m + np.log(total))[:, 0]
        return {"o": o, "lse": lse}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """o and lse in float64 over the cache's numbers times its scales."""
        return self._attention_on("cuda") if on_gpu else self.attention()

    def seen_on(self, device: str) -> Iterator[tuple[Any, Any, Any]]:
        """q, K and V of seen() as torch tensors on a device. The device gathers the pages."""
        import torch

        arrays = inputs_of(self)
        q, *caches = (reference.on_device(arrays[name], device) for name in ("q", "k_cache", "v_cache"))
        bits = [cache.view(torch.uint8) if self.cache_dtype else cache for cache in caches]  # torch gathers no fp8
        scales = [torch.from_numpy(scale).to(device)[:, None] for scale in self.scales]
        for n, (table, length, begin) in enumerate(zip(self.block_tables, self.context_lens, self.begins.tolist())):
            pages = torch.tensor(table[: -(-length // self.block_size)], device=device)
            k, v = (cache[pages] for cache in bits)
            rows = (k.permute(0, 3, 1, 2, 4), v.permute(0, 3, 1, 2))
            shape = (-1, self.num_kv_heads, self.head_dim)
            k, v = (x.reshape(shape)[begin:length].view(cache.dtype) for x, cache in zip(rows, caches))
            yield q[n], k.float() * scales[0], v.float() * scales[1]

    def _attention_on(self, device: str) -> dict[str, np.ndarray]:
        """attention() by torch, still in float64."""
        import torch

        made: list[tuple[Any, Any]] = []
        slopes = torch.from_numpy(self.slopes).to(device, torch.float64).view(self.num_kv_heads, self.group, 1)
        for q, k, v in self.seen_on(device):
            grouped = q.double().view(self.num_kv_heads, self.group, self.head_dim)
            s = self.scale * torch.einsum("kgd,tkd->kgt", grouped, k.double())
            if self.soft_cap:
                s = self.soft_cap * torch.tanh(s / self.soft_cap)
            s += slopes * torch.arange(1 - len(k), 1, device=device)
            made.append((torch.einsum("kgt,tkd->kgd", torch.softmax(s, -1), v.double()), torch.logsumexp(s, -1)))
        o, lse = (torch.stack(rows).cpu().numpy() for rows in zip(*made))
        return {"o": o.reshape(self.shape), "lse": lse.reshape(self.shape[:2])}

    def quantisation_error(self) -> float:
        """The largest difference in o from rounding the cache to its type, in float64. It is the cost of the type,
        apart from the kernel's error."""
        return float(np.abs(self.attention()["o"] - self.attention(dequantised=False)["o"]).max())

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """o by torch in the problem's type, and lse from float32 scores.

        torch uses scaled_dot_product_attention, or products, tanh and softmax for a soft cap.
        """
        import torch

        rows: list[np.ndarray] = []
        lses: list[np.ndarray] = []
        for query, k, v in self.seen_on(device):
            keys, values = (a.to(query.dtype).transpose(0, 1).repeat_interleave(self.group, 0) for a in (k, v))
            bias = torch.from_numpy(self.slopes).to(device)[:, None] * torch.arange(1 - len(k), 1, device=device)
            with torch.inference_mode():
                exact = self.scale * torch.einsum("hd,htd->ht", query.float(), keys.float())
                s = self.scale * (keys @ query[:, :, None])[..., 0]
                if self.soft_cap:
                    exact, s = (self.soft_cap * torch.tanh(x / self.soft_cap) for x in (exact, s))
                    p = torch.softmax((s + bias.to(s.dtype)).float(), -1).to(s.dtype)
                    o = (p[:, None] @ values)[:, 0]
                else:
                    mask = bias.to(query.dtype)[None, :, None] if self.alibi else None
                    o = torch.nn.functional.scaled_dot_product_attention(
                        query[None, :, None], keys[None], values[None], mask, scale=self.scale
                    )[0, :, 0]
                lses.append(torch.logsumexp(exact + bias, -1).cpu().numpy())
            rows.append(reference.on_host(o))
        return {"o": np.stack(rows), "lse": np.stack(lses)}

    def largest_terms(self) -> dict[str, float]:
        """The largest |V| for o. For lse, the largest possible score (|Q| |K| and ALiBi's) plus the logarithm of the
        number of terms."""
        arrays = inputs_of(self)
        q = float(np.sqrt((arrays["q"].astype(np.float32) ** 2).sum(-1)).max())
        k = v = 0.0
        for page in range(0, self.num_blocks, PAGES_AT_ONCE):
            pages = slice(page, page + PAGES_AT_ONCE)
            keys, values = (np.nan_to_num(arrays[c][pages].astype(np.float32)) for c in ("k_cache", "v_cache"))
            k = max(k, float((keys**2).sum(axis=(2, 4)).max()))
            v = max(v, float(np.abs(values).max()))
        k, v = math.sqrt(k) * float(self.scales[0].max()), v * float(self.scales[1].max())
        longest = max(self.context_lens)
        return {"o": v, "lse": self.scale * q * k + float(self.slopes.max()) * longest + math.log(longest)}

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, object]]:
        """PagedProblem's inputs. Raises PeerUnavailable for features that torch's attention lacks."""
        if self.soft_cap or self.window or self.cache_dtype:
            raise PeerUnavailable("torch's attention has no soft cap, window or cache of another type.")
        return super().peer_inputs(inputs)

    def cache_call(self, inputs: dict[str, np.ndarray]) -> CacheCall:
        """PagedProblem's call with scales, soft cap and window."""
        call, k_scale, v_scale = super().cache_call(inputs), inputs["k_scale"], inputs["v_scale"]
        return replace(call, soft_cap=self.soft_cap, window=self.window, k_scale=k_scale, v_scale=v_scale)

    # ---- cases ----

    @classmethod
    def bench_default(cls) -> "RangesProblem":
        return cls((4096,) * 8, 32, 8, 128, 16, "float16")

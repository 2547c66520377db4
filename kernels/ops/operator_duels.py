"""The operator attention next to the four backends of torch's attention, in recordings/data/operators/.

A time is of the clock on the wall: Python, the compiled launcher, autograd, the launches and the GPU. All contestants
of a case take turns on a chip at work. Each turn starts after untimed calls of the same contestant.

Before the turns, the outputs of one KV head are judged against float64: at most twice the error of torch's flash (or of
its first backend that runs), plus one unit in the last place of the largest value. A wrong result gets no time.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata

import numpy as np
import torch

from kernels.measure import load
from kernels.measure.in_worker import in_worker
from kernels.measure.meeting import SUSTAINED, Side, figures
from kernels.measure.operator_rows import CASE, COLUMNS, IN_PYTHON, KIND, OURS, present
from kernels.measure.peers import SDPA
from kernels.ops import attention, binding, launcher
from kernels.recordings import tables
from kernels.recordings.tables import Row
from kernels.run.backends import Device

Tensor = torch.Tensor
Step = Callable[[], tuple[Tensor, ...]]
MODELS = {"Llama 3 8B": (32, 8, 128), "GPT-2 medium": (16, 16, 64)}
"""model -> heads, KV heads, head_dim"""
SIZES = ((1, 128), (1, 1024), (4, 2048), (2, 4096), (1, 8192))
"""(batch, tokens)"""
SECONDS, ROUNDS = 0.2, 3
CALLS = 1000  # of a small call, for its overhead
TIME_LIMIT = 120.0  # seconds for one case


@dataclass(frozen=True)
class Case:
    """Causal attention of a layer in bf16. trains: also the backward, through autograd."""

    model: str
    batch: int
    tokens: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    trains: bool

    def __str__(self) -> str:
        return f"{self.model}, {self.batch} x {self.tokens} tokens" + (", with gradients" if self.trains else "")

    @property
    def flops(self) -> int:
        """The operations under the mask. The backward has five products, and the forward two."""
        products = 7 if self.trains else 2
        return products * self.batch * self.num_heads * self.tokens * (self.tokens + 1) * self.head_dim

    def tensors(self, device: str) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v, random."""
        torch.manual_seed(0)
        heads = (self.num_heads, self.num_kv_heads, self.num_kv_heads)
        shapes = [(self.batch, n, self.tokens, self.head_dim) for n in heads]
        q, k, v = (torch.randn(s, device=device, dtype=torch.bfloat16, requires_grad=self.trains) for s in shapes)
        return q, k, v


def cases() -> list[Case]:
    """Two models at five sizes, without and with gradients."""
    return [Case(m, b, n, *shape, trains) for m, shape in MODELS.items() for b, n in SIZES for trains in (False, True)]


def meet(case: Case, device: str = "cuda", seconds: float = SECONDS) -> tuple[list[Row], dict[str, str]]:
    """(a row for our operator against each backend of torch, kernel -> code_hash). Runs in the GPU's worker."""
    if device == "cuda":
        launcher.wait()
    given = case.tensors(device)
    do = torch.randn_like(given[0])
    steps = {name: _step(name, case, given, do) for name in (OURS, *SDPA)}
    made: dict[str, tuple[Tensor, ...]] = {}
    sides: dict[str, Side] = {}
    codes: dict[str, str] = {}
    with launcher.watched(_noted(codes)):
        for name, step in steps.items():
            try:
                with _only(name):
                    made[name] = _first(case, step())
                sides[name] = Side("ok")
            except Exception as error:
                sides[name] = Side("unavailable", f"{name}: {str(error).splitlines()[0][:160]}")
    _judge(sides, made, _exact(case, given, do))
    _turns({name: steps[name] for name, side in sides.items() if side.status != "wrong" and name in made},
           sides, seconds, device)  # fmt: skip
    return [_row(case, codes, sides[OURS], name, sides[name]) for name in SDPA], codes


def _step(name: str, case: Case, given: tuple[Tensor, Tensor, Tensor], do: Tensor) -> Step:
    grouped = case.num_kv_heads < case.num_heads

    def forward() -> Tensor:
        if name == OURS:
            return attention(*given, causal=True)[0]
        return torch.nn.functional.scaled_dot_product_attention(*given, is_causal=True, enable_gqa=grouped)

    if not case.trains:
        return lambda: (forward(),)
    return lambda: torch.autograd.grad(forward(), given, do)


@contextmanager
def _only(name: str) -> Iterator[None]:
    """Allows one backend of torch's attention. The timed calls run inside, so this choice costs them nothing."""
    if name not in SDPA:
        yield
        return
    with torch.nn.attention.sdpa_kernel([getattr(torch.nn.attention.SDPBackend, SDPA[name])]):
        yield


def _noted(codes: dict[str, str]) -> Callable[[binding.Bound, dict[str, Tensor]], None]:
    def note(found: binding.Bound, tensors: dict[str, Tensor]) -> None:
        codes[found.kernel] = found.choice.kernel.code_hash

    return note


# ---- the judgment ----


def _first(case: Case, made: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The first KV head of the first sequence, and its query heads, in each output."""
    group = case.num_heads // case.num_kv_heads
    return tuple(x[:1, : group if n == 0 else 1].detach().double() for n, x in enumerate(made))


def _exact(case: Case, given: tuple[Tensor, Tensor, Tensor], do: Tensor) -> tuple[Tensor, ...]:
    """The same outputs in float64."""
    q, k, v = (x.requires_grad_(case.trains) for x in _first(case, given))
    with _only("sdpa_math"):
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return torch.autograd.grad(o, (q, k, v), _first(case, (do,))[0]) if case.trains else (o,)


def _judge(sides: Mapping[str, Side], made: Mapping[str, tuple[Tensor, ...]], exact: tuple[Tensor, ...]) -> None:
    """Gives each side whose error is too large the status wrong, or less accurate for a backend of torch."""
    errors = {name: [float((x - y).abs().max()) for x, y in zip(each, exact)] for name, each in made.items()}
    yardstick = next((errors[name] for name in ("sdpa_flash", *SDPA) if name in errors), [0.0] * len(exact))
    unit = torch.finfo(torch.bfloat16).eps
    allowed = [2 * error + unit * float(x.abs().max()) for error, x in zip(yardstick, exact)]
    for name, each in errors.items():
        if any(not error <= most for error, most in zip(each, allowed)):
            sides[name].status = "wrong" if name == OURS else "less accurate"
            sides[name].reason = f"{name}: errors {each}, allowed {allowed}"


# ---- the times ----


def _turns(steps: Mapping[str, Step], sides: Mapping[str, Side], seconds: float, device: str) -> None:
    counts = {name: _count(name, step, seconds, device) for name, step in steps.items()}
    found: dict[str, list[tuple[float, load.State]]] = {name: [] for name in steps}
    for turn in range(ROUNDS):
        for name in list(steps)[:: 1 if turn % 2 == 0 else -1]:  # as in load.in_turns
            step = steps[name]
            with _only(name):
                _timed(step, max(2, int(counts[name] * load.WARM_UP / max(seconds, load.WARM_UP))), device)
                us = _timed(step, counts[name], device)
                found[name].append((us, load.under_load() if device == "cuda" else (None, None)))
    for name, rounds in found.items():
        sides[name].times[SUSTAINED.prefix] = np.array([us for us, _ in rounds])
        sides[name].states[SUSTAINED.prefix] = [state for _, state in rounds]


def _count(name: str, step: Step, seconds: float, device: str) -> int:
    with _only(name):
        _timed(step, 2, device)
        return max(3, round(1e6 * seconds / _timed(step, 3, device)))


def _timed(step: Callable[[], object], calls: int, device: str) -> float:
    """Microseconds of a call, from the first call to the end of all on the GPU."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        step()
    wait()
    return 1e6 * (time.perf_counter() - start) / calls


def overheads(device: str = "cuda", calls: int = CALLS) -> dict[str, float]:
    """Microseconds of a forward so small that the GPU waits for the host, by name. Ours also without the launcher."""
    if device == "cuda":
        launcher.wait()
    case = Case("", 1, 64, 2, 2, 64, False)
    given = case.tensors(device)
    steps = {name: _step(name, case, given, given[0]) for name in (OURS, *SDPA)}
    found = {}
    for name, step in steps.items():
        try:
            with _only(name), torch.no_grad():
                _timed(step, 20, device)
                found[name] = round(min(_timed(step, calls, device) for _ in range(5)), 2)
        except RuntimeError:  # the backend refuses the call, and the table says so
            continue
    with torch.no_grad(), launcher.watched(lambda found, tensors: None):  # Python takes the calls
        found[IN_PYTHON] = round(min(_timed(steps[OURS], calls, device) for _ in range(5)), 2)
    return found


# ---- the table ----


def _row(case: Case, codes: Mapping[str, str], ours: Side, name: str, side: Side) -> Row:
    made: dict[str, object] = {"name": next(iter(codes), ""), "backward": " ".join([*codes][1:]), "peer": name}
    made |= {"status": ours.status, "peer_status": side.status, **asdict(case)}
    made["code_hash"] = next(iter(codes.values()), "")
    made["reason"] = " ".join(filter(None, (ours.reason, side.reason))) or None
    return dict.fromkeys(COLUMNS) | made | figures(case.flops, ours, side, SUSTAINED.prefix)


def _cases(device: Device, kept: tables.Kept | None) -> tables.Cases:
    codes = dict(kept.where.codes) if kept else {}
    cost = kept.where.more.get("overhead_us") if kept else None
    cost = cost or in_worker("Operators", overheads, limit=TIME_LIMIT)

    def turn(case: Case, _: object) -> list[Row]:
        rows, used = in_worker("Operators", meet, case, limit=TIME_LIMIT)
        codes.update(used)
        return rows

    made = [
        tables.Case(str(case), [(*(getattr(case, name) for name in CASE), peer) for peer in SDPA], partial(turn, case))
        for case in cases()
    ]
    protocol = f"sustained, on the wall: {ROUNDS} rounds of {SECONDS:g} s"
    return made, {"codes": codes, "torch": metadata.version("torch"), "protocol": protocol, "overhead_us": cost}


TABLE = tables.RecordedTable(KIND, tables.by(*CASE, "peer"), _cases, COLUMNS, present)

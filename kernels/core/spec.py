"""A kernel, read only from its .cu with its opening comment in TOML (core/frontmatter.py)."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from kernels.core.dtypes import element_type
from kernels.core.expressions import evaluate
from kernels.core.fields import check_value, nearest
from kernels.core.launch import (
    Condition,
    Constant,
    ConstantRole,
    CopyText,
    Launch,
    LaunchText,
    Place,
    Plan,
    ScratchText,
    TensorMap,
    Texture,
    Tuned,
)
from kernels.core.planning import check_conditions, check_steps, outputs_with, plan_of, scratch_tensors
from kernels.core.problem import Problem
from kernels.core.remembered import remembered
from kernels.core.sources import is_plain, kernels_text, signature, without_comments
from kernels.core.tensors import Initial
from kernels.core.watch import WatchText
from kernels.errors import ProblemError

MOST_THREADS, MOST_GRID_YZ = 1024, 65535  # of a block; of a grid in y and in z


@dataclass(frozen=True, eq=False)
class KernelSpec:
    """One kernel.

    files: (name, text) of the .cu and of all our headers in it. This text is hashed and compiled.
    title, idea, costs, limits, literature: texts for readers.
    changed_from, changed: the rung before it, and the change.
    problem_type: the class of its problems, in families/<family>/.
    requires: the least architecture, such as sm_80, exactly one, such as sm_90a, or "" for any.
    instructions: the reason for `requires`, in PTX's words, such as "wgmma and setmaxnreg". May be empty.
    tensor_products: the 16-bit products on tensor cores for one fp32 multiply-add, or 0 for one FMA.
    watch: the marked lines of a plain kernel.
    in_order: an expression. If it holds, blocks add to sums in global memory in a fixed order.
    rounds: an expression. If it holds, a row's largest weight may be rounded, which torch never does.
    graph: whether a GPU runs its launches as one CUDA graph.
    why: the reason for the cost of each named value of its constants, or of the kernel. May be empty.
    waits: the main wait of each of these, in a word or two. May be empty.
    initial: the value of an output before a run, such as zero."""

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
    instructions: str = ""
    tensor_products: int = 0
    conditions: tuple[Condition, ...] = ()
    in_order: str = ""
    rounds: str = ""
    watch: tuple[WatchText, ...] = ()
    graph: bool = False
    copy_texts: tuple[CopyText, ...] = ()
    why: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    initial: tuple[tuple[str, str], ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KernelSpec):
            return False
        return (self.path, self.files, self.conditions) == (other.path, other.files, other.conditions)

    def __hash__(self) -> int:
        return hash((self.path, self.files))

    @property
    def source(self) -> str:
        return self.files[0][1]

    @property
    def plain(self) -> bool:
        """Whether the kernel is in CUDA's own names, without common.cuh. Its probes are automatic."""
        return is_plain(self.files)

    @property
    def repeats(self) -> bool:
        """Whether its launches repeat with other tensors, on several GPUs. A probe's name then has several tensors.
        Repeated children all have the tensors of their parent."""
        return any(text.repeat and not text.parent for text in self.launch_texts)

    @property
    def code_hash(self) -> str:
        """Sixteen hex digits for source and headers without comments, the launches and GPU_OPTIONS. Recordings and
        times have it in their names."""
        return _code_hash(self)

    @property
    def launches_children(self) -> bool:
        """Whether one of its kernels launches others. On a GPU, its build is then linked."""
        return any(text.children for text in self.launch_texts)

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

    def settings_for(self, problem: Any, chosen: Any = (), shared_bytes: int | None = None) -> dict[str, int]:
        """Every constant's value, from `chosen`, else from `tuned`, else the default.

        shared_bytes: the most of a block. An entry of `tuned` with more does not count."""
        names, best = self._problem_names(problem), dict(chosen)
        for number, tuned in enumerate(self.tuned):
            if evaluate(tuned.when, names, f"{self.path.name}: tuned[{number}].when"):
                better = {**best, **dict(tuned.constants), **dict(chosen)}
                if shared_bytes is None or self.shared_bytes_of(problem, better) <= shared_bytes:
                    best = better
        return self.settings(best)

    def shared_bytes_of(self, problem: Any, settings: Any) -> int:
        """The most dynamic shared bytes of a block, whatever the conditions say."""
        return max(launch.shared_bytes for launch in replace(self, conditions=()).plan(problem, settings).launches)

    @property
    def what_ifs(self) -> tuple[Constant, ...]:
        return tuple(c for c in self.constants if c.what_if)

    def constants_of(self, *roles: ConstantRole) -> tuple[Constant, ...]:
        return tuple(c for c in self.constants if c.role in roles)

    def constant_of(self, role: ConstantRole) -> Constant | None:
        return next(iter(self.constants_of(role)), None)

    def solves(self, problem: Problem) -> bool:
        return self.solves_class(problem.problem_type)

    def solves_class(self, kind: type[Problem]) -> bool:
        return kind is self.problem_type

    def same_problems(self, other: "KernelSpec") -> bool:
        return self.solves_class(other.problem_type)

    def adds_in_order(self, problem: Any, settings: Any) -> bool:
        """Whether blocks add to sums in global memory in a fixed order, with these constants."""
        return self._holds("in_order", problem, settings)

    def may_round(self, problem: Any, settings: Any) -> bool:
        """Whether a row's largest weight may be rounded, with these constants."""
        return self._holds("rounds", problem, settings)

    def _holds(self, key: str, problem: Any, settings: Any) -> bool:
        names = {**self._problem_names(problem), **dict(settings)}
        return bool(getattr(self, key) and evaluate(getattr(self, key), names, f"{self.path.name}: {key}"))

    # ---- plans ----

    def plan(self, problem: Any, settings: Any = (), sizes: tuple[tuple[str, float], ...] = ()) -> Plan:
        """The launches and tensors for a problem and constants (a mapping or pairs). Raises ProblemError.

        sizes: numbers in place of the problem's sizes, such as the scale of an operator's call."""
        return _plan(self, problem, tuple(self.settings(settings).items()), sizes)

    def check_conditions(self, problem: Any, settings: Any) -> None:
        """Raises ProblemError for the first failed condition, before any work on the problem."""
        check_conditions(self.conditions, {**self._problem_names(problem), **dict(settings)}, self.path.name)

    def failed_condition(self, problem: Any, settings: Any) -> Condition | None:
        """The first failed condition, or None. Raises FrontMatterError for one without a value."""
        names = {**self._problem_names(problem), **dict(settings)}
        place = f"{self.path.name}: conditions"
        return next((one for one in self.conditions if not evaluate(one.must, names, place)), None)

    def lacks(self, problem: Problem, target: str) -> str:
        """The needed architecture in place of `target`, such as "sm_80 or later for cp.async", or ""."""
        needed = [(self.requires, self.instructions)]
        rounded = [t.dtype for t in problem.tensors() if t.is_written and t.initial is not Initial.GIVEN]
        needed += [(element_type(dtype).requires, f"rounding to {dtype}") for dtype in rounded]
        for arch, what in needed:
            if arch and not runs_on(arch, target):
                return f"{arch}{'' if arch[-1].isalpha() else ' or later'}{f' for {what}' if what else ''}"
        return ""

    def check_architecture(self, problem: Problem, arch: str) -> None:
        """Raises ProblemError if an architecture lacks an instruction of the kernel, before a build for it."""
        if lacks := self.lacks(problem, arch):
            raise ProblemError(
                f"{self.name} needs {lacks}, and the chosen architecture is {arch}. Choose another one, or another "
                "kernel."
            )

    def cannot_run(self, problem: Any, settings: Any, device: Any) -> str | None:
        """The reason against a run on a device (run.backends.Device), with the remedy, or None."""
        if device.backend == "gpu" and (lacks := self.lacks(problem, device.target)):
            return (
                f"{self.name} needs {lacks}, and {device.name} is {device.target}. "
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
        return signature(kernels_text(self.files), entry)

    @cached_property
    def tensor_of_symbol(self) -> dict[str, str]:
        """A probe's name of a tensor in global memory, such as K (of K_gmem) -> the tensor's name, such as k_cache.

        A plain kernel may pass several tensors under one name. These have their own names."""
        found: dict[str, str] = {}
        unclear = dict[str, set[str]]()
        for text in self.launch_texts:
            for symbol, arg in zip(self.symbols(text.entry), text.args):
                for kind, end in (("", "_gmem"), ("map", "_map"), ("texture", "_texture"), ("tensor", "_gmem")):
                    tensor = arg.get(kind) if isinstance(arg, dict) else "" if kind or " " in arg else arg
                    if tensor:
                        found[symbol.removesuffix(end)] = tensor
                        unclear.setdefault(symbol.removesuffix(end), set()).add(tensor)
        several = {name: tensors for name, tensors in unclear.items() if len(tensors) > 1 and self.plain}
        own = {tensor: tensor for tensors in several.values() for tensor in tensors}
        return {name: tensor for name, tensor in found.items() if name not in several} | own

    def tensor_in(self, launch: Launch, symbol: str) -> str:
        """The tensor of a probe's name in one launch: tensor_of_symbol, with the numbers of a repeated launch."""
        if launch.parent:  # with the names of its parent's pointers
            return self.tensor_of_symbol[symbol]
        symbols = [name.removesuffix("_gmem").removesuffix("_map") for name in self.symbols(launch.entry)]
        arg = launch.args[symbols.index(symbol)]
        return arg.tensor if isinstance(arg, (TensorMap, Texture, Place)) else str(arg)

    def _problem_names(self, problem: Any) -> dict[str, object]:
        return {**problem.values(), **problem.defines, **problem.sizes}


def runs_on(requires: str, target: str) -> bool:
    """Whether architecture `target` meets `requires`: sm_80 means sm_80 and later, sm_90a means only sm_90a."""
    if requires[-1].isalpha():
        return target == requires
    return int(re.sub(r"\D", "", target)) >= int(re.sub(r"\D", "", requires))


@lru_cache(maxsize=512)
def _code_hash(spec: KernelSpec) -> str:
    digest = hashlib.sha256()
    for name, text in spec.files:
        own = "" if name == spec.files[0][0] else name  # a renamed .cu is the same code
        digest.update(f"{own}\0{without_comments(text)}\0".encode())
    texts = [
        [
            {key: value for key, value in asdict(text).items() if key != "heads" and (value or key not in YOUNGER)}
            for text in texts
        ]
        for texts in (spec.launch_texts, spec.scratch)
    ]
    if spec.copy_texts:
        texts.append([asdict(text) for text in spec.copy_texts])
    digest.update(b"graph" if spec.graph else b"")
    digest.update(json.dumps(spec.initial).encode() if spec.initial else b"")
    digest.update(json.dumps(texts, sort_keys=True).encode())
    digest.update("\0".join(GPU_OPTIONS).encode())
    return digest.hexdigest()[:16]


YOUNGER = ("cooperative", "stream", "after", "dependent", "fetch", "device", "repeat", "when", "children", "parent")
"""Fields of a launch that are younger than the first recordings. A hash leaves out their defaults, which are false."""
GPU_OPTIONS = ("--std=c++17", "-lineinfo", "--fmad=false")
"""Options of every build for a GPU. fmad=false: only fmaf in the source is fused, so the GPU rounds as the CPU."""


@remembered(256)
def _plan(
    spec: KernelSpec, problem: Any, settings: tuple[tuple[str, int], ...], sizes: tuple[tuple[str, float], ...]
) -> Plan:
    names = {**spec._problem_names(problem), **dict(settings), **dict(sizes)}
    place = spec.path.name
    check_conditions(spec.conditions, names, place)
    tables = [(f"launches.{text.entry}", text.repeat) for text in spec.launch_texts]
    tables += [(f"copies[{number}]", text.repeat) for number, text in enumerate(spec.copy_texts)]
    check_steps([*tables, *((f"scratch.{text.name}", text.repeat) for text in spec.scratch)], names, place)
    scratch = [tensor for text in spec.scratch for tensor in scratch_tensors(text, names, place)]
    tensors = outputs_with(spec.initial, problem.tensors(), place)
    plan = plan_of(spec.launch_texts, spec.copy_texts, names, (*tensors, *scratch), place)
    return replace(plan, graph=spec.graph)

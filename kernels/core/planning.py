"""A plan's launches and tensors, from the expressions of a kernel's front matter."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

import numpy as np

from kernels.core.dtypes import DTYPES
from kernels.core.expressions import evaluate, whole
from kernels.core.fields import show_value
from kernels.core.launch import (
    Condition,
    Copy,
    CopyText,
    Launch,
    LaunchText,
    Place,
    Plan,
    Repeat,
    ScratchText,
    TensorMap,
    Texture,
)
from kernels.core.tensors import Initial, Role, Tensor
from kernels.errors import FrontMatterError, ProblemError

MOST_STEPS = 4096  # launches, copies and scratch tensors of a plan. Our largest has 40
Made = TypeVar("Made")


@dataclass(frozen=True)
class Waits:
    """The earlier steps of a plan for which a copy waits. launches, copies: their numbers."""

    launches: tuple[int, ...] = ()
    copies: tuple[int, ...] = ()


def check_steps(tables: Iterable[tuple[str, Repeat]], names: Mapping[str, object], place: str) -> None:
    """Raises FrontMatterError if all tables together, each with its repeats, make too many steps.

    tables: (key, repeat) of each table. place: the file, for messages."""
    total = 0
    for key, repeat in tables:
        counts = [whole(count, names, f"{place}: {key}.repeat.{name}") for name, count in repeat]
        total += math.prod(max(1, count) for count in counts)  # a count of 0 must not hide a huge one
        if total > MOST_STEPS:
            raise FrontMatterError(
                f"{place}: the tables up to {key} make {total:,} steps. A plan has at most {MOST_STEPS:,}. "
                "Repeat less, or write fewer tables."
            )


def repeated(repeat: Repeat, when: str, names: Mapping[str, object], where: str) -> Iterator[dict[str, object]]:
    """The names of each repeat of a table: `names` and the counters. `when` leaves repeats out. See check_steps."""
    counts = [whole(count, names, f"{where}.repeat.{name}") for name, count in repeat]
    for values in product(*map(range, counts)):
        own = {**names, **{name: value for (name, _), value in zip(repeat, values)}}
        if not when or evaluate(when, own, f"{where}.when"):
            yield own


def named(text: str, names: Mapping[str, object], where: str) -> str:
    """A tensor's name, with the value of each expression in braces, such as k_{gpu}."""
    parts = text.replace("}", "{").split("{")  # text, expression, text, ..., text
    parts[1::2] = [show_value(evaluate(part, names, where)) for part in parts[1::2]]
    return "".join(parts)


def in_order(launches: Iterable[tuple[int, Made]], copies: Iterable[Copy]) -> tuple[tuple[Made, ...], tuple[Copy, ...]]:
    """The launches and copies of a plan, step by step. launches: (step, launch) pairs. A step's launches come first."""
    first = sorted(launches, key=lambda pair: pair[0])
    placed = [
        Copy(copy.source, copy.target, copy.step, max(1, sum(step <= copy.step for step, _ in first)))
        for copy in sorted(copies, key=lambda copy: copy.step)
    ]
    return tuple(launch for _, launch in first), tuple(placed)


def waits_of_launch(plan: Plan, number: int) -> tuple[int, ...]:
    """The copies for which a launch waits: the last one into each of its tensors, and all from its scratch and outputs.

    The launch may write its scratch and its outputs, so earlier copies must have read them."""
    own = {*plan.launches[number].tensors}
    written = {name for name in own if plan.tensor(name).role is not Role.INPUT}
    before = [(n, copy) for n, copy in enumerate(plan.copies) if copy.place <= number]
    into = {copy.target: n for n, copy in before if copy.target in own}
    return tuple(sorted({*into.values(), *(n for n, copy in before if copy.source in written)}))


def waits_of_copy(plan: Plan, number: int) -> Waits:
    """The launches and copies for which a copy waits. Launches only read the inputs and targets of copies. A copy waits
    for the writers of its source, and for the launches and copies that read its target."""
    copy, targets = plan.copies[number], {copy.target for copy in plan.copies}
    written = plan.tensor(copy.source).role is not Role.INPUT and copy.source not in targets
    used = {copy.target, copy.source} if written else {copy.target}
    launches = tuple(n for n in range(copy.place) if used & {*plan.launches[n].tensors})
    earlier = enumerate(plan.copies[:number])
    ends = {n for n, other in earlier if copy.source == other.target or copy.target in (other.source, other.target)}
    return Waits(launches, tuple(sorted(ends)))


SCALARS: dict[str, type[np.generic]] = {
    **{"int32": np.int32, "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64},
    **{"float32": np.float32, "float64": np.float64, "bool": np.bool_},
}
_BRACES = re.compile(r"\{([^{}]+)\}")


def check_conditions(conditions: tuple[Condition, ...], names: Mapping[str, object], place: str) -> None:
    for number, condition in enumerate(conditions):
        where = f"{place}: conditions[{number}]"
        if not evaluate(condition.must, names, f"{where}.must"):
            parts = _BRACES.split(condition.message)  # text, expression, text, expression, ..., text
            parts[1::2] = [show_value(evaluate(part, names, f"{where}.message")) for part in parts[1::2]]
            raise ProblemError("".join(parts))


def scratch_tensors(text: ScratchText, names: Mapping[str, object], place: str) -> list[Tensor]:
    """A scratch tensor in each of its repeats. names: the values of expressions. place: the file, for messages."""
    where = f"{place}: scratch.{text.name}"
    return [
        Tensor(
            named(text.name, own, where),
            tuple(whole(s, own, f"{where}.shape") for s in text.shape),
            str(names["dtype"]) if text.dtype == "dtype" else text.dtype,
            text.axes,
            Role.SCRATCH,
            Initial(text.initial),
            whole(text.device, own, f"{where}.device"),
        )
        for own in repeated(text.repeat, "", names, where)
    ]


def outputs_with(initial: tuple[tuple[str, str], ...], tensors: tuple[Tensor, ...], place: str) -> list[Tensor]:
    """The tensors of a problem, with the initial values of outputs. place: the file, for messages."""
    known, outputs = dict(initial), [tensor.name for tensor in tensors if tensor.role is Role.OUTPUT]
    if missing := next((name for name in known if name not in outputs), ""):
        raise FrontMatterError(f"{place}: initial names {missing}. The problem's outputs are {', '.join(outputs)}.")
    return [replace(t, initial=Initial(known[t.name])) if t.name in known else t for t in tensors]


def plan_of(
    launches: tuple[LaunchText, ...],
    copies: tuple[CopyText, ...],
    names: Mapping[str, object],
    tensors: tuple[Tensor, ...],
    place: str,
) -> Plan:
    """The launches and copies of a plan in order. Raises FrontMatterError for an unknown tensor or a wrong device."""
    known = {tensor.name: tensor for tensor in tensors}
    made, moved = [], []
    for text in launches:
        where = f"{place}: launches.{text.entry}"
        for own in repeated(text.repeat, text.when, names, where):
            launch = launch_of(text, own, {*known}, where)
            for name in launch.tensors:
                if known[name].device != launch.device:
                    raise FrontMatterError(
                        f"{where}: a launch on device {launch.device} takes {name}, which is on device "
                        f"{known[name].device}. Copy it there first ([[copies]])."
                    )
            _check_textures(launch, known, where)
            made.append((_step_of(text.repeat, own), launch))
    if not made:
        raise FrontMatterError(f"{place}: no launch is left. Loosen `when`, or repeat a launch at least once.")
    for number, copy in enumerate(copies):
        where = f"{place}: copies[{number}]"
        for own in repeated(copy.repeat, copy.when, names, where):
            ends = [_known(named(name, own, where), {*known}, where) for name in (copy.source, copy.target)]
            sizes = [known[name].nbytes for name in ends]
            if sizes[0] != sizes[1]:
                raise FrontMatterError(
                    f"{where}: {ends[0]} has {sizes[0]:,} bytes and {ends[1]} {sizes[1]:,}. Copy tensors of one size."
                )
            moved.append(Copy(ends[0], ends[1], _step_of(copy.repeat, own)))
    steps, placed = in_order(made, moved)
    return Plan(steps, tensors, copies=placed)


def _step_of(repeat: Repeat, names: Mapping[str, object]) -> int:
    """The value of the counter `step`, or 0 without it."""
    return whole("step", names, "repeat") if "step" in dict(repeat) else 0


def _check_textures(launch: Launch, known: Mapping[str, Tensor], where: str) -> None:
    """A GPU reads the tensor of a texture before the first launch. So no launch may write it."""
    for number, texture in enumerate(launch.args):
        if not isinstance(texture, Texture):
            continue
        tensor = known[texture.tensor]
        found = f"the role {tensor.role.value}, the type {tensor.dtype} and the shape {list(tensor.shape)}"
        due = "an input of int32 or float32" + (" with two axes" if texture.dimensions == 2 else "")
        typed = tensor.role is Role.INPUT and tensor.dtype in ("int32", "float32")
        if not typed or (texture.dimensions == 2 and len(tensor.shape) != 2):
            raise FrontMatterError(
                f"{where}.args[{number}]: the texture {tensor.name} has {found}. Name {due}, or pass a pointer."
            )


def launch_of(text: LaunchText, names: Mapping[str, object], tensors: set[str], where: str) -> Launch:
    """A launch. tensors: the known tensors. where: file and key, for messages. Raises FrontMatterError."""

    def three(sizes: tuple[str | int, ...], key: str) -> tuple[int, int, int]:
        made = [whole(s, names, f"{where}.{key}", least=1) for s in sizes]
        return tuple(made + [1] * (3 - len(made)))  # type: ignore[return-value]

    for name in text.fetch.tensors if text.fetch else ():
        _known(name, tensors, f"{where}.fetch")
    launch = Launch(
        text.entry,
        three(text.grid, "grid"),
        three(text.block, "block"),
        whole(text.shared_bytes, names, f"{where}.shared_bytes"),
        tuple(_argument(arg, names, tensors, f"{where}.args[{n}]") for n, arg in enumerate(text.args)),
        text.item,
        whole(text.blocks_per_item, names, f"{where}.blocks_per_item", least=1),
        three(text.cluster, "cluster") if text.cluster else None,
        text.cooperative,
        text.stream,
        text.after,
        text.dependent,
        text.fetch,
        whole(text.device, names, f"{where}.device"),
        _step_of(text.repeat, names),
        text.children,
        text.parent,
        whole(text.heads, names, f"{where}.heads"),
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


def _argument(arg: Any, names: Mapping[str, object], tensors: set[str], where: str) -> Any:
    if isinstance(arg, dict) and "map" in arg:
        box = arg["box"]
        sizes, axes = (box.values(), tuple(box)) if isinstance(box, dict) else (box, ())
        made = tuple(whole(s, names, where, 1) for s in sizes)
        tensor = named(arg["map"], names, where)
        return TensorMap(_known(tensor, tensors, where), made, int(arg.get("swizzle", 0)), axes)
    if isinstance(arg, dict) and "tensor" in arg:
        name = _known(arg["tensor"], tensors, where)
        return Place(name, whole(arg["offset"], names, f"{where}.offset"))
    if isinstance(arg, dict) and "null" in arg:
        return np.uint64(0)
    if isinstance(arg, dict) and "bytes" in arg:
        return np.frombuffer(bytes.fromhex(arg["bytes"]), f"V{len(arg['bytes']) // 2}")[0]
    if isinstance(arg, dict) and "texture" in arg:
        return Texture(_known(arg["texture"], tensors, where), int(arg.get("dimensions", 1)))
    if isinstance(arg, dict):
        values = list[np.ndarray]()  # of a struct by value, with members aligned as in C. A tuple becomes an array
        for part in arg["struct"]:
            kind, _, expression = part.partition(" ")
            values.append(np.atleast_1d(np.asarray(evaluate(expression, names, where), SCALARS[kind])))
        layout = np.dtype([(f"f{n}", v.dtype, v.shape) for n, v in enumerate(values)], align=True)
        struct = np.zeros(1, layout)
        for n, value in enumerate(values):
            struct[f"f{n}"] = value
        return struct.view(f"V{layout.itemsize}")[0]
    kind, _, expression = arg.partition(" ")
    if not expression:
        return _known(named(arg, names, where), tensors, where)
    return SCALARS[kind](evaluate(expression, names, where))


def _known(name: str, tensors: set[str], where: str) -> str:
    if name not in tensors:
        raise FrontMatterError(
            f"{where}: there is no tensor {name!r}. This problem and kernel have {', '.join(sorted(tensors))}."
        )
    return name


def scalar_kinds() -> str:
    return ", ".join(SCALARS)


def dtype_names() -> str:
    return ", ".join(DTYPES)

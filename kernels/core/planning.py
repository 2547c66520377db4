"""A plan's launches and tensors, from the expressions of a kernel's front matter."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.core.dtypes import DTYPES
from kernels.core.expressions import evaluate, whole
from kernels.core.fields import show_value
from kernels.core.launch import Condition, Fetch, Launch, LaunchText, ScratchText, TensorMap, Texture
from kernels.core.tensors import Initial, Role, Tensor
from kernels.errors import FrontMatterError, ProblemError

SCALARS: dict[str, type[np.generic]] = {
    **{"int32": np.int32, "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64},
    **{"float32": np.float32, "float64": np.float64, "bool": np.bool_},
}
_BRACES = re.compile(r"\{([^{}]+)\}")


def check_conditions(conditions: tuple[Condition, ...], names: Mapping[str, object], place: str) -> None:
    """Raises ProblemError with the message of the first failed condition."""
    for number, condition in enumerate(conditions):
        where = f"{place}: conditions[{number}]"
        if not evaluate(condition.must, names, f"{where}.must"):
            parts = _BRACES.split(condition.message)  # text, expression, text, expression, ..., text
            parts[1::2] = [show_value(evaluate(part, names, f"{where}.message")) for part in parts[1::2]]
            raise ProblemError("".join(parts))


def scratch_tensor(text: ScratchText, names: Mapping[str, object], place: str) -> Tensor:
    """A scratch tensor. names: the values that its shape may name. place: the file, for messages."""
    where = f"{place}: scratch.{text.name}.shape"
    return Tensor(
        text.name,
        tuple(whole(s, names, where) for s in text.shape),
        str(names["dtype"]) if text.dtype == "dtype" else text.dtype,
        text.axes,
        Role.SCRATCH,
        Initial(text.initial),
    )


def launch_of(text: LaunchText, names: Mapping[str, object], tensors: set[str], where: str) -> Launch:
    """A launch. tensors: the known tensors. where: file and key, for messages. Raises FrontMatterError."""

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
        text.cooperative,
        text.stream,
        text.after,
        text.dependent,
        _fetch(text, tensors, where),
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
        return TensorMap(_known(arg["map"], tensors, where), made, int(arg.get("swizzle", 0)), axes)
    if isinstance(arg, dict) and "texture" in arg:
        return Texture(_known(arg["texture"], tensors, where))
    if isinstance(arg, dict):
        return _struct(arg["struct"], names, where)
    kind, _, expression = arg.partition(" ")
    if not expression:
        return _known(arg, tensors, where)
    return SCALARS[kind](evaluate(expression, names, where))


def _fetch(text: LaunchText, tensors: set[str], where: str) -> Fetch | None:
    for name in text.fetch.tensors if text.fetch else ():
        _known(name, tensors, f"{where}.fetch")
    return text.fetch


def _known(name: str, tensors: set[str], where: str) -> str:
    if name not in tensors:
        raise FrontMatterError(
            f"{where}: there is no tensor {name!r}. This problem and kernel have {', '.join(sorted(tensors))}."
        )
    return name


def _struct(parts: list[str], names: Mapping[str, object], where: str) -> np.void:
    """A struct by value, with members aligned as in C. A tuple becomes an array."""
    values = list[np.ndarray]()
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

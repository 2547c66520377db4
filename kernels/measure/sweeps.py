"""The points of a bench: the product of swept fields, for every kernel and for torch's peers."""

import json
import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from kernels import catalog
from kernels.core.fields import check_value, fields_of, nearest
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.measure import peers
from kernels.measure.protocol import Point

MOST_POINTS = 400


@dataclass(frozen=True)
class Skipped:
    """A place of a sweep that is no problem, or no problem of this kernel.

    at: the swept fields -> their values, as text.
    reason: why not."""

    name: str
    title: str
    at: dict[str, Any]
    reason: str


def sweep_field(text: str) -> tuple[str, list[str]]:
    """(field, its values as text) of a --sweep such as seq_len=128,256. ProblemError if it is none."""
    name, equals, values = text.partition("=")
    listed = [value.strip() for value in values.split(",") if value.strip()]
    if not equals or not name.strip() or not listed:
        raise ProblemError(f"--sweep takes FIELD=VALUE,VALUE,... and not {text!r}.")
    return name.strip(), listed


def set_field(text: str) -> tuple[str, str]:
    """(field, its value as text) of a field with one value for every point, such as head_dim=64. A tuple's value has
    commas. ProblemError for any other text."""
    name, values = sweep_field(text)
    return name, ",".join(values)


def points(
    names: Iterable[str],
    sweeps: Iterable[tuple[str, Iterable[object]]] = (),
    chosen: Iterable[tuple[str, object]] = (),
    with_peers: bool = False,
    cold: bool = True,
    most: int = MOST_POINTS,
) -> list[Point | Skipped]:
    """The Points (and Skipped places) of a bench, problem by problem.

    names: kernels, or paths of .cu files.
    sweeps: pairs of field and values.
    chosen: pairs of field and value for all points.

    A field is one of the problem, one of its derived_fields such as width, or a compile-time constant. ProblemError
    for an unknown field, an impossible value, or more than `most` points."""
    kernels = {name: catalog.find(name) for name in names}
    axes = [(field, list(values)) for field, values in sweeps]
    if len({field for field, _ in axes}) < len(axes):
        raise ProblemError(f"Each field can be swept once, but the fields are {', '.join(field for field, _ in axes)}.")
    count = math.prod(len(values) for _, values in axes) * (len(kernels) + with_peers * len(peers.NAMES))
    if count > most:
        raise ProblemError(f"This sweep has {count:,} points. The limit is {most}. Give fewer values or fewer kernels.")
    held, found = dict(chosen), {}
    for values in product(*(values for _, values in axes)):
        place = dict(zip((field for field, _ in axes), values))
        for name, kernel in kernels.items():
            made = _point(name, kernel, {**held, **place}, set(place), cold)
            found[made if isinstance(made, Point) else (name, *place.items())] = made
            if with_peers and isinstance(made, Point) and made.problem.has_peers:
                found |= {p: p for p in (Point(peer, made.problem, (), cold) for peer in peers.asked_of(made.problem))}
    return by_problem(found.values())


def can_sweep(kernel: KernelSpec, sweeps: Iterable[tuple[str, Iterable[object]]]) -> bool:
    """Whether the kernel has every field of these sweeps, as a field of its problem or as a constant with those
    values."""
    kind, constants = kernel.problem_type, {c.name: c for c in kernel.constants}
    fields = {*fields_of(kind), *kind.derived_fields}
    return all(
        field in fields or (field in constants and set(values) <= set(constants[field].values))
        for field, values in sweeps
    )


def by_problem(made: Iterable[Point | Skipped]) -> list[Point | Skipped]:
    """The same points, with the points of one problem together. Inputs, float64 and torch's error then run once."""
    groups: dict[Hashable, list[Point | Skipped]] = {}
    for point in made:
        key = point.problem if isinstance(point, Point) else json.dumps(point.at)
        groups.setdefault(key, []).append(point)
    return [point for group in groups.values() for point in group]


def _point(name: str, kernel: KernelSpec, wanted: Mapping[str, object], swept: set[str], cold: bool) -> Point | Skipped:
    kind = kernel.problem_type
    known, constants = fields_of(kind), {c.name for c in kernel.constants}
    problem: dict[str, object] = {}
    settings: dict[str, object] = {}
    derived: dict[str, int] = {}
    for field, value in wanted.items():
        if field in kind.derived_fields:
            derived[field] = check_value(field, value, 0, {"low": 1, "high": 2**16})
        elif field in known:
            problem[field] = check_value(field, value, known[field].default, known[field].metadata)
        elif field in constants:
            settings[field] = value
        else:
            there = [*known, *(d for d in kind.derived_fields if d not in known), *(c.name for c in kernel.constants)]
            has = f"It has {', '.join(there)}.{nearest(field, there)}"
            raise ProblemError(f"{kernel.name} has no field or constant {field!r}. {has}")
    made = kind.bench_default().with_fields(**problem)
    for field, value in derived.items():
        try:
            changes = kind.derived_fields[field](made, value)
        except ProblemError as error:
            return Skipped(name, kind.title, {f: wanted[f] for f in swept}, str(error))
        made = made.with_fields(**changes)
    chosen = tuple(kernel.settings_for(made, settings).items())
    try:
        kernel.check_conditions(made, chosen)
    except ProblemError as error:
        return Skipped(name, kind.title, {f: wanted[f] for f in swept}, str(error))
    return Point(name, made, chosen, cold)

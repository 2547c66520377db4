"""The kernels whose errors the page can replay, and the earliest one of each type."""

from collections.abc import Iterable
from dataclasses import replace

from explainers.models import softmax_rows
from explainers.stories.precision import replay
from explainers.story import picture, probed
from kernels.core.fields import fields_of
from kernels.core.spec import KernelSpec

WANTS = softmax_rows.WANTS


def accepts(spec: KernelSpec) -> bool:
    """The kernels of Online softmax, because the page opens rows there, with scores of Q and K as given."""
    return not refusal(spec)


def refusal(spec: KernelSpec) -> str:
    """The reason against a kernel: that of Online softmax, or further numbers that change Q and K, such as angles."""
    if reason := softmax_rows.refusal(spec):
        return reason
    other = picture.other_input(probed.sample(spec))
    return f"{spec.name} also reads {other}. This page replays scores of Q and K as they are given." if other else ""


def first(specs: Iterable[KernelSpec]) -> KernelSpec:
    """The first kernel with rounded inputs, or else the last kernel."""
    given = list(specs)
    return next((s for s in given if picture.tensor_at(probed.sample(s), "Q").itemsize < 4), given[-1])


def of_each_type(specs: Iterable[KernelSpec]) -> dict[str, tuple[KernelSpec, dict[str, str]]]:
    """The type of a kernel's computation -> the earliest kernel of that type with most of WANTS, and the problem's
    field with the type, if it has one."""
    found: dict[str, tuple[int, KernelSpec, dict[str, str]]] = {}
    for spec in specs:
        dtype = fields_of(spec.problem_type).get("dtype")
        rank = len({site.event for site in probed.probes(spec)} & set(WANTS))
        for changes in [{"dtype": value} for value in dtype.metadata["allowed"]] if dtype else [{}]:
            label = replay.label_of(replace(probed.sample(spec), problem=spec.problem_type(**changes)))
            if label not in found or rank > found[label][0]:
                found[label] = (rank, spec, changes)
    return {label: (spec, changes) for label, (_, spec, changes) in found.items()}

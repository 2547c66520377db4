"""The probes of a kernel, and the kernels of a story.

A story looks at events, keys, axes and the tensors' declared parts, never at a name. It has accepts(spec) -> bool,
and WANTS: its events. They decide its default kernel.
"""

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Protocol

from kernels import catalog
from kernels.build.plain import watching
from kernels.build.plain.watching import LOOPS
from kernels.core import cases
from kernels.core.request import Request
from kernels.core.sources import without_comments
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError
from kernels.trace.automatic import START
from kernels.trace.probes import Sites, sites_of


@lru_cache(maxsize=256)
def sample(spec: KernelSpec) -> Request:
    """The kernel on its sample (core/cases.py). Its events, tensors and axes come from there."""
    shown = cases.sample(spec)
    return Request(spec, shown.problem, shown.settings)


def probes(spec: KernelSpec) -> Sites:
    """The kernel's probes, as built for `sample`."""
    return sites_of(sample(spec))


def values(spec: KernelSpec) -> dict[str, tuple[str, ...]]:
    """event -> keys, of every value logged by the kernel. Faulty marks of a plain kernel log none."""
    if spec.plain:
        try:
            return {mark.event: mark.keys for mark in watching.marks(spec) if mark.event not in LOOPS}
        except BuildError:
            return {}
    return {site.event: site.keys for site in probes(spec) if site.kind == "value"}


def marks(spec: KernelSpec) -> tuple[str, ...]:
    """The events of the kernel's marks, in the order of the source, each once. Every plain kernel marks its start."""
    own = [site.event for site in probes(spec) if site.kind == "mark"]
    return tuple(dict.fromkeys([START, *own] if spec.plain else own))


def logs(spec: KernelSpec, wanted: dict[str, tuple[str, ...]]) -> bool:
    """Whether the kernel logs each of these events with at least these keys."""
    return not without_events(spec, wanted)


def without_events(spec: KernelSpec, wanted: dict[str, tuple[str, ...]]) -> str:
    """The events without a probe with at least these keys, in a sentence, or an empty text."""
    found = values(spec)
    lacking = [e for e, keys in wanted.items() if e not in found or not set(keys) <= set(found[e])]
    probes_ = ", ".join(f"{event}({', '.join(wanted[event])})" for event in lacking)
    remedy = "Mark a line for each in its table [watch]" if spec.plain else "Add a PROBE_VALUE for each"
    return f"{spec.name} does not log {probes_}. {remedy}." if lacking else ""


def has_masks(spec: KernelSpec) -> bool:
    """Whether the kernel's problem has a mask apart from the causal one, for example lists of blocks."""
    return spec.problem_type.masked


def accesses(spec: KernelSpec, space: str) -> bool:
    """Whether the kernel has a probe of an access in that space, shared or global. A plain kernel logs every access."""
    if spec.plain:
        return space == "global" or any("__shared__" in without_comments(text) for _, text in spec.files)
    return any(site.space == space for site in probes(spec))


class Accepting(Hashable, Protocol):
    """A story, as far as it chooses kernels."""

    def accepts(self, spec: KernelSpec, /) -> bool: ...


class Wanting(Accepting, Protocol):
    """A story with a default kernel.

    WANTS: its events.
    """

    @property
    def WANTS(self) -> tuple[str, ...]: ...  # noqa: N802 - a constant of each story


@lru_cache(maxsize=1024)
def _accepts(story: Accepting, spec: KernelSpec) -> bool:
    return story.accepts(spec)


def accepting(story: Accepting, kernels: Mapping[str, KernelSpec] | None = None) -> dict[str, KernelSpec]:
    """name -> KernelSpec of the kernels of a story, in the order of `kernels`; of the current catalogue by default."""
    listed = catalog.current().kernels if kernels is None else kernels
    return {name: spec for name, spec in listed.items() if _accepts(story, spec)}


def first(story: Wanting, kernels: Mapping[str, KernelSpec] | None = None) -> KernelSpec:
    """The default kernel of a story: the earliest one with most of its events. ValueError if the story accepts no
    kernel."""

    def wanted_events(spec: KernelSpec) -> int:
        return len({site.event for site in probes(spec)} & set(story.WANTS))

    return max(accepting(story, kernels).values(), key=wanted_events)

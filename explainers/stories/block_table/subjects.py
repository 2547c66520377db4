"""The subjects of the paging page: a frozen value for each view."""

from dataclasses import dataclass

from kernels.core.request import Request
from kernels.kv_cache.layout import Layout
from kernels.kv_cache.scenarios import Scenario


@dataclass(frozen=True)
class Cache:
    """The cache, event by event.

    moment: the event of the shown writes.
    layout: of the cache; None if no kernel can run on it.
    shape: the fields of the writing problem.
    """

    scenario: Scenario
    block_size: int
    moment: int
    layout: Layout | None
    shape: tuple[tuple[str, object], ...]
    backend: str


@dataclass(frozen=True)
class Walk:
    """The walk of a query head.

    plain: the walk over pages as allocated, if the others are shuffled.
    names: of the cache's sequences.
    name, colour: of the walked sequence.
    seed: of the shuffle.
    scenario, moment: the history of the cache, and its events so far.
    """

    request: Request
    plain: Request | None
    names: tuple[str, ...]
    name: str
    colour: str
    seed: int
    scenario: Scenario
    moment: int


@dataclass(frozen=True)
class Partitions:
    """A kernel for whole contexts, and one for partitions.

    name: of the sequence.
    """

    whole: Request
    cut: Request
    name: str


@dataclass(frozen=True)
class Heads:
    """The whole cache at several ratios of query heads to KV heads, with the chosen ratio."""

    requests: tuple[Request, ...]


@dataclass(frozen=True)
class Serving:
    """The cache of a server, step by step.

    layout: None if no kernel can run on the cache.
    backend: of the model that answers the requests, or "" without a model.
    """

    scenario: Scenario
    block_size: int
    layout: Layout | None
    backend: str = ""


@dataclass(frozen=True)
class Ranges:
    """The whole cache by a kernel with a work list.

    names, colours: of the cache's sequences.
    place: the followed sequence and query head.
    """

    request: Request
    names: tuple[str, ...]
    colours: tuple[str, ...]
    place: tuple[int, int]


Run = Walk | Partitions | Heads | Ranges
Subject = Cache | Serving | Run

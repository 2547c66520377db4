"""A story: its choices, its subject, and the functions for its stage and its tabs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import UnionType
from typing import Any

from app.choices.estimates import Launched
from app.choices.page import Page, State
from explainers.story.stage import Block, Stage
from kernels.catalog import Catalog
from kernels.errors import ProblemError

Tab = Callable[[Any], list[Block]]


@dataclass(frozen=True, eq=False)
class Story:
    """A page of the app. Each module of app/stories with a STORY is found by its folder.

    path: the last part of its address, and the name of its module in app/stories.
    title: in the rail.
    look: what to look for, in two sentences.
    order: its place among the pages.
    page: the catalogue -> its choices. It runs once for each of the last catalogues.
    subject: (page, state, backend) -> the value to show: frozen, picklable, of Requests and plain numbers. It runs in
        the web process and computes nothing. Raises ProblemError.
    make: subject -> Stage. Runs in a worker.
    parts: tab -> function of the subject, for tabs that are made when they are opened. Runs in a worker.
    pictures: the ids of pictures by which an address may ask for this page.
    launches: tab -> function of the subject: the launches of a tab ("" for the stage) apart from one run of each
        Request in the subject. Launches with a fixed limit are left out.
    instead: the subject -> what the recordings say of it without a run, in sentences, if it is too large for one.
    made_on: the workers that make it, if not those of the chosen backend: "cpu" for a story that runs no kernel.
    needs_kernels: whether the rail leaves it out while its page has no kernels.
    listed: whether the app shows it; not true of the skeleton."""

    path: str
    title: str
    look: str
    order: int
    page: Callable[[Catalog], Page]
    subject: Callable[[Page, State, str], Any]
    make: Callable[[Any], Stage]
    parts: Mapping[str, Tab] = field(default_factory=dict)
    pictures: tuple[str, ...] = ()
    launches: Mapping[str, Callable[[Any], Sequence[Launched]]] = field(default_factory=dict)
    instead: Callable[[Any], str] = lambda subject: ""
    made_on: str = ""
    needs_kernels: bool = False
    listed: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "page", lru_cache(maxsize=2)(self.page))


def tab_of(kind: type | UnionType, make: Tab, has: Callable[[Any], object] = bool) -> Tab:
    """A tab for subjects of one kind for which `has` is true. Links can ask for it elsewhere: ProblemError then."""

    def tab(subject: Any) -> list[Block]:
        if not isinstance(subject, kind) or not has(subject):
            raise ProblemError("This picture has no such tab. Choose another tab, or a kernel that has it.")
        return make(subject)

    return tab

"""What a story is: what it asks, what it then shows, and who makes that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.choices.asked import Asked, State
from explainers.story.stage import Block, Stage
from kernels.errors import ProblemError

Narrowed = Mapping[str, Mapping[str, Any]]


def _nothing(asked: Asked, state: State) -> Narrowed:
    return {}


@dataclass(frozen=True, eq=False)
class Story:
    """A stop of the course, or a page beside it.

    path: of its address, and the name of its module in app/stories. title: in the rail. look: what to look for, in two
    sentences. asked: its choices.
    what(state, backend): what is to be shown, as a frozen, picklable value of Requests and plain numbers; ProblemError
    says why it cannot be. It runs in the web process: it computes nothing.
    make(what) -> Stage, and parts[tab](what) -> the blocks of a tab that is made when it is opened: run in a worker.
    launches[part](what): what a tab ("" for the stage) launches beside one run of each Request in `what`: that of other
    kernels, and traffic (estimates.py). What is bounded whatever is chosen need not stand here.
    narrowed(asked, state): choice -> what of its description is not as the Choice says: label, options, low, high,
    disabled (the reason why), group, hidden.
    changed(asked, state, name): puts right, in place, what a new value of `name` makes meaningless.
    made_on: the workers that make it, where they are not the chosen backend's: "cpu" for what runs no kernel.
    """

    path: str
    title: str
    look: str
    asked: Asked
    what: Callable[[State, str], Any]
    make: Callable[[Any], Stage]
    parts: Mapping[str, Callable[[Any], list[Block]]] = field(default_factory=dict)
    launches: Mapping[str, Callable[[Any], list[Any]]] = field(default_factory=dict)
    narrowed: Callable[[Asked, State], Narrowed] = _nothing
    changed: Callable[[Asked, State, str], None] = lambda asked, state, name: None
    made_on: str = ""


def tab_of(kind: Any, make: Callable[[Any], list[Block]], has: Callable[[Any], Any] = bool) -> Callable:
    """A tab that a story has only where it shows that kind of `what`, and has(what): a link may ask for it elsewhere.
    ProblemError there."""

    def made(what: Any) -> list[Block]:
        if not isinstance(what, kind) or not has(what):
            raise ProblemError("What is shown here has no such tab. Choose another tab, or what this one is of.")
        return make(what)

    return made

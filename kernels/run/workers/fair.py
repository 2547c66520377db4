"""A queue that is fair between clients: each client's oldest task goes before any client's second, and so on. Who had a
turn while others were not there owes them nothing."""

import itertools
from collections.abc import Callable
from typing import Any

KEPT = 1000  # clients whose turn is remembered
Place = tuple[int, int]  # of a task in the order: its round, and its number among all that ever came


class Fair:
    """Not locked: its pool does that. A task may wait for several clients; it goes at the best of its places."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Any]] = {}  # client -> its tasks, the oldest first
        self._turn: dict[str, int] = {}  # client -> the round of its next task
        self._round = 0  # of the task that went last
        self._numbers: dict[Any, int] = {}
        self._count = itertools.count()

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, task: Any) -> bool:
        return task in self._numbers

    def __iter__(self) -> Any:
        return iter(list(self._numbers))

    def add(self, task: Any, client: str, first: bool = False) -> None:
        """first: it was taken and comes back, as its worker was gone: it goes before all others."""
        own = self._waiting.setdefault(client, [])
        if task not in own:
            own.insert(0 if first else len(own), task)
            number = next(self._count)
            self._numbers.setdefault(task, -number if first else number)
        if first:
            self._turn[client] = self._round

    def leave(self, task: Any, client: str) -> None:
        """That client does not wait for it any more."""
        own = self._waiting.get(client, [])
        if task in own:
            own.remove(task)
        if not own:
            self._waiting.pop(client, None)
        if not any(task in tasks for tasks in self._waiting.values()):
            self._numbers.pop(task, None)

    def remove(self, task: Any) -> None:
        for client in list(self._waiting):
            self.leave(task, client)

    def take(self, takes: Callable[[Any], bool]) -> Any | None:
        """The first task in the order that `takes` accepts, which waits no more; None where there is none."""
        found = [
            (self._place(client, n, task), client, task)
            for client, tasks in self._waiting.items()
            for n, task in itertools.islice(((n, t) for n, t in enumerate(tasks) if takes(t)), 1)
        ]
        if not found:
            return None
        (number, _), client, task = min(found, key=lambda one: one[0])
        self._round, self._turn[client] = max(self._round, number), number + 1
        self.remove(task)
        ahead = {c: turn for c, turn in self._turn.items() if turn > self._round}
        self._turn = dict(list(ahead.items())[-KEPT:])
        return task

    def before(self, task: Any) -> int:
        """How many tasks go before that one; 0 where it does not wait."""
        places: dict[Any, Place] = {}
        for client, tasks in self._waiting.items():
            for n, one in enumerate(tasks):
                place = self._place(client, n, one)
                places[one] = min(place, places.get(one, place))
        return sum(place < places[task] for place in places.values()) if task in places else 0

    def _place(self, client: str, n: int, task: Any) -> Place:
        return max(self._round, self._turn.get(client, 0)) + n, self._numbers[task]

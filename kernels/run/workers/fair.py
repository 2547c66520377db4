"""A queue that is fair between groups of clients, and within a group between its clients.

Each group's first task goes before any group's second, and so on. In a group each client's oldest task goes before any
client's second. A turn that a client had while no other waited costs it nothing.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

KEPT = 1000  # groups, and clients of each, whose turn is remembered
Place = tuple[int, int]  # of a task in the order: its round, and its number among all that ever came


def group_of(client: str) -> str:
    """The group of a client: the word before the first space of its name, as in ADDRESS BROWSER."""
    return client.partition(" ")[0]


class _Turns:
    """Rounds of takers, which are groups or clients."""

    def __init__(self) -> None:
        self.now = 0  # the round of the task that went last
        self._next: dict[str, int] = {}  # taker -> the round of its next task

    def __iter__(self) -> Iterator[str]:
        return iter(self._next)

    def round(self, taker: str, n: int) -> int:
        """The round of a taker's task that n others of its own go before."""
        return max(self.now, self._next.get(taker, 0)) + n

    def took(self, taker: str, number: int) -> None:
        self.now, self._next[taker] = max(self.now, number), number + 1
        ahead = {one: turn for one, turn in self._next.items() if turn > self.now}
        self._next = dict(list(ahead.items())[-KEPT:])

    def back(self, taker: str) -> None:
        self._next[taker] = self.now


class Fair:
    """Not locked: its pool does that. A task may wait for several clients; it goes at the best of its places."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Any]] = {}  # client -> its tasks, the oldest first
        self._groups = _Turns()
        self._clients: dict[str, _Turns] = {}  # group -> the turns of its clients
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
            self._groups.back(group_of(client))
            self._turns(group_of(client)).back(client)

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
        """The first task in the order that `takes` accepts, which waits no more; None where none does."""
        found = [one for one in self._order() if takes(one[-1])]
        if not found:
            return None
        (number, _), (own, _), client, task = min(found, key=lambda one: one[0])
        group = group_of(client)
        self._groups.took(group, number)
        self._turns(group).took(client, own)
        self.remove(task)
        waiting = set(map(group_of, self._waiting))
        self._clients = {name: turns for name, turns in self._clients.items() if name in waiting | {*self._groups}}
        return task

    def before(self, task: Any) -> int:
        """How many tasks go before that one; 0 where it does not wait."""
        places: dict[Any, Place] = {}
        for place, _, _, one in self._order():
            places[one] = min(place, places.get(one, place))
        return sum(place < places[task] for place in places.values()) if task in places else 0

    def _order(self) -> list[tuple[Place, Place, str, Any]]:
        """(place, place in its group, client, task) of each task, once for each client that waits for it."""
        groups: dict[str, list[tuple[Place, str, Any]]] = {}
        for client, tasks in self._waiting.items():
            group = group_of(client)
            turns = self._turns(group)
            places = [((turns.round(client, n), self._numbers[task]), client, task) for n, task in enumerate(tasks)]
            groups.setdefault(group, []).extend(places)
        return [
            ((self._groups.round(group, n), self._numbers[task]), own, client, task)
            for group, places in groups.items()
            for n, (own, client, task) in enumerate(sorted(places, key=lambda one: one[0]))
        ]

    def _turns(self, group: str) -> _Turns:
        return self._clients.setdefault(group, _Turns())

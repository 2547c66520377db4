"""A queue that is fair between groups of clients, and between the clients of a group.

A group's first task goes before each group's second task. The same rule holds between the clients of a group. A client
owes nothing for a turn without rivals.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

KEPT = 1000  # groups, and clients of each group, with a remembered turn
T = TypeVar("T")
Key = tuple[int, int]  # a task's round, and its number among all tasks
Entry = tuple[Key, Key, str, T]  # key between groups, key in its group, client, task


def group_of(client: str) -> str:
    """The client's group: the first word of its name, as in ADDRESS BROWSER."""
    return client.partition(" ")[0]


class _Turns:
    """The rounds of takers, which are groups or clients."""

    def __init__(self) -> None:
        self.now = 0  # the round of the last task
        self.next: dict[str, int] = {}  # taker -> the round of its next task, if it is ahead of now

    def round(self, taker: str, tasks_before: int) -> int:
        """The round of a taker's task after `tasks_before` of its own tasks."""
        return max(self.now, self.next.get(taker, 0)) + tasks_before

    def take(self, taker: str, number: int) -> None:
        self.now, self.next[taker] = max(self.now, number), number + 1
        ahead = [(one, turn) for one, turn in self.next.items() if turn > self.now]
        self.next = dict(ahead[-KEPT:])

    def give_back(self, taker: str) -> None:
        self.next[taker] = self.now


class Fair(Generic[T]):
    """Tasks and their clients. A task with several clients goes at its best place. Its owner locks it."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[T]] = {}  # client -> its tasks, the oldest first
        self._numbers: dict[T, int] = {}
        self._count = itertools.count()
        self._groups = _Turns()
        self._clients: dict[str, _Turns] = {}  # group -> the turns of its clients

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, task: object) -> bool:
        return task in self._numbers

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._numbers))

    def add(self, task: T, client: str, first: bool = False) -> None:
        """Adds a client's task. first: it lost its worker and goes before all others."""
        own = self._waiting.setdefault(client, [])
        if task not in own:
            own.insert(0 if first else len(own), task)
            number = next(self._count)
            self._numbers.setdefault(task, -number if first else number)
        if first:
            self._groups.give_back(group_of(client))
            self._turns(group_of(client)).give_back(client)

    def leave(self, task: T, client: str) -> None:
        """Removes a client from a task, and the task with its last client."""
        own = self._waiting.get(client, [])
        if task in own:
            own.remove(task)
        if not own:
            self._waiting.pop(client, None)
        if not any(task in tasks for tasks in self._waiting.values()):
            self._numbers.pop(task, None)

    def remove(self, task: T) -> None:
        for client in list(self._waiting):
            self.leave(task, client)

    def pairs(self) -> list[tuple[str, T]]:
        """Each client with each of its tasks."""
        return [(client, task) for client, tasks in self._waiting.items() for task in tasks]

    def take(self, accepts: Callable[[str, T], bool]) -> tuple[str, T] | None:
        """Removes and returns the first accepted client and task, or None."""
        accepted = [entry for entry in self._entries() if accepts(*entry[2:])]
        if not accepted:
            return None
        (round_, _), (round_in_group, _), client, task = min(accepted, key=lambda entry: entry[0])
        self._groups.take(group_of(client), round_)
        self._turns(group_of(client)).take(client, round_in_group)
        self.remove(task)
        remembered = {*map(group_of, self._waiting), *self._groups.next}
        self._clients = {group: turns for group, turns in self._clients.items() if group in remembered}
        return client, task

    def before(self, task: T, counts: Callable[[T], bool] = lambda task: True) -> int:
        """The number of counted tasks before this one, or 0 if it does not wait."""
        best: dict[T, Key] = {}
        for key, _, _, one in self._entries():
            best[one] = min(key, best.get(one, key))
        return sum(key < best[task] and counts(one) for one, key in best.items()) if task in best else 0

    def _entries(self) -> list[Entry[T]]:
        groups: dict[str, list[tuple[Key, str, T]]] = {}
        for client, tasks in self._waiting.items():
            turns = self._turns(group_of(client))
            own = [((turns.round(client, n), self._numbers[task]), client, task) for n, task in enumerate(tasks)]
            groups.setdefault(group_of(client), []).extend(own)
        return [
            ((self._groups.round(group, n), self._numbers[task]), key, client, task)
            for group, entries in groups.items()
            for n, (key, client, task) in enumerate(sorted(entries, key=lambda entry: entry[0]))
        ]

    def _turns(self, group: str) -> _Turns:
        return self._clients.setdefault(group, _Turns())

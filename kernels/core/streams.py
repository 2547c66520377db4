"""The order of launches as data: streams, waits for events, copies from host memory and dependent launches.

The front matter lists launches in the order of the host's calls. Each run in this order is valid.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kernels.core.launch import Fetch, Launch, Plan
from kernels.errors import FrontMatterError

ORDER_KEYS = ("stream", "after", "dependent", "fetch", "children")
STREAMS = 8  # 0 to 7
FETCH_KEYS = ("tensors", "part", "parts", "stream", "memory")
MEMORIES = ("pinned", "pageable")


@dataclass(frozen=True)
class Step:
    """A launch or a copy of a plan.

    number: of the launch. A copy has the number of its launch.
    tensor: of a copy, else "".
    waits: the numbers of launches on other streams before it, in order. A copy waits for none."""

    number: int
    tensor: str
    stream: int
    waits: tuple[int, ...] = ()


def steps(plan: Plan) -> Iterator[Step]:
    """The launches and copies of a plan in the order of the host's calls. Children follow their parent."""
    for number, launch in enumerate(plan.launches):
        if launch.fetch:
            for tensor in launch.fetch.tensors:
                yield Step(number, tensor, launch.fetch.stream)
        # the last launch of each other stream among the launches that `after` names
        last = {one.stream: n for n, one in enumerate(plan.launches[:number]) if one.entry in launch.after}
        yield Step(number, "", launch.stream, tuple(sorted(n for on, n in last.items() if on != launch.stream)))


def copied_bytes(plan: Plan, step: Step) -> range:
    """The bytes of its tensor that a copy moves: whole rows of the first axis. A launch copies none."""
    fetch = plan.launches[step.number].fetch
    if not step.tensor or not fetch:
        return range(0)
    tensor = plan.tensor(step.tensor)
    rows = tensor.shape[0]
    first, last = (rows * n // fetch.parts for n in (fetch.part, fetch.part + 1))
    row = tensor.nbytes // rows
    return range(first * row, last * row)


def last_order(launches: Sequence[Launch]) -> list[int]:
    """The numbers of the launches in the valid order that starts each launch of a higher number first. A launch on
    another stream without a wait comes before the launches that it needs."""
    left, found = set(range(len(launches))), list[int]()
    needs = [
        {n for n, one in enumerate(launches[:number]) if one.stream == own.stream or one.entry in own.after}
        for number, own in enumerate(launches)
    ]
    while left:
        found.append(max(number for number in left if not needs[number] & left))
        left.remove(found[-1])
    return found


def order_of(entry: dict[str, Any]) -> dict[str, Any]:
    """The fields of a LaunchText for the ORDER_KEYS of a table in the front matter."""
    found = {key: entry[key] for key in ORDER_KEYS if key in entry}
    for key in {"after", "children"} & {*found}:
        found[key] = tuple(found[key])
    if "fetch" in found:
        found["fetch"] = Fetch(**{**found["fetch"], "tensors": tuple(found["fetch"]["tensors"])})
    return found


def check_order(file: str, entries: Sequence[dict[str, Any]]) -> None:
    """Raises FrontMatterError for an unknown stream, a wait for no earlier launch, or a dependent launch without a
    launch before it."""
    names = [entry["entry"] for entry in entries]
    for number, entry in enumerate(entries):
        where, stream, after = f"launches[{number}]", entry.get("stream", 0), entry.get("after", [])
        _check_stream(file, f"{where}.stream", stream)
        if not isinstance(after, list) or not all(isinstance(name, str) for name in after):
            raise FrontMatterError(f"{file}: {where}.after is {after!r}. It must be a list of entries in quotes.")
        for name in after:
            _check_after(file, f"{where}.after", name, names, number)
        if "fetch" in entry:
            _check_fetch(file, f"{where}.fetch", entry["fetch"])
        dependent = entry.get("dependent", False)
        if dependent and stream not in [one.get("stream", 0) for one in entries[:number]]:
            raise FrontMatterError(
                f"{file}: {where}.dependent is true, and stream {stream} has no earlier launch. Give it the stream of "
                "the launch before it."
            )
        if dependent and (after or "fetch" in entry):
            raise FrontMatterError(
                f"{file}: {where} is dependent and has {'after' if after else 'fetch'}. A dependent launch waits only "
                "for the launch before it. Remove one of them."
            )


def _check_stream(file: str, where: str, stream: object) -> None:
    if not isinstance(stream, int) or isinstance(stream, bool) or not 0 <= stream < STREAMS:
        raise FrontMatterError(f"{file}: {where} is {stream!r}. It must be a whole number from 0 to {STREAMS - 1}.")


def _check_after(file: str, where: str, name: str, names: list[str], number: int) -> None:
    if name not in names:
        raise FrontMatterError(
            f"{file}: {where} names {name!r}, and no launch has this entry. It must be one of {', '.join(names)}."
        )
    if name not in names[:number]:
        later = "itself" if name == names[number] else f"{name}, a later launch"
        raise FrontMatterError(
            f"{file}: {where} makes a circle: {names[number]} would wait for {later}. Name earlier launches, or change "
            "the order of [[launches]]."
        )


def _check_fetch(file: str, where: str, said: object) -> None:
    if not isinstance(said, dict) or not {"tensors"} <= {*said} <= {*FETCH_KEYS}:
        raise FrontMatterError(f"{file}: {where} is {said!r}. It must be a table of {', '.join(FETCH_KEYS)}.")
    tensors, memory = said["tensors"], said.get("memory", MEMORIES[0])
    if not isinstance(tensors, list) or not tensors or not all(isinstance(name, str) for name in tensors):
        raise FrontMatterError(f"{file}: {where}.tensors is {tensors!r}. It must be a list of tensors in quotes.")
    if memory not in MEMORIES:
        raise FrontMatterError(f"{file}: {where}.memory is {memory!r}. It must be {' or '.join(MEMORIES)}.")
    _check_stream(file, f"{where}.stream", said.get("stream", 0))
    part, parts = said.get("part", 0), said.get("parts", 1)
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (part, parts))
    if not whole or not 0 <= part < parts:
        raise FrontMatterError(f"{file}: {where} has part {part!r} of {parts!r}. A part is from 0 to parts - 1.")

"""What a whole page takes, estimated before anything of it is launched: the runs of its stage, or those of a tab with
the traffic of every kernel that it sets side by side. On the CPU alone: a GPU needs too few seconds to matter."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kernels.core.request import Request
from kernels.run import execute, workers

SHARE = 0.5  # of the time limit that may be estimated: what is launched has as long again to be drawn


@dataclass(frozen=True)
class Launched:
    """A request, and how often it is launched at most: a run twice, where its first guess at the trace's size is short;
    its traffic four times, as it is launched over the scope first and then over everything."""

    request: Request
    times: int

    @property
    def seconds(self) -> float:
        """On the CPU; 0 elsewhere."""
        problem = self.request.problem
        if self.request.backend != "cpu":
            return 0.0
        return self.times * problem.cpu_steps * execute.CPU_SECONDS_PER_STEP


def run(requests: Iterable[Request]) -> list[Launched]:
    return [Launched(request, 2) for request in requests]


def traffic(requests: Iterable[Request]) -> list[Launched]:
    return [Launched(request, 4) for request in requests]


def requests_in(what: Any) -> list[Request]:
    """The Requests that a value is made of, each once."""
    return list(dict.fromkeys(_requests_in(what)))


def _requests_in(what: Any) -> list[Request]:
    if isinstance(what, Request):
        return [what]
    if isinstance(what, (tuple, list)):
        return [request for part in what for request in _requests_in(part)]
    names = getattr(what, "__dataclass_fields__", {})
    return [request for name in names for request in _requests_in(getattr(what, name))]


def fits(launched: Iterable[Launched]) -> bool:
    """Whether it takes no longer than a stage, or a tab, may."""
    return sum(each.seconds for each in launched) <= SHARE * workers.TIME_LIMIT

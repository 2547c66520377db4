"""Estimates the time of a stage or a tab before its first launch, from its runs and their traffic. Only for the CPU: a
GPU needs too few seconds."""

from collections.abc import Iterable
from dataclasses import dataclass

from kernels.core.request import Request
from kernels.run import execute, workers

SHARE = 0.5  # of the time limit. The other half is for drawing


@dataclass(frozen=True)
class Launched:
    """A request and the most launches of it. A run needs two if its first guess of the trace's size is too small.
    Traffic needs four, because it is launched over the scope first and then over everything."""

    request: Request
    times: int

    @property
    def seconds(self) -> float:
        """Seconds on the CPU. Other backends count as 0."""
        problem = self.request.problem
        if self.request.backend != "cpu":
            return 0.0
        return self.times * problem.cpu_steps * execute.CPU_SECONDS_PER_STEP


def run(requests: Iterable[Request]) -> list[Launched]:
    return [Launched(request, 2) for request in requests]


def traffic(requests: Iterable[Request]) -> list[Launched]:
    return [Launched(request, 4) for request in requests]


def requests_in(value: object) -> list[Request]:
    if isinstance(value, Request):
        return [value]
    fields = getattr(value, "__dataclass_fields__", ())
    parts = value if isinstance(value, (tuple, list)) else [getattr(value, name) for name in fields]
    return list(dict.fromkeys(request for part in parts for request in requests_in(part)))


def fits(launched: Iterable[Launched]) -> bool:
    """Whether it takes no longer than a stage, or a tab, may."""
    return sum(each.seconds for each in launched) <= SHARE * workers.TIME_LIMIT

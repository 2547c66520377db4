"""Measuring in the GPU's worker process."""

from collections.abc import Callable
from typing import TypeVar

from kernels.run import workers

Result = TypeVar("Result")
TIME_LIMIT = 600.0  # seconds for one case


def in_worker(title: str, function: Callable[..., Result], *arguments: object, limit: float = TIME_LIMIT) -> Result:
    """The result of a function in the GPU's worker. title: of the job."""
    return workers.submit(function, *arguments, backend="gpu", title=title, time_limit=limit).result()

"""A submitted task, seen by its submitter."""

import concurrent.futures
import time
from collections.abc import Callable
from typing import Any, Protocol

from kernels.errors import RunCancelled


class Queue(Protocol):
    """The part of a pool that its jobs call."""

    def ahead(self, job: "Job") -> int:
        """The number of waiting jobs before this one."""

    def held(self, job: "Job", client: str) -> str:
        """The reason why a waiting job may not start for this client now, or ""."""

    def join(self, job: "Job", client: str) -> None:
        """Adds a client to a waiting job."""

    def leave(self, job: "Job", client: str) -> None:
        """Removes a client from a waiting job."""

    def stop_job(self, job: "Job") -> None:
        """Stops a job."""


class Job(concurrent.futures.Future[Any]):
    """function(*args) in a worker, and its result.

    title: its name in messages.
    time_limit: seconds from its start.
    client: its submitter, and from its start the client with the turn.
    gpu: the id of its GPU, or "" for any GPU.
    long: whether it takes many seconds, as estimated or as seen.
    began: the time of its start (time.monotonic), or None before.
    handed: the number of workers that received it.
    evicted: whether it lost its worker to short jobs.
    stopped: whether a client has stopped it.
    """

    def __init__(
        self,
        title: str,
        time_limit: float,
        function: Callable[..., object] = lambda: None,
        args: tuple[object, ...] = (),
        client: str = "",
        gpu: str = "",
        queue: Queue | None = None,
        long: bool = False,
    ):
        super().__init__()
        self.title, self.time_limit, self.client, self.gpu = title, time_limit, client, gpu
        self.function, self.args, self.long = function, args, long
        self.began: float | None = None
        self.handed = 0
        self.evicted = self.stopped = False
        self._queue = queue

    def seconds(self) -> float | None:
        """Seconds since its start, or None while it waits."""
        return None if self.began is None else time.monotonic() - self.began

    def ahead(self) -> int:
        """The number of waiting jobs before it."""
        return self._queue.ahead(self) if self._queue else 0

    def held(self, client: str) -> str:
        """The reason why it may not start for this client now, or ""."""
        return self._queue.held(self, client) if self._queue else ""

    def join(self, client: str) -> None:
        """Adds a client. The job takes the better of the two places."""
        if self._queue:
            self._queue.join(self, client)

    def leave(self, client: str) -> None:
        """Removes a client. The job still runs, unless it is cancelled."""
        if self._queue:
            self._queue.leave(self, client)

    def when_done(self, call: Callable[[], object]) -> None:
        """Calls `call`, from any thread, after the job's end."""
        self.add_done_callback(lambda _: call())

    def cancel(self) -> bool:
        """Stops the job, waiting or running. Its result is RunCancelled."""
        if self._queue:
            self._queue.stop_job(self)
        elif not self.done():
            self.set_exception(cancelled(self))
        return True


def cancelled(job: Job) -> RunCancelled:
    """The error of a stopped job."""
    return RunCancelled(f"{job.title} was stopped.")

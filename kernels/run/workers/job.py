"""A submitted task, as who submitted it sees it."""

import concurrent.futures
import math
import os
import time
from collections.abc import Callable
from typing import Any, Protocol

from kernels.errors import RunCancelled


def asked_limit(default: float) -> tuple[float, str]:
    """WARPGLASS_TIME_LIMIT in seconds, or the default if it is unset; and what is wrong with it, in a sentence."""
    text = os.environ.get("WARPGLASS_TIME_LIMIT")
    if text is None:
        return default, ""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if 0 < seconds < math.inf:
        return seconds, ""
    return default, f"WARPGLASS_TIME_LIMIT is {text!r:.60}; it must be a number of seconds above 0."


class Runs(Protocol):
    """What runs a job; pool.py."""

    def ahead(self, job: "Job") -> int: ...
    def join(self, job: "Job", client: str) -> None: ...
    def leave(self, job: "Job", client: str) -> None: ...
    def cancel(self, job: "Job") -> None: ...


class Job:
    """what: names it in messages. time_limit: seconds from when it starts. began: when it did, by time.monotonic."""

    def __init__(self, future: concurrent.futures.Future, what: str, time_limit: float, by: Runs | None = None):
        self.future, self.what, self.time_limit, self._by = future, what, time_limit, by
        self.began: float | None = None

    def done(self) -> bool:
        return self.future.done()

    def seconds(self) -> float | None:
        """For how long it has been running; None while it waits."""
        return None if self.began is None else time.monotonic() - self.began

    def ahead(self) -> int:
        """How many that wait go before it."""
        return self._by.ahead(self) if self._by else 0

    def join(self, client: str) -> None:
        """Another client waits for it too: it goes at the better of the two places."""
        if self._by:
            self._by.join(self, client)

    def leave(self, client: str) -> None:
        """A client does not wait for it any more. It still runs, until it is cancelled."""
        if self._by:
            self._by.leave(self, client)

    def when_done(self, call: Callable[[], object]) -> None:
        """Calls that, from any thread, once the task has ended, however it did."""
        self.future.add_done_callback(lambda _: call())

    def cancel(self) -> None:
        """Stops the task, running or not; its result is RunCancelled."""
        if self._by:
            self._by.cancel(self)
        else:
            self.future.cancel()

    def result(self, timeout: float | None = None) -> Any:
        """The task's result, or its own error, RunTimeout, RunCancelled, WorkerDied or BackendUnavailable.
        TimeoutError after `timeout` seconds."""
        try:
            return self.future.result(timeout)
        except concurrent.futures.CancelledError:
            raise stopped(self.what) from None


def stopped(what: str) -> RunCancelled:
    return RunCancelled(f"{what} was stopped.")

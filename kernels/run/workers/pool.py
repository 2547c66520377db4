"""A backend's places and the queue in front of them: a task is handed over only when a place is free for it."""

import concurrent.futures
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernels.errors import RunTimeout, WarpglassError, WorkerDied
from kernels.run.workers.fair import Fair
from kernels.run.workers.job import Job, stopped
from kernels.run.workers.place import Place, Status
from kernels.run.workers.process import Died, OutOfTime, Unbegun, death

HANDED = 5  # times that a task is handed to a worker that is gone before it reads it


@dataclass(eq=False)
class _Task:
    """client: who submitted it. gpu: the only one that may run it, or empty. handed: how often it was."""

    job: Job
    function: Callable
    args: tuple
    client: str
    gpu: str
    handed: int = 0
    place: Place | None = None
    cancelled: bool = False


class Pool:
    """absent: says why there is no place for a task, where there can be none."""

    def __init__(
        self, backend: str, places: Sequence[Place] = (), absent: Callable[[], WarpglassError] = WarpglassError
    ):
        self.backend, self._places = backend, list[Place]()
        self._changed = threading.Condition()
        self._queue, self._stopped, self._absent = Fair(), False, absent
        self._tasks: dict[Job, _Task] = {}  # those that wait or run
        self._free: set[Place] = set()
        self._threads: list[threading.Thread] = []
        for place in places:
            self.add(place)

    def add(self, place: Place) -> None:
        with self._changed:
            self._places.append(place)
            self._threads.append(threading.Thread(target=self._work, args=[place], daemon=True))
        self._threads[-1].start()

    def remove(self, place: Place) -> None:
        """What it runs goes on to its end there."""
        with self._changed:
            self._places.remove(place)
            self._changed.notify_all()
        self._refuse()

    def submit(self, function: Callable, args: tuple, what: str, limit: float, client: str, gpu: str) -> Job:
        job = Job(concurrent.futures.Future(), what, limit, self)
        task = _Task(job, function, args, client, gpu)
        with self._changed:
            self._tasks[job] = task
            self._queue.add(task, client)
            self._changed.notify_all()
        self._refuse()
        return job

    # ---- what a Job asks ----

    def ahead(self, job: Job) -> int:
        with self._changed:
            return self._queue.before(self._tasks[job]) if job in self._tasks else 0

    def join(self, job: Job, client: str) -> None:
        with self._changed:
            if (task := self._tasks.get(job)) in self._queue:
                self._queue.add(task, client)

    def leave(self, job: Job, client: str) -> None:
        """It stays in the queue of the last that leaves."""
        with self._changed:
            if (task := self._tasks.get(job)) in self._queue:
                self._queue.leave(task, client)
                if task not in self._queue:
                    self._queue.add(task, client)

    def cancel(self, job: Job) -> None:
        with self._changed:
            task = self._tasks.get(job)
            if not task:
                return
            task.cancelled = True
            if task.place:  # its process ends, and _run tells why
                return task.place.kill()
            self._queue.remove(task)
            del self._tasks[job]
        job.future.set_exception(stopped(job.what))

    # ---- a place's thread ----

    def _work(self, place: Place) -> None:
        while task := self._next(place):
            self._run(place, task)
            if not self._ended(place):  # a stopped task took its worker along; the next need not wait for a new one
                self._make_ready(place)

    def _next(self, place: Place) -> _Task | None:
        """The next task for that place, once there is one and the place is ready; None when the pool is stopped."""
        while True:
            with self._changed:
                self._free.add(place)
                while not self._ended(place):
                    later = place.look_at - time.monotonic()
                    if later <= 0 and self._has_turn(place):
                        break
                    self._changed.wait(later if later > 0 and len(self._queue) else None)
                self._free.discard(place)
                self._changed.notify_all()
                if self._ended(place):
                    return None
            if not self._make_ready(place):
                continue
            with self._changed:
                if self._ended(place):
                    return None
                task = self._queue.take(lambda one: self._takes(place, one))
                if task:
                    task.place, task.job.began = place, time.monotonic()
                    task.handed += 1
                    return task

    def _make_ready(self, place: Place) -> bool:
        try:
            place.ready()
        except Exception as error:
            place.take_out(error if isinstance(error, WarpglassError) else WorkerDied(f"{error}"))
            self._refuse()
            return False
        place.out = ""
        return True

    def _ended(self, place: Place) -> bool:
        return self._stopped or place not in self._places

    def _has_turn(self, place: Place) -> bool:
        """Whether something waits for it. Of free places the first goes first: what a worker keeps is used again."""
        now = time.monotonic()
        before = [one for one in self._places[: self._places.index(place)] if one in self._free and one.look_at <= now]
        return any(self._takes(place, t) and not any(self._takes(one, t) for one in before) for t in self._queue)

    def _takes(self, place: Place, task: _Task) -> bool:
        """A task that names no GPU may run on any that is like the first, which the survey names."""
        if task.gpu:
            return place.gpu is not None and place.gpu.id == task.gpu
        return bool(self._places) and place.name == self._places[0].name

    def _refuse(self) -> None:
        """Ends those that wait for nothing but places that are taken out."""
        now = time.monotonic()
        with self._changed:
            refused = []
            for task in self._queue:
                taking = [place for place in self._places if self._takes(place, task)]
                if all(place.out and place.look_at > now for place in taking):
                    refused.append((task, taking[0].unusable() if taking else self._absent()))
                    self._queue.remove(task)
                    del self._tasks[task.job]
        for task, error in refused:
            task.job.future.set_exception(error)

    def _run(self, place: Place, task: _Task) -> None:
        job = task.job
        value, died = None, False
        error: Exception | None = None
        try:
            value = place.run(task.function, task.args, job.time_limit)
        except Unbegun:
            if task.handed < HANDED and self._back(task):
                return self._refuse()
            error, died = death(job.what, None), True
        except OutOfTime:
            error = RunTimeout(
                f"{job.what} ran past its limit of {job.time_limit:g} s and was stopped; a new worker has taken its "
                "place. Choose a smaller problem, or raise WARPGLASS_TIME_LIMIT."
            )
        except Died as end:
            error, died = death(job.what, end.code), True
        except Exception as raised:
            error = raised
        with self._changed:
            task.place = None
            self._tasks.pop(job, None)
            if task.cancelled:
                error = stopped(job.what)
            else:
                place.done += error is None
                place.failed += error is not None
                place.deaths += died
        if error:
            job.future.set_exception(error)
        else:
            job.future.set_result(value)

    def _back(self, task: _Task) -> bool:
        """Puts a task that no worker has read back to where it was."""
        with self._changed:
            if self._stopped or task.cancelled:
                return False
            task.place = task.job.began = None
            self._queue.add(task, task.client, first=True)
            self._changed.notify_all()
        return True

    # ---- the whole ----

    def status(self) -> list[Status]:
        """One for each GPU, one for all of the CPU's places."""
        with self._changed:
            running = [task.place for task in self._tasks.values() if task.place]
            alike: dict[str, list[Place]] = {}
            for place in self._places:
                alike.setdefault(place.gpu.id if place.gpu else "", []).append(place)
            return [self._status(gpu, places, running) for gpu, places in alike.items()]

    def _status(self, gpu: str, places: list[Place], running: list[Place]) -> Status:
        first = self._places[0] in places
        return Status(
            name=places[0].name,
            backend=self.backend,
            gpu=gpu,
            alive=sum(place.alive() for place in places),
            running=sum(running.count(place) for place in places),
            waiting=sum(task.gpu == gpu if task.gpu else first for task in self._queue),
            done=sum(place.done for place in places),
            failed=sum(place.failed for place in places),
            deaths=sum(place.deaths for place in places),
            out=" ".join(dict.fromkeys(place.out for place in places if place.out)),
            compiling=round(sum(place.compiling for place in places), 1),
        )

    def stop(self) -> None:
        """Ends all workers at once; what waits or runs is told that it was stopped."""
        with self._changed:
            self._stopped = True
            waiting = [task for task in self._tasks.values() if not task.place]
            for task in self._tasks.values():
                task.cancelled = True
            for task in waiting:
                self._queue.remove(task)
                del self._tasks[task.job]
            self._changed.notify_all()
        for task in waiting:
            task.job.future.set_exception(stopped(task.job.what))
        for place in self._places:
            place.kill()
        for thread in self._threads:
            thread.join(10)
        for place in self._places:
            place.end()

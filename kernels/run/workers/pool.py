"""The workers of a backend behind a fair queue. A job leaves the queue only for a free worker.

Three limits keep a worker within reach of everybody. They count the jobs of clients, not the server's own:
- A long job starts only if another worker stays without a long job.
- A running job becomes long after GRACE seconds. It goes back to the queue if all other workers run long jobs.
- A browser runs jobs on half of the workers, and an address on three quarters, but each on at least two.
"""

import concurrent.futures
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernels.errors import RunCancelled, RunTimeout, WarpglassError
from kernels.run.workers.fair import Fair, group_of
from kernels.run.workers.worker import Died, OutOfTime, Unbegun, Worker, death

HANDED = 5  # workers that may be lost before they read a job
STOP = 10.0  # seconds for the end of running jobs
SHORT = 5.0  # estimated seconds. A job with a higher estimate is long
LEAST = 2  # running jobs of a browser, and of an address
GRACE = 10.0  # seconds after which a running job is long, whatever its estimate


class Job(concurrent.futures.Future[Any]):
    """function(*args) in a worker, and its result.

    time_limit: seconds from its start.
    client: its submitter, and from its start the client with the turn.
    gpu: the id of its GPU, or "" for any GPU.
    long: whether it takes many seconds, as estimated or as seen.
    began: the time of its start (time.monotonic), or None before.
    handed: the number of workers that received it.
    evicted: whether it lost its worker to short jobs."""

    def __init__(
        self,
        title: str,
        time_limit: float,
        function: Callable[..., object] = lambda: None,
        args: tuple[object, ...] = (),
        client: str = "",
        gpu: str = "",
        pool: "Pool | None" = None,
        long: bool = False,
    ):
        super().__init__()
        self.title, self.time_limit, self.client, self.gpu = title, time_limit, client, gpu
        self.function, self.args, self.long = function, args, long
        self.began: float | None = None
        self.handed = 0
        self.evicted = self.stopped = False
        self._pool = pool

    def seconds(self) -> float | None:
        return None if self.began is None else time.monotonic() - self.began

    def ahead(self) -> int:
        """The number of waiting jobs before it. A long job holds up no short one."""
        if not (pool := self._pool):
            return 0
        with pool.changed:
            return pool.queue.before(self, lambda other: self.long or not other.long)

    def held(self, client: str) -> str:
        """The reason why it may not start for this client now, or ""."""
        if not (pool := self._pool):
            return ""
        with pool.changed:
            return pool.held(client, self) if self in pool.queue else ""

    def join(self, client: str) -> None:
        """Adds a client while it waits. The job takes the better of the two places."""
        if pool := self._pool:
            with pool.changed:
                if self in pool.queue:
                    pool.queue.add(self, client)
            pool.assign()

    def leave(self, client: str) -> None:
        """Removes a client while it waits. The last client keeps its place, and the job still runs."""
        if pool := self._pool:
            with pool.changed:
                if self in pool.queue:
                    pool.queue.leave(self, client)
                    if self not in pool.queue:
                        pool.queue.add(self, client)

    def when_done(self, call: Callable[[], object]) -> None:
        """Calls `call`, from any thread, after the job's end."""
        self.add_done_callback(lambda _: call())

    def cancel(self) -> bool:
        """Stops the job, waiting or running. Its result is RunCancelled."""
        if pool := self._pool:
            with pool.changed:
                if worker := pool.running.get(self):
                    self.stopped = True
                    worker.kill()  # the pool's thread reports the end
                if worker or self not in pool.queue:
                    return True
                pool.queue.remove(self)
        if not self.done():
            self.set_exception(cancelled(self))
        return True


def cancelled(job: Job) -> RunCancelled:
    return RunCancelled(f"{job.title} was stopped.")


@dataclass(frozen=True)
class Status:
    """One GPU's workers, or all workers of the CPU.

    gpu: the id of the GPU, or "".
    waiting: tasks in the queue. The first GPU counts the tasks for any GPU.
    deaths: dead worker processes, idle ones too.
    out: the reason why it takes no tasks now, else ""."""

    name: str
    backend: str
    gpu: str
    alive: int
    running: int
    waiting: int
    done: int
    failed: int
    deaths: int
    out: str
    compiling: float


class Pool:
    """The workers of a backend and their queue. absent: makes the error of a job without any worker."""

    def __init__(
        self, backend: str, workers: Sequence[Worker] = (), absent: Callable[[], WarpglassError] = WarpglassError
    ):
        self.backend = backend
        self._absent = absent
        self._workers = list(workers)
        self._busy: set[Worker] = set()  # the workers with a thread
        self.queue: Fair[Job] = Fair()
        self.running: dict[Job, Worker] = {}
        self._stopped = False
        self.changed = threading.Condition()

    def add(self, worker: Worker) -> None:
        with self.changed:
            self._workers.append(worker)
        self.assign()

    def remove(self, worker: Worker) -> None:
        """Removes a worker. Its job goes on to its end."""
        with self.changed:
            self._workers.remove(worker)
        self.assign()

    def submit(
        self,
        function: Callable[..., object],
        args: tuple[object, ...],
        title: str,
        limit: float,
        client: str,
        gpu: str,
        estimate: float = 0.0,
    ) -> Job:
        job = Job(title, limit, function, args, client, gpu, self, estimate > SHORT)
        with self.changed:
            self.queue.add(job, client)
        self.assign()
        return job

    # ---- from the queue to a worker ----

    def assign(self) -> None:
        """Wakes a worker for each waiting job, the first worker first: its process is warm. Refuses hopeless jobs."""
        with self.changed:
            refused = [(job, error) for job in self.queue if (error := self._refusal(job))]
            for job, _ in refused:
                self.queue.remove(job)
            waiting = self.queue.pairs()
            for worker in self._workers:
                if worker in self._busy or worker.look_at > time.monotonic():
                    continue
                if first := next((pair for pair in waiting if self._may_take(worker, *pair)), None):
                    waiting = [pair for pair in waiting if pair[1] is not first[1]]
                    threading.Thread(target=self._serve, args=[worker], daemon=True).start()
                    self._busy.add(worker)
        for job, error in refused:
            job.set_exception(error)

    def _fits(self, worker: Worker, job: Job) -> bool:
        """Whether the worker may run the job. A job for any GPU needs a GPU like the first, which the survey names."""
        if job.gpu:
            return worker.gpu is not None and worker.gpu.id == job.gpu
        return worker.name == self._workers[0].name

    def _may_take(self, worker: Worker, client: str, job: Job) -> bool:
        return self._fits(worker, job) and not self.held(client, job)

    def held(self, client: str, job: Job) -> str:
        if not client:
            return ""
        if job.long and self._only_short(job):
            return f"it takes more than {SHORT:g} s, and one worker stays free for short runs"
        count, rivals = self._rivals(job)
        of_browser = sum(one.client == client for one in rivals)
        of_address = sum(group_of(one.client) == group_of(client) for one in rivals)
        if max(LEAST, count // 2) <= of_browser < count:
            return f"{of_browser} other runs of this browser go first"
        if max(LEAST, count * 3 // 4) <= of_address < count:
            return f"{of_address} other runs of this network go first"
        return ""

    def _only_short(self, job: Job) -> bool:
        """Whether only one worker for the job runs no long job, and so takes only short ones."""
        count, rivals = self._rivals(job)
        return count > 1 and sum(one.long for one in rivals) >= count - 1

    def _rivals(self, job: Job) -> tuple[int, list[Job]]:
        """The number of usable workers for the job, and the other jobs of clients that run there."""
        usable = [worker for worker in self._workers if self._fits(worker, job) and not worker.out]
        running = [one for one, worker in self.running.items() if one.client and worker in usable]
        return len(usable), [one for one in running if one is not job]

    def _refusal(self, job: Job) -> WarpglassError | None:
        fitting = [worker for worker in self._workers if self._fits(worker, job)]
        if any(not worker.out or worker.look_at <= time.monotonic() for worker in fitting):
            return None
        return fitting[0].unusable() if fitting else self._absent()

    def _serve(self, worker: Worker) -> None:
        """Runs jobs until none waits for this worker. At the end its process is ready for the next job."""
        while self._make_ready(worker) and (job := self._take(worker)):
            self._run(worker, job)
            self.assign()  # its end may let another worker start a job of the same browser
        self.assign()

    def _make_ready(self, worker: Worker) -> bool:
        """Whether the worker is fit to run. If not, it is out and no longer busy."""
        try:
            if worker in self._workers and not self._stopped:
                worker.ready()
            worker.out = ""
            return True
        except Exception as error:
            with self.changed:
                worker.take_out(str(error))
                self._rest(worker)
            return False

    def _take(self, worker: Worker) -> Job | None:
        """The next job of the worker. If none waits, it is no longer busy."""
        with self.changed:
            taken = None
            if worker in self._workers and not self._stopped:
                taken = self.queue.take(lambda client, job: self._may_take(worker, client, job))
            if taken is None:
                self._rest(worker)
                return None
            client, job = taken
            job.client = client
            self.running[job] = worker
            job.began = time.monotonic()
            job.handed += 1
            job.evicted = False
            return job

    def _rest(self, worker: Worker) -> None:
        self._busy.discard(worker)
        self.changed.notify_all()

    def _run(self, worker: Worker, job: Job) -> None:
        value: object = None
        error: Exception | None = None
        grace = threading.Timer(GRACE, self._overrun, [job])
        if job.client and not job.long:
            grace.start()
        try:
            value = worker.run(job.function, job.args, job.time_limit)
        except Died as died:
            if job.evicted and self._hand_back(job):
                return
            error = died
        except Unbegun:
            if self._hand_back(job):
                return
            error = Died(None)
        except Exception as raised:
            error = raised
        finally:
            grace.cancel()
        with self.changed:
            self.running.pop(job, None)
            if not job.stopped:
                worker.done += error is None
                worker.failed += error is not None
                worker.deaths += isinstance(error, Died)
        if job.stopped:
            job.set_exception(cancelled(job))
        elif isinstance(error, Died):
            job.set_exception(death(job.title, error.code))
        elif isinstance(error, OutOfTime):
            limit = (
                f"{job.title} ran past its limit of {job.time_limit:g} s and was stopped. A new worker has taken its"
            )
            job.set_exception(RunTimeout(f"{limit} place. Choose a smaller problem, or raise WARPGLASS_TIME_LIMIT."))
        elif error:
            job.set_exception(error)
        else:
            job.set_result(value)

    def _overrun(self, job: Job) -> None:
        """Makes a running job long. It goes back to the queue if the other workers run long jobs."""
        with self.changed:
            if job in self.running:
                job.long, job.evicted = True, self._only_short(job)
                if job.evicted:
                    self.running[job].kill()

    def _hand_back(self, job: Job) -> bool:
        """Returns an unread job to the head of the queue. False if it was stopped or lost too many workers."""
        with self.changed:
            if job.handed >= HANDED or job.stopped or self._stopped:
                return False
            del self.running[job]
            job.began = None
            self.queue.add(job, job.client, first=True)
        return True

    # ---- all workers ----

    def status(self) -> list[Status]:
        with self.changed:
            groups: dict[str, list[Worker]] = {}
            for worker in self._workers:
                groups.setdefault(worker.gpu.id if worker.gpu else "", []).append(worker)
            return [self._status(gpu, workers) for gpu, workers in groups.items()]

    def _status(self, gpu: str, workers: list[Worker]) -> Status:
        counts_any = self._workers[0] in workers
        return Status(
            name=workers[0].name,
            backend=self.backend,
            gpu=gpu,
            alive=sum(worker.alive() for worker in workers),
            running=sum(worker in workers for worker in self.running.values()),
            waiting=sum(job.gpu == gpu if job.gpu else counts_any for job in self.queue),
            done=sum(worker.done for worker in workers),
            failed=sum(worker.failed for worker in workers),
            deaths=sum(worker.deaths for worker in workers),
            out=" ".join(dict.fromkeys(worker.out for worker in workers if worker.out)),
            compiling=round(sum(worker.compiling for worker in workers), 1),
        )

    def stop(self) -> None:
        """Ends all workers. Each job ends with RunCancelled."""
        with self.changed:
            self._stopped = True
            waiting = list(self.queue)
            for job in self.running:
                job.stopped = True
            for job in waiting:
                self.queue.remove(job)
        for job in waiting:
            job.set_exception(cancelled(job))
        for worker in self._workers:
            worker.kill()
        with self.changed:
            self.changed.wait_for(lambda: not self._busy, STOP)
        for worker in self._workers:
            worker.end()

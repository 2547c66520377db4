"""One browser or address cannot hold all workers: short jobs always find one, and no job is lost."""

import threading
import time

import pytest
from waiting import until

from kernels.run.workers import pool
from kernels.run.workers.pool import Job, Pool
from kernels.run.workers.worker import Died, Worker

LONG = 2 * pool.SHORT  # estimated seconds


class Desk(Worker):
    """A worker in this process. A task is an Event: it ends when the event is set, or with the worker's death."""

    def __init__(self):
        super().__init__()
        self.killed = threading.Event()

    def alive(self):
        return True

    def ready(self):
        self.killed.clear()

    def answer(self, call, limit):
        raise NotImplementedError

    def run(self, function, args, limit):
        while not function():
            if self.killed.wait(0.005):
                raise Died(-9)
        return "done"

    def kill(self):
        self.killed.set()

    def end(self):
        pass


@pytest.fixture
def desks():
    """make(number of workers) -> submit(client, estimate), which returns a Job and the function that ends it."""
    made = []

    def make(count):
        made.append(Pool("cpu", [Desk() for _ in range(count)]))

        def submit(client, estimate=0.0):
            end = threading.Event()
            return made[-1].submit(end.is_set, (), "it", 60, client, "", estimate), end.set

        return submit

    yield make
    for one in made:
        one.stop()


def begun(job: Job) -> bool:
    return job.seconds() is not None or job.done()


def test_long_jobs_leave_one_worker_to_a_short_one(desks):
    submit = desks(2)
    longs = [submit(f"a browser{n}", LONG) for n in range(30)]
    short, end = submit("a victim")
    until(lambda: begun(short))
    assert [begun(job) for job, _ in longs] == [True] + [False] * 29
    assert "one worker stays free for short runs" in longs[1][0].held("a browser1")
    end()
    assert short.result(10) == "done"
    for job, end in longs:  # each gets its turn
        until(lambda job=job: begun(job))
        end()
        assert job.result(10) == "done"


def test_a_short_job_is_before_long_ones_that_may_not_start(desks):
    submit = desks(2)
    for n in range(5):
        submit(f"a long{n}", LONG)
    short, _ = submit("a short")
    until(lambda: begun(short))
    waits, last = submit("a victim")[0], submit("a last", LONG)[0]
    assert waits.ahead() == 0 and not waits.held("a victim") and last.ahead() == 5


def test_a_job_that_only_seemed_short_goes_back_once_and_ends(desks, monkeypatch):
    monkeypatch.setattr(pool, "GRACE", 0.2)
    submit = desks(2)
    (first, end_first), (second, end_second) = [submit(f"a cookie{n}") for n in range(2)]
    until(lambda: begun(first) and begun(second))
    short, end_short = submit("b victim")
    until(lambda: begun(short))
    end_short()
    assert short.result(10) == "done"
    running = [job for job in (first, second) if begun(job)]
    assert len(running) == 1 and not first.done() and not second.done()
    end_first()
    end_second()
    assert first.result(10) == second.result(10) == "done"
    assert sorted([first.handed, second.handed]) == [1, 2]


def test_a_job_that_only_seemed_short_goes_back_for_a_long_one(desks, monkeypatch):
    monkeypatch.setattr(pool, "GRACE", 0.2)
    submit = desks(2)
    seemed, end = submit("a one")
    long, _ = submit("a two", LONG)
    until(lambda: begun(seemed) and begun(long))
    until(lambda: seemed.evicted and not begun(seemed))
    assert begun(long) and "one worker stays free" in seemed.held("a one")
    long.cancel()
    until(lambda: begun(seemed))
    end()
    assert seemed.result(10) == "done" and seemed.handed == 2


def test_a_job_alone_runs_on_whatever_its_length(desks, monkeypatch):
    monkeypatch.setattr(pool, "GRACE", 0.05)
    for count in (1, 2):
        job, end = desks(count)("a one")
        until(lambda job=job: job.long)
        end()
        assert job.result(10) == "done" and job.handed == 1
    job, end = desks(1)("a one", LONG)
    end()
    assert job.result(10) == "done"


def test_the_servers_own_jobs_have_no_limit(desks, monkeypatch):
    monkeypatch.setattr(pool, "GRACE", 0.05)
    submit = desks(2)
    own = [submit("", LONG)[0] for _ in range(2)]
    until(lambda: all(begun(job) for job in own))
    time.sleep(0.2)
    assert not any(job.evicted for job in own)


def test_a_browser_has_half_of_the_workers_and_an_address_three_quarters(desks):
    submit = desks(8)
    own = [submit("a one")[0] for _ in range(6)]
    until(lambda: sum(map(begun, own)) == 4)
    others = [submit(f"a cookie{n}")[0] for n in range(4)]
    until(lambda: sum(map(begun, others)) == 2)
    elsewhere = submit("b one")[0]
    until(lambda: begun(elsewhere))
    assert sum(map(begun, own)) == 4 and sum(map(begun, others)) == 2
    assert own[-1].held("a one") == "4 other runs of this browser go first"
    assert others[-1].held("a cookie3") == "6 other runs of this network go first"
    assert not elsewhere.held("b one")


def test_a_job_that_its_owner_may_not_start_starts_for_another_client(desks):
    submit = desks(4)
    own = [submit("a one")[0] for _ in range(3)]
    until(lambda: sum(map(begun, own)) == 2)
    own[-1].join("b two")
    until(lambda: begun(own[-1]))
    assert own[-1].client == "b two"

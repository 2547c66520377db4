"""Each client's oldest task goes before any client's second; the place that is told is the place in that order."""

from hypothesis import given
from hypothesis import strategies as st

from kernels.run.workers import fair
from kernels.run.workers.fair import Fair


def any_task(client, task):
    return True


def filled(tasks):
    """A queue of tasks named CLIENT and a number, in that order."""
    queue = Fair()
    for task in tasks.split():
        queue.add(task, task[0])
    return queue


def drained(queue, takes=any_task):
    found = []
    while (taken := queue.take(takes)) is not None:
        found.append(taken[1])
    return " ".join(found)


def test_clients_take_turns_their_own_go_in_order_and_who_comes_first_anew_or_back_is_served_fairly():
    assert drained(filled("a1 a2 a3 b1 c1 b2")) == "a1 b1 c1 a2 b2 a3"
    queue = filled("a1 a2 a3")
    assert queue.take(any_task) == ("a", "a1")
    queue.add("b1", "b")
    assert drained(queue) == "b1 a2 a3"
    queue = filled("a1 a2 b1 b2")
    _, first = queue.take(any_task)
    queue.add(first, "a", first=True)
    assert drained(queue) == "a1 b1 a2 b2"


def test_who_was_served_alone_owes_nothing_and_is_forgotten(monkeypatch):
    monkeypatch.setattr(fair, "KEPT", 10)
    queue = filled("a1 a2 a3 a4")
    assert drained(queue) == "a1 a2 a3 a4"
    queue.add("b1", "b")
    queue.add("a5", "a")
    queue.add("b2", "b")
    assert drained(queue) == "b1 a5 b2"
    for n in range(30):
        queue.add(f"c{n}", f"{n}")
        queue.take(any_task)
    assert len(queue._groups.next) <= 10 and len(queue._clients) <= 11 and not queue._waiting and not len(queue)


def test_an_address_takes_one_turn_in_each_round_and_its_browsers_take_turns():
    queue = Fair()
    for n in range(4):
        queue.add(f"many{n}", f"10.0.0.1 cookie{n}")
    queue.add("again0", "10.0.0.1 cookie0")
    for n in range(2):
        queue.add(f"one{n}", "10.0.0.2 cookie")
    assert [queue.before(task) for task in ("one0", "one1", "again0")] == [1, 3, 6]
    assert drained(queue) == "many0 one0 many1 one1 many2 many3 again0"
    for task, client in (("x1", "a x"), ("x2", "a x"), ("b1", "b b"), ("x3", "a x")):
        queue.add(task, client)
    assert queue.take(any_task) == ("a x", "x1")
    queue.add("y1", "a y")
    assert drained(queue) == "b1 y1 x2 x3"


def test_cancelled_and_shared_tasks_keep_their_place_and_one_without_a_place_holds_up_no_other():
    queue = filled("a1 a2 a3 b1 b2")
    queue.remove("a1")
    queue.remove("a2")
    assert drained(queue) == "a3 b1 b2"
    queue = filled("a1 a2 a3 b1")
    queue.add("a3", "c")
    assert queue.before("a3") == 1 and len(queue) == 4
    queue.leave("a3", "a")
    assert drained(queue) == "a1 a3 b1 a2"
    queue = filled("a1 b1 a2")
    assert drained(queue, lambda client, task: task != "a1") == "b1 a2" and list(queue) == ["a1"]
    queue = filled("a1 b1")
    queue.add("a1", "c")
    assert queue.take(lambda client, task: client != "a") == ("c", "a1")
    assert drained(queue) == "b1"
    queue = filled("a1 b1 c1")
    assert queue.before("c1") == 2 and queue.before("c1", lambda task: task != "a1") == 1


@given(st.lists(st.sampled_from(["a x", "a y", "b x", "b", "c", "d"]), max_size=30), st.integers(0, 5))
def test_the_place_in_nested_rounds_is_how_many_are_taken_before(clients, served):
    queue = Fair()
    for n, client in enumerate(clients):
        queue.add(n, client)
    for _ in range(min(served, len(clients))):
        queue.take(any_task)
    told = {task: queue.before(task) for task in queue}
    assert told == {queue.take(any_task)[1]: n for n in range(len(queue))}

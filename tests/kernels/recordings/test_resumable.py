"""Measuring in groups: what is kept, what is measured, and what the record holds after a break."""

import pytest

from kernels.recordings.resumable import Group, resume


def groups(done, breaks_at=""):
    def measure(name):
        if name == breaks_at:
            raise KeyboardInterrupt
        done.append(name)
        return {name + "1": 1, name + "2": 2}

    return [Group(name, [name + "1", name + "2"], lambda name=name: measure(name)) for name in "abc"]


def test_a_group_with_all_its_values_is_not_measured_again():
    done, written, shown = [], [], []
    kept = {"a1": 1, "a2": 2, "b1": 1}
    resume(groups(done), kept, lambda found: written.append(dict(found)), lambda *said: shown.append(said))
    assert done == ["b", "c"] and len(written) == 2 and len(written[-1]) == 6
    assert shown == [(3, 6, "b"), (4, 6, "c"), (6, 6, "")]


def test_a_break_leaves_the_record_of_the_groups_before_it():
    done, written = [], []
    with pytest.raises(KeyboardInterrupt):
        resume(groups(done, "b"), {}, lambda found: written.append(dict(found)))
    assert written == [{"a1": 1, "a2": 2}]
    resume(groups(done), written[-1], lambda found: written.append(dict(found)))
    assert done == ["a", "b", "c"] and len(written[-1]) == 6


def test_a_group_may_give_fewer_values_and_is_then_measured_the_next_time():
    written = []
    failing = [Group("a", ["a1"], dict)]
    resume(failing, {}, lambda found: written.append(dict(found)))
    assert written == [{}]
    resume([Group("a", ["a1"], lambda: {"a1": 3})], written[-1], lambda found: written.append(dict(found)))
    assert written[-1] == {"a1": 3}

"""Command lines that nobody should type: each ends with a code of its own and in words."""

import pytest

from kernels.errors import ProblemError
from kernels.run import options, workers
from tests.load.commands import hostile, outcome

SEED = 3
SHORT = {"run", "bench", "record", "calibrate", "counters", "measure", "nothing", ""}  # commands without a compile


@pytest.mark.parametrize("share", [20, pytest.param(80, marks=pytest.mark.slow)])
def test_a_hostile_command_line_ends_in_words(monkeypatch, share):
    def not_run(*of, **more):
        raise ProblemError("it could be run")

    workers.survey()
    monkeypatch.setattr(workers, "submit", not_run)
    for argv in (argv for argv in hostile(SEED, share) if argv[0] in SHORT):
        code, said = outcome(argv)
        assert code in range(4) and (said or not code) and "Traceback" not in said, (argv, said)


@pytest.mark.parametrize("text", ["9" * 5000, "1:" + "9" * 5000, "\u00b2", "x", ":"])
def test_a_scope_that_is_no_number_that_can_be_read_is_refused(text):
    with pytest.raises(ProblemError, match="--scope is"):
        options._range(text, text, "block")

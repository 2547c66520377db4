"""run: a kernel in a notebook, with its table, its counts and its pictures."""

import doctest

from warpglass import notebook


def test_the_examples_of_the_docstrings_run():
    found = doctest.testmod(notebook)
    assert found.attempted == 15 and not found.failed

"""Numbers for people have their format from one place: the same limits on every page, in Python and in the browser."""

import math
import re
from pathlib import Path

import pytest

from explainers.story import glossary

STAGE = Path(__file__).parents[3] / "app/stage"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.125, "2.125"),
        (999.96, "1,000"),
        (37368.4, "37,368"),
        (82380200470.6, "82,380,200,471"),
        (8.238020047058534e28, "8.238e+28"),
        (-37368.4, "-37,368"),
        (-8.238e28, "-8.238e+28"),
        (math.nan, "NaN"),
        (math.inf, "inf"),
    ],
)
def test_a_figure_has_separators_and_never_more_digits_than_are_meant(value, text):
    assert glossary.figure(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.94695519, "0.946955"), (2219.2213, "2,219.22"), (8.238020047058534e28, "8.23802e+28"), (math.nan, "NaN")],
)
def test_a_logged_number_and_its_float64_have_the_same_digits(value, text):
    assert glossary.logged(value) == text


def test_python_and_the_browser_write_an_exponent_from_the_same_number_on():
    (limit,) = re.findall(r"const MOST_WHOLE = (\S+);", (STAGE / "core" / "paint.js").read_text())
    assert float(limit) == glossary.MOST_WHOLE


def test_the_browser_writes_numbers_of_tables_strip_and_guide_in_one_place():
    """A whole number drawn by Number.isInteger alone had 29 digits where a sum of weights was large."""
    for path in (path for folder in ("core", "views", "shell") for path in (STAGE / folder).glob("*.js")):
        if path.name != "paint.js":
            assert not re.search(r"Number\.isInteger\([^)]*\) \? number", path.read_text()), path.name

"""Numbers for people have their format from one place: the same limits on every page, in Python and in the browser."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explainers.story import glossary

STAGE = Path(__file__).parents[3] / "app/stage"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.125, "2.125"),
        (999.96, "1,000"),
        (9999.5, "10,000"),
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


@given(st.floats(1e-4, 9e14) | st.integers(-3, 14).map(lambda power: math.nextafter(10.0**power, 0)), st.integers(1, 6))
def test_a_number_has_no_exponent_and_no_more_digits_than_are_meant(value, digits):
    for sign in (1, -1):
        text = glossary.short(sign * value, digits)
        assert re.fullmatch(r"-?\d{1,3}(,\d{3})*(\.\d+)?", text), text
        assert len(text.strip("-").replace(",", "").replace(".", "").strip("0")) <= digits
        assert float(text.replace(",", "")) == pytest.approx(sign * value, rel=0.5 * 10 ** (1 - digits) * (1 + 1e-9))
    assert "e" not in glossary.figure(value, digits) + glossary.logged(value)


@given(st.lists(st.floats(0, 1e20), min_size=2, max_size=2).map(sorted), st.integers(1, 6))
def test_a_larger_number_never_has_a_smaller_text(pair, digits):
    for said in (glossary.short, glossary.figure):
        low, high = (float(said(value, digits).replace(",", "")) for value in pair)
        assert low <= high


UNITS = (glossary.MICROSECONDS, glossary.BYTES, glossary.BINARY)


@given(st.floats(1e-3, 1e13), st.sampled_from(UNITS), st.integers(3, 5))
def test_an_amount_is_in_the_largest_unit_in_which_it_shows_at_least_1(value, units, digits):
    number, name = glossary.amount(value, units, digits).split(" ")
    sizes = [size for size, _ in units]
    at = [unit for _, unit in units].index(name)
    shown = float(number.replace(",", ""))
    assert shown >= 1 or at == len(units) - 1
    assert not at or shown < sizes[at - 1] / sizes[at]
    assert shown * sizes[at] == pytest.approx(value, rel=0.5 * 10 ** (1 - digits) * (1 + 1e-9))


@pytest.mark.parametrize(
    ("value", "text"),
    [(999.4, "999 µs"), (999.6, "1 ms"), (9999.5, "10 ms"), (999_600, "1 s"), (0.4, "0.4 µs"), (0, "0 µs")],
)
def test_a_unit_changes_where_the_rounded_number_does(value, text):
    assert glossary.amount(value, glossary.MICROSECONDS) == text


def test_numbers_are_written_in_one_place_in_python_and_in_the_browser():
    """{x:.4g} gives 1e+04 for 9,999.5 wherever it stands."""
    for folder in ("explainers", "app"):
        for path in (STAGE.parents[1] / folder).rglob("*.py"):
            if "node_modules" not in path.parts and path.name != "glossary.py":
                found = re.findall(r":,?\.\d+g\}", path.read_text())
                assert not found or path.name == "rooms.py", (path, found)  # a poll tells equal answers by 15 digits
    (limit,) = re.findall(r"const MOST_WHOLE = (\S+);", (STAGE / "core" / "paint.js").read_text())
    assert float(limit) == glossary.MOST_WHOLE
    # A whole number drawn by Number.isInteger alone had 29 digits where a sum of weights was large.
    for path in (path for folder in ("core", "views", "shell") for path in (STAGE / folder).glob("*.js")):
        if path.name != "paint.js":
            assert not re.search(r"Number\.isInteger\([^)]*\) \? number", path.read_text()), path.name

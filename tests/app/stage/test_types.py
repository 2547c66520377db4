"""The types of the stage: tsc knows every field that Python sends (app/web/declarations.py)."""

import re
from pathlib import Path
from typing import TypedDict

import numpy as np
import pytest
from stage_tools import run

from app.web import declarations

# The modules with values of no type, one a line: noImplicitAny and strictNullChecks find faults in them. A module
# without faults leaves this list. No module joins it.
UNTYPED = Path(__file__).with_name("untyped.txt").read_text().split()


@pytest.fixture(scope="module", autouse=True)
def types():
    declarations.FILE.write_text(declarations.text())


def test_the_types_are_right():
    run("tsc", "-p", ".", "--noImplicitAny", "false", "--strictNullChecks", "false")


def test_only_the_listed_modules_have_values_of_no_type():
    faults = re.findall(r"^((\S+?)\.(?:js|d\.ts)\(.*)", run("tsc", "-p", ".", fails=True), re.M)
    assert not [fault for fault, module in faults if module not in UNTYPED]
    assert sorted({module for _, module in faults}) == UNTYPED, "the list has a module without faults"


def test_a_type_of_python_has_its_type_of_typescript():
    class Part(TypedDict, total=False):
        rows: list[int | None]
        at: dict[str, tuple[float, float]]
        column: np.ndarray

    fields = "rows?: (number | null)[]; at?: Record<string, [number, number]>; column?: Float32Array;"
    assert " ".join(declarations.interface(Part).split()) == f"interface Part {{ {fields} }}"


def test_a_type_that_no_bundle_has_is_refused():
    class Part(TypedDict):
        made: complex

    with pytest.raises(TypeError, match="complex"):
        declarations.interface(Part)

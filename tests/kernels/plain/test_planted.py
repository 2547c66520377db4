"""Thirty planted faults are found with kind and line, and thirty correct kernels have no fault.

A comment FAULT in planted/faults.cu gives the kind, and marks each line that a report must name.
"""

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from kernels.build import Mode
from kernels.catalog import load_kernel
from kernels.core.cases import sample
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.sources import parameters
from kernels.run import execute
from kernels.run.backends import cpu
from kernels.run.plain import launches

PLANTED = Path(__file__).parent / "planted"
LEAST_FOUND, LEAST_RIGHT = 27, 25
SECONDS = 1.0  # of a launch with an endless loop


@lru_cache
def _prepared(name):
    kernel = load_kernel(PLANTED / f"{name}.cu")
    shown = sample(kernel)
    request = Request(kernel, shown.problem, (), Scope(), "cpu")
    built, plan, _ = execute.prepare(request, Mode.PROBED)
    return request, built, plan


def _entries(name):
    return re.findall(r'^entry = "(\w+)"', (PLANTED / f"{name}.cu").read_text(), re.M)


def _faults(name, entry, reversed_order):
    request, built, plan = _prepared(name)
    step = next(launch for launch in plan.launches if launch.entry == entry)
    alone, arrays = replace(plan, launches=(step,)), execute.start_arrays(request)
    found = cpu.limited(SECONDS, launches.launch, built, alone, arrays, Scope(), [1 << 16], reversed_order)
    return [fault for fault in found.faults if fault.level == "error"]


@pytest.mark.parametrize("reversed_order", [False, True])
def test_planted_faults_are_found_with_their_kinds_and_lines(reversed_order):
    entries = _entries("faults")
    assert len(entries) == 30
    found, right, missed = 0, 0, []
    text = (PLANTED / "faults.cu").read_text().splitlines()
    for entry in entries:
        first = next(n for n, line in enumerate(text, 1) if re.match(rf"__global__ void {entry}\(", line))
        own = text[first : text.index("}", first)]
        marked = {n: line.split("// FAULT ")[1].strip() for n, line in enumerate(own, first + 1) if "// FAULT" in line}
        kind, lines = next(iter(marked.values())), {*marked}
        faults = _faults("faults", entry, reversed_order)
        named = {line for fault in faults for line in fault.lines}
        found += bool(faults)
        good = any(fault.kind == kind for fault in faults) and bool(named & lines)
        right += good
        missed += [] if good else [(entry, kind, lines, [(f.kind, f.lines, f.text) for f in faults])]
    print(f"{found} found, {right} right of {len(entries)}")
    assert found >= LEAST_FOUND and right >= LEAST_RIGHT, missed
    assert not missed, missed


@pytest.mark.parametrize("reversed_order", [False, True])
def test_correct_kernels_have_no_fault(reversed_order):
    entries = _entries("correct")
    assert len(entries) == 30
    alarms = {
        entry: [(f.kind, f.lines, f.text) for f in _faults("correct", entry, reversed_order)] for entry in entries
    }
    assert not any(alarms.values()), {entry: found for entry, found in alarms.items() if found}


def test_every_entry_has_the_parameters_of_the_problem():
    for name in ("faults", "correct"):
        text = (PLANTED / f"{name}.cu").read_text()
        assert all(len(parameters(text, entry)) == 3 for entry in _entries(name))

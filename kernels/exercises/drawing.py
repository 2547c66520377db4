"""Draws the hidden problems of an exercise: other sizes and other inputs for each grade.

A field of a problem is a value, {from = 33, to = 63} for a whole number in a range, {any = [32, 64]} for a choice, or a
list of these. The inputs have a seed of their own each time.
"""

from random import SystemRandom

from kernels.core.fields import fields_of
from kernels.core.problem import Problem
from kernels.core.spec import KernelSpec
from kernels.exercises.exercise import Exercise

_random = SystemRandom()
SEEDS = 2**32


def problems(exercise: Exercise, kernel: KernelSpec) -> list[Problem]:
    """The problems of one grade."""
    made = []
    for told in exercise.problems:
        fields = {name: _drawn(value) for name, value in told.items()}
        if "seed" in fields_of(kernel.problem_type):
            fields["seed"] = _random.randrange(SEEDS)
        made.append(kernel.problem_type(**fields))
    return made


def _drawn(value: object) -> object:
    if isinstance(value, list):
        return tuple(map(_drawn, value))
    if not isinstance(value, dict):
        return value
    return _random.choice(value["any"]) if "any" in value else _random.randint(value["from"], value["to"])

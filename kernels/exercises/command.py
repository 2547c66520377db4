"""The command `exercise` of the command line: lists exercises, writes a start text, grades an answer."""

import json
from pathlib import Path

from kernels.core.sources import read_text
from kernels.errors import ProblemError
from kernels.exercises.exercise import Exercise, listed
from kernels.exercises.grading import Grade, grade
from kernels.run import workers


def lines_of_list() -> list[str]:
    return [f"{one.number:2d} {one.name:20s} {one.title}" for one in listed().values()]


def write_start(exercise: Exercise) -> list[str]:
    """Writes NAME.cu into the current folder, and returns the task. Raises ProblemError if the file exists."""
    file = Path(f"{exercise.name}.cu")
    try:
        with file.open("x") as opened:
            opened.write(exercise.start)
    except OSError as error:
        raise ProblemError(f"{file} cannot be written: {error.strerror}. Grade it, or remove it.") from None
    grading = f"Then run: python -m kernels exercise {exercise.name} {file}"
    return [exercise.title, "", exercise.task, "", f"{file} has the text to begin with. {grading}"]


def graded(exercise: Exercise, file: str, time_limit: float) -> Grade:
    """The Grade of a file, from a worker. Raises ProblemError if it cannot be read."""
    text = read_text(Path(file))
    job = workers.submit(grade, exercise.name, text, backend="cpu", title=exercise.name, time_limit=time_limit)
    found = job.result()
    assert isinstance(found, Grade)
    return found


def lines_of_grade(found: Grade) -> list[str]:
    """A grade in words: all problems, then the evidence."""
    lines = ["accepted" if found.accepted else "not accepted", found.said]
    for case in found.cases:
        fields = ", ".join(f"{name}={value}" for name, value in case.problem.items())
        lines.append(f"  {'right' if case.ok else 'wrong'}: {fields}: {case.said}")
    lines += [f"  {one.kind}: {one.text}" for one in found.evidence]
    return lines if found.jailed else [*lines, "This machine has no jail. The answer ran with your own rights."]


def as_json(found: Grade) -> str:
    return json.dumps(found.as_json(), indent=1)

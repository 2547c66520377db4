"""Exercises: a kernel to finish or to mend, graded by the real check on hidden problems.

listed()   every Exercise, in order. find() one by its name
grade()    a text -> a Grade, a plain data object. Call it in a worker (kernels.run.workers)

An exercise is a folder of data:
    exercise.toml  title, idea, hints, hidden problems, and the edits that make the start from the solution
    task.md        the task in Markdown
    solution.cu    a right answer. Its front matter gives the launch of every answer
    story.md       the story of the solution
    wrong.toml     typical wrong answers as edits of the solution, each with its expected evidence

A fault to mend may have only exercise.toml, task.md and story.md, and names the exercise with its solution. The table
[bug] of exercise.toml has the public bug behind it, which the page Gallery shows.

exercise.py reads the folders and draws the hidden problems. grading.py judges an answer and counts its sectors and
wavefronts.
"""

from kernels.exercises.exercise import Bug, Exercise, find, listed
from kernels.exercises.grading import CaseResult, Evidence, Grade, grade

__all__ = ["Bug", "CaseResult", "Evidence", "Exercise", "Grade", "find", "grade", "listed"]

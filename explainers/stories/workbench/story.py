"""The workbench: an editor for a kernel, with the messages of its run on the CPU."""

from dataclasses import dataclass

from explainers.story.base import Runner, Story
from explainers.story.stage import Stage, View
from kernels import exercises


@dataclass(frozen=True)
class Bench:
    """The subject of the page.

    setting: the setting of the server for drafts, in a sentence.
    off: whether the server takes no drafts.
    starter: the first text.
    exercise: the chosen one, or "".
    """

    setting: str
    off: bool
    starter: str
    exercise: str = ""


class Workbench(Story[Bench]):
    """An editor. The page asks the server about each text."""

    def stage(self, subject: Bench, runner: Runner) -> Stage:
        given = {"starter": subject.starter, "setting": subject.setting, "off": subject.off}
        given |= {"exercise": subject.exercise}
        given |= {"exercises": [one.as_json() for one in exercises.listed().values()]}
        return Stage("", [], [View("workbench", "editor", "Editor", given)], summary=subject.setting)


STORY = Workbench()

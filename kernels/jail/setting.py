"""Whether a server takes kernels of its users, and where these run.

    local   the server listens only on this machine: its user's kernels run with the user's own rights
    jail    the server was started with --strangers: kernels of users are compiled and run in the jail
    off     everybody can reach the server: it takes only its own kernels

Drafts are texts from the page Workbench. They belong in the jail in each setting. Only on a machine without a jail, a
local server runs them with its user's rights.

A process learns its setting from its environment. The command line has no server, so it is local.
"""

import os
from enum import Enum
from pathlib import Path

from kernels.errors import ProblemError
from kernels.jail import in_place, jail

VARIABLE = "WARPGLASS_STRANGERS"
OURS = Path(__file__).parents[1]  # our kernels are below it
DRAFTS = "workbench-drafts"  # the folder of the drafts, each in a folder of its own


class Setting(Enum):
    """The place of users' kernels."""

    LOCAL = "local"
    JAIL = "jail"
    OFF = "off"


def in_force() -> Setting:
    """This process's setting. Raises ProblemError for an unknown word."""
    word = os.environ.get(VARIABLE, Setting.LOCAL.value)
    try:
        return Setting(word)
    except ValueError:
        known = ", ".join(setting.value for setting in Setting)
        raise ProblemError(f"{VARIABLE} is {word!r:.60}. It must be one of {known}.") from None


def sentence() -> str:
    """The setting in force, for the reader of a page. "" if the server is only for its own user."""
    return {
        Setting.LOCAL: "",
        Setting.JAIL: "compiled and run in the jail, without network and without files of a user",
        Setting.OFF: "off, as others can reach this server. Start it with --strangers to run them in the jail",
    }[in_force()]


def put_in_force(setting: Setting) -> None:
    os.environ[VARIABLE] = setting.value


def is_jailed(source: Path) -> bool:
    """Whether a kernel belongs in the jail: it is not ours and the setting says so, or it is a draft."""
    if source.is_relative_to(OURS):
        return False
    return in_force() is Setting.JAIL or (source.parents[1].name == DRAFTS and not why_no_jail())


def why_no_jail() -> str:
    """The reason why this machine cannot confine a compile and a run, else ""."""
    return jail.why_none() or in_place.why_none()


# ---- the workbench ----


def why_no_workbench() -> str:
    """The reason why this server takes no drafts, else ""."""
    if in_force() is Setting.OFF:
        return "The workbench is off, as others can reach this server. Start it with --strangers for runs in the jail."
    return why_no_jail() if in_force() is Setting.JAIL else ""


def of_workbench() -> str:
    """The setting in force for drafts, in a sentence for the page."""
    if reason := why_no_workbench():
        return reason
    if reason := why_no_jail():
        return f"Your kernel runs with your own rights, as this machine has no jail: {reason}"
    return "Your kernel runs on this server's CPU in a closed sandbox."

"""The server's setting for users' kernels (kernels/jail/setting.py), from the places that it listens at.

--strangers, WARPGLASS_STRANGERS=jail    everybody may bring kernels, and they run in the jail
otherwise                                only a server for this machine alone takes kernels from folders
"""

from app.guards.hosts import LOCAL, name_of
from kernels import jail
from kernels.errors import ProblemError
from kernels.jail import in_place
from kernels.jail.setting import VARIABLE, Setting


def decide(listens_at: str, more_hosts: str, wish: str) -> Setting:
    """The setting of a server.

    more_hosts: its additional names, with commas between them. A proxy brings others under such a name.
    wish: the text of WARPGLASS_STRANGERS.
    Raises ProblemError for another word, or if the jail does not work on this machine.
    """
    if wish not in ("", *(setting.value for setting in Setting)):
        raise ProblemError(f"{VARIABLE} is {wish!r:.60}. Set it to jail, or remove it.")
    if wish == Setting.JAIL.value:
        if reason := jail.why_none() or in_place.why_none():
            raise ProblemError(f"--strangers needs the jail. {reason[:1].upper()}{reason[1:].rstrip('.')}.")
        return Setting.JAIL
    names = {name_of(name) for name in more_hosts.split(",")} - {""}
    alone = listens_at in LOCAL and names <= LOCAL
    return Setting.LOCAL if alone and wish != Setting.OFF.value else Setting.OFF

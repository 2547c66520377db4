"""A jail for a stranger's text: its compile and its run see no file, no network and no environment of the server.

confine()       jail.py: runs a command in the jail of this machine
bubblewrap.py   an engine: namespaces, and a filter of system calls (filter.py)
landlock.py     an engine: sandlock, by Landlock and seccomp. It needs no namespaces
talk.py         bytes in and out, with limits
setting.py      which kernels belong to strangers, and what the server does with them
"""

from kernels.jail.jail import confine, engine, why_none
from kernels.jail.talk import Limits, Result

__all__ = ["Limits", "Result", "confine", "engine", "why_none"]

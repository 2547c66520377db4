"""The hosts that this server answers under. A foreign page can point its own name at this server (DNS rebinding). Its
requests carry that name, and the server refuses them.

    --host, server.address    the address that the server listens at
    --allow-host              an additional host name, for example a proxy's
    WARPGLASS_ALLOW_HOST      these names, with commas between them
"""

import ipaddress
import re
import socket
from dataclasses import dataclass
from functools import lru_cache

from kernels import jail
from kernels.errors import ProblemError
from kernels.jail import in_place, setting
from kernels.jail.setting import Setting

VARIABLE = "WARPGLASS_ALLOW_HOST"
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
EVERY_ADDRESS = ("0.0.0.0", "::", "")  # each of these: all addresses of the machine
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?")


@lru_cache(maxsize=256)
def name_of(host: str) -> str:
    """The name or the address in a Host header, without its port; "" if the text is no host."""
    found = _HOST.fullmatch(host.strip().lower())
    return (found[1] or found[2]).removesuffix(".") if found else ""


@dataclass(frozen=True)
class Hosts:
    """The allowed hosts.

    names: names and addresses, without ports
    any_address: whether each IP address is allowed; an address cannot be rebound, a name can"""

    names: frozenset[str]
    any_address: bool = False

    def allows(self, host: str) -> bool:
        name = name_of(host)
        if name in self.names or not self.any_address:
            return name in self.names
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def allowed(listens_at: str, more: str = "") -> Hosts:
    """The hosts of a server at an address. more: more names, with commas between them."""
    names = {name_of(one) or name_of(f"[{one.strip()}]") for one in (listens_at, *more.split(","))} | LOCAL
    if listens_at in EVERY_ADDRESS:
        own = socket.gethostname().lower()
        names |= {own, f"{own}.local"}
    return Hosts(frozenset(names) - {""}, listens_at in EVERY_ADDRESS)


def decide(listens_at: str, more_hosts: str, wish: str) -> Setting:
    """The setting of a server.

    more_hosts: its additional names, with commas between them. A proxy brings others under such a name.
    wish: the text of WARPGLASS_STRANGERS.
    Raises ProblemError for another word, or if the jail does not work on this machine."""
    if wish not in ("", *(setting.value for setting in Setting)):
        raise ProblemError(f"{setting.VARIABLE} is {wish!r:.60}. Set it to jail, or remove it.")
    if wish == Setting.JAIL.value:
        if reason := jail.why_none() or in_place.why_none():
            raise ProblemError(f"--strangers needs the jail. {reason[:1].upper()}{reason[1:].rstrip('.')}.")
        return Setting.JAIL
    names = {name_of(name) for name in more_hosts.split(",")} - {""}
    alone = listens_at in LOCAL and names <= LOCAL
    return Setting.LOCAL if alone and wish != Setting.OFF.value else Setting.OFF

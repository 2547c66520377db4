"""Serves Warpglass to a class: one process with uvicorn over st.App.

    python -m app.serve --host 0.0.0.0 --room-secret WORD [--password WORD | --login oidc] [--base-path warpglass]

Give secrets in the environment: WARPGLASS_ROOM_SECRET, WARPGLASS_PASSWORD. On the command line other users of the
machine see them until this module has read them. Rooms need one process. Kernels run in workers.
"""

import argparse
import contextlib
import os
import secrets
import sys
from pathlib import Path

from app.guards.hosts import LOCAL, VARIABLE

ROOT = Path(__file__).resolve().parents[1]


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(prog="python -m app.serve", description="Serves Warpglass to a class.")
    arguments.add_argument("--host", default="127.0.0.1", help="address to listen at (0.0.0.0: all of this machine's)")
    arguments.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="an additional host name, for example a proxy's (may be repeated)",
    )
    arguments.add_argument("--port", type=int, default=8501)
    arguments.add_argument("--base-path", default="", help="the path below the host, behind a proxy that passes it on")
    arguments.add_argument(
        "--proxy", default="127.0.0.1", help="addresses of proxies whose X-Forwarded-... are believed"
    )
    arguments.add_argument(
        "--room-secret", help="the secret of the leaders of a class (made up and printed, if not given)"
    )
    arguments.add_argument(
        "--strangers", action="store_true", help="take kernels from folders also for others, and run them in the jail"
    )
    arguments.add_argument("--password", help="the class password")
    arguments.add_argument(
        "--audit-log", metavar="FILE", help="a file for wrong passwords, drafts in the jail and more"
    )
    arguments.add_argument("--login", choices=["oidc"], help="st.login, as [auth] in .streamlit/secrets.toml says")
    return arguments


def main(arguments: list[str] | None = None) -> int:
    """Serves until it is stopped. Returns 0 after a stop, 1 if it could not start, and 2 for a wrong command line."""
    given = parser().parse_args(arguments)
    if not 0 < given.port < 2**16:
        print(f"--port is {given.port}. It must be from 1 to 65535.", file=sys.stderr)
        return 2
    base = given.base_path.strip("/")
    said = {
        "WARPGLASS_ROOM_SECRET": given.room_secret,
        "WARPGLASS_PASSWORD": given.password,
        "WARPGLASS_LOGIN": given.login,
        "WARPGLASS_STRANGERS": "jail" if given.strangers else "",
        "WARPGLASS_AUDIT_LOG": given.audit_log and str(Path(given.audit_log).resolve()),
    }
    os.environ.update({name: value for name, value in said.items() if value})
    if given.allow_host:
        os.environ[VARIABLE] = ",".join([*filter(None, [os.environ.get(VARIABLE)]), *given.allow_host])
    if given.host not in LOCAL and not os.environ.get("WARPGLASS_ROOM_SECRET"):
        os.environ["WARPGLASS_ROOM_SECRET"] = secrets.token_urlsafe(6)
        print(f"Room secret, asked of who leads a class: {os.environ['WARPGLASS_ROOM_SECRET']}")
    from kernels.build import child
    from kernels.errors import WarpglassError

    child.forget(given.room_secret, given.password)
    try:
        from app.classroom import access

        access.check()
        import uvicorn
        from streamlit import config

        from app.guards import connections

        try:
            held = connections.listening(given.host, given.port)
        except OSError as error:
            remedy = "If another server has this port, choose one with --port. --host is an address of this machine."
            print(f"No server started at {given.host}:{given.port}: {error}. {remedy}", file=sys.stderr)
            return 1
        with contextlib.chdir(ROOT):  # the first option reads .streamlit/config.toml
            config.set_option("server.baseUrlPath", base)
        config.set_option("server.port", given.port)
        config.set_option("server.address", given.host)
        from app.main import app
    except WarpglassError as error:
        print(error, file=sys.stderr)
        return 2
    shown = "127.0.0.1" if given.host in ("0.0.0.0", "::") else given.host
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{given.port}/{base and base + '/'}"
    server = connections.Server(
        uvicorn.Config(
            app,
            http=connections.Connection,
            access_log=False,
            log_level="warning",
            timeout_keep_alive=75,  # a follower asks again within the minute, over the connection that it has
            timeout_graceful_shutdown=2,  # sockets of a class never end by themselves
            ws="websockets-sansio",
            ws_max_size=2**20,
            ws_ping_interval=15,
            ws_ping_timeout=15,
            ws_per_message_deflate=False,  # messages of 300 bytes
            forwarded_allow_ips=given.proxy,
        ),
        held,
        lambda: print(f"Warpglass: {address}", flush=True),
    )
    with contextlib.suppress(KeyboardInterrupt):
        server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())

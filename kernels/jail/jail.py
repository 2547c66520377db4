"""Runs a command in the jail of this machine. The engine is the first that passes a test on this machine."""

import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from kernels.errors import BackendUnavailable
from kernels.jail import bubblewrap, landlock
from kernels.jail.talk import Limits, Result

ENGINES: tuple[ModuleType, ...] = (bubblewrap, landlock)
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TMPDIR": "."}
_BRING = '"$@" >&2 && exec cat "$0"'  # the command, and then the file that it wrote
_SECRET = "a text outside the jail"
# The proof of an engine: the command runs, and the file beside it is out of its reach.
_PROOF = 'test -r "$0" && cat "$0"; echo > "$0"; echo proven'
_PROOF_LIMITS = Limits(seconds=20.0)
_SYSTEM = tuple(Path(path) for path in ("/usr/bin", "/usr/lib", "/usr/lib64", "/bin", "/lib", "/lib64"))


def confine(
    command: Sequence[str],
    *,
    reads: Sequence[Path] = (),
    stdin: bytes | memoryview = b"",
    out: str = "",
    limits: Limits = Limits(),  # noqa: B008 - frozen
    environment: dict[str, str] | None = None,
) -> Result:
    """Runs a command without files, network, environment or descriptors. Afterwards none of its processes is left.

    reads: the files and folders that it sees, read-only, under their own names.
    out: a file that it writes into its folder, returned as the output. Without it, it writes no files.
    Raises BackendUnavailable with the reason if no engine works here."""
    wrapped = ["/bin/sh", "-c", _BRING, out, *command] if out else list(command)
    return engine().run(wrapped, reads, stdin, limits, {**_ENVIRONMENT, **(environment or {})}, bool(out))


@lru_cache
def engine() -> ModuleType:
    """The engine of this machine. Raises BackendUnavailable with the reason of each if none works."""
    reasons = []
    for one in ENGINES:
        reason = fault(one)
        if not reason:
            return one
        reasons.append(f"{one.NAME}: {reason}")
    raise BackendUnavailable(f"No jail works on this machine. {'. '.join(reasons)}.")


def why_none() -> str:
    """The reason why no jail works here, else ""."""
    try:
        engine()
        return ""
    except BackendUnavailable as error:
        return str(error)


@lru_cache
def fault(one: ModuleType) -> str:
    """The reason why an engine does not work on this machine, else ""."""
    missing: str = one.missing()
    if missing:
        return missing
    with tempfile.NamedTemporaryFile("w", prefix="jail-proof-") as outside:
        outside.write(_SECRET)
        outside.flush()
        command = ["/bin/sh", "-c", _PROOF, outside.name]
        reads = [path for path in _SYSTEM if path.exists()]
        try:
            done: Result = one.run(command, reads, b"", _PROOF_LIMITS, _ENVIRONMENT, False)
        except OSError as error:
            return f"it does not start ({error})"
        untouched = Path(outside.name).read_text() == _SECRET
    if done.output == b"proven\n" and untouched:
        return ""
    if done.code or done.stopped or not done.output:
        said = done.log.strip().splitlines()
        return f"it does not start ({said[-1] if said else f'exit code {done.code}'})"
    return "it lets a command reach a file outside"

"""The errors, one class per stage. Every message states the event, its values and the remedy.

WarpglassError
├── ProblemError          an impossible field, constant, kernel name or scope, before any launch
│   ├── FrontMatterError  an unreadable opening comment of a .cu, with file, key and remedy
│   ├── CannotRun         a kernel beyond the limits of this device
│   ├── TooLargeError     a problem above the limits of memory or time
│   ├── OutOfBlocks       too few free pages in the KV cache, which stays unchanged
│   └── NoKernel          an operator's call that no kernel supports, with the reason of each
├── BackendUnavailable    no GPU, no compiler, no recording
├── PeerUnavailable       a peer without support for this problem, type or device
├── BuildError            a compiler error, with our file and line
├── CacheError            neither the cache folder nor a temporary one is writable
├── RunError              a launched kernel failed
│   ├── OutOfMemory       too little memory on the GPU
│   ├── RunTimeout        stopped at its time limit
│   ├── RunCancelled      stopped by the user
│   └── WorkerDied        its process ended. The pool has replaced it.
└── TraceError            an unreadable trace, recording or table
"""

FAULT = "This is a fault of Warpglass. Its log has the place."  # the message for any other exception


class WarpglassError(Exception):
    """The base of all errors for users."""

    @property
    def brief(self) -> str:
        """The first sentence of the message, without the remedy."""
        return f"{str(self).split('. ')[0].rstrip('.')}."


class ProblemError(WarpglassError): ...


class FrontMatterError(ProblemError): ...


class CannotRun(ProblemError): ...


class TooLargeError(ProblemError): ...


class OutOfBlocks(ProblemError): ...


class NoKernel(ProblemError): ...


class BackendUnavailable(WarpglassError): ...


class PeerUnavailable(WarpglassError): ...


class BuildError(WarpglassError):
    log = ""  # of the compiler


class CacheError(WarpglassError): ...


class RunError(WarpglassError): ...


class OutOfMemory(RunError): ...


class RunTimeout(RunError): ...


class RunCancelled(RunError): ...


class WorkerDied(RunError): ...


class TraceError(WarpglassError): ...

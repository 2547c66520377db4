"""What can go wrong, one class per stage. Every message says what happened, with which values, and what to do next.

WarpglassError
├── ProblemError          a field, constant, kernel name or scope that cannot be; nothing was launched
│   ├── FrontMatterError  the opening comment of a .cu cannot be read; the message names file, key and remedy
│   ├── TooLargeError     it could be, but not in the memory or time there is
│   └── OutOfBlocks       the KV cache has fewer free pages than are needed; it is as it was
├── BackendUnavailable    no GPU, no compiler, no recording
├── PeerUnavailable       torch has no such attention for this problem, type or device
├── BuildError            the compiler refused; the message names our file and line
├── CacheError            nothing can be kept: neither the cache folder nor a temporary one can be written
├── RunError              the kernel was launched and did not finish well
│   ├── OutOfMemory       the GPU had too little memory for it
│   ├── RunTimeout        it outran its limit and was stopped
│   ├── RunCancelled      the user stopped it
│   └── WorkerDied        its process ended under it; another has taken its place
└── TraceError            a trace, recording or table that cannot be read
"""

FAULT = "This is a fault of Warpglass; its log says where."  # told of any other exception


class WarpglassError(Exception):
    """The base of all errors that a user may read."""

    @property
    def brief(self) -> str:
        """Its first sentence: what happened, without the remedy."""
        return f"{str(self).split('. ')[0].rstrip('.')}."


class ProblemError(WarpglassError):
    pass


class FrontMatterError(ProblemError):
    pass


class TooLargeError(ProblemError):
    pass


class OutOfBlocks(ProblemError):
    pass


class BackendUnavailable(WarpglassError):
    pass


class PeerUnavailable(WarpglassError):
    pass


class BuildError(WarpglassError):
    pass


class CacheError(WarpglassError):
    pass


class RunError(WarpglassError):
    pass


class OutOfMemory(RunError):
    pass


class RunTimeout(RunError):
    pass


class RunCancelled(RunError):
    pass


class WorkerDied(RunError):
    pass


class TraceError(WarpglassError):
    pass

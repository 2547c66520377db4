"""The compiled launcher (launcher.cpp): calls of known plans without Python.

The first call on a GPU starts its build by the system's C++ compiler, in the background. It takes about 20 s once for a
version of torch. Calls run in Python until it is ready, and for good without a compiler. WARPGLASS_LAUNCHER=off keeps
them in Python.
"""

import ctypes
import ctypes.util
import os
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from threading import Lock, Thread
from types import ModuleType

import torch

from kernels.build import cache, cpp, cpp_compiler
from kernels.errors import BackendUnavailable, BuildError, WarpglassError
from kernels.run.backends import driver

SOURCE = Path(__file__).with_name("launcher.cpp")
NAME = "warpglass_launcher"
VARIABLE = "WARPGLASS_LAUNCHER"  # "off" keeps calls in Python
DRIVER, STREAMS = "libcuda.so.1", "libc10_cuda.so"
KNOWN_S = 1.0  # seconds for the load of a former build, before the first call goes on
BUILD_S = 300.0  # seconds for a build, in wall-clock time. It takes about 20 s on an idle machine
SOURCES = {"given": 0, "constant": 1, "empty": 2, "zero": 3, "kept": 4}  # enum Source
ALIGNED = 16  # bytes: the launcher and the kernels take addresses at multiples
module: ModuleType | None = None  # the launcher, once it is loaded
reason = "No call has needed it so far."  # against it, in a sentence
watchers: list[Callable[..., None]] = []  # called with each call's plan and tensors
_thread: Thread | None = None
_lock = Lock()


def start() -> None:
    """Starts the build in the background, once, and loads a former build at once."""
    global _thread
    with _lock:
        if _thread is not None:
            return
        _thread = Thread(target=_load, name="warpglass launcher", daemon=True)
        _thread.start()
    _thread.join(KNOWN_S)


def wait() -> str:
    """Waits for the launcher. Returns "" if it is loaded, otherwise the reason against it in a sentence."""
    start()
    if _thread is not None:
        _thread.join()
    return reason


def _load() -> None:
    global module, reason
    try:
        if os.environ.get(VARIABLE) == "off":
            raise BackendUnavailable(f"{VARIABLE} is off.")
        made = load(built())
        if not made.set_up(DRIVER, STREAMS, _failed, _backward):
            raise BackendUnavailable(f"{DRIVER} or {STREAMS} lacks a function that the launcher needs.")
        reason, module = "", made
        _rest()
    except (WarpglassError, ImportError, OSError) as error:
        reason = str(error)


def built() -> Path:
    """The launcher's library for this torch and this Python. Raises BuildError, BackendUnavailable or CacheError."""
    command = cpp_compiler()
    if "ziglang" in command:
        raise BackendUnavailable("The launcher needs g++ or clang++, as torch's library for C++ is libstdc++.")
    own = Path(torch.__file__).parent
    folders = [own / "include", own / "include/torch/csrc/api/include", Path(sysconfig.get_paths()["include"])]
    options = [
        *("-shared", "-fPIC", "-std=c++20", "-O2", "-fvisibility=hidden"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(f"-I{folder}" for folder in folders),
        *(f"-L{own / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10"),
    ]
    product = f"{NAME}.so"

    def make(folder: Path) -> dict[str, object]:
        words = [*command, str(SOURCE), "-o", str(folder / product), *options]
        done = cpp.run(words, {"TMPDIR": str(folder), "LC_ALL": "C"}, BUILD_S)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
            raise BuildError(f"The launcher does not compile: {' '.join(lines[:1])}. Calls run in Python.")
        return {}

    key = cache.key_of(SOURCE.read_text(), torch.__version__, sysconfig.get_config_var("SOABI"), repr(options))
    return cache.get(key, product, make)[0] / product


def load(path: Path) -> ModuleType:
    """The module of the launcher's library, not set up yet."""
    loader = ExtensionFileLoader(NAME, str(path))
    spec = spec_from_loader(NAME, loader)
    if spec is None:
        raise ImportError(f"{path} is no module.")
    made = module_from_spec(spec)
    loader.exec_module(made)
    return made


def _failed(status: int) -> None:
    """Raises our error for a driver's status of a launch."""
    from cuda.bindings import driver as cuda

    driver.checked((cuda.CUresult(status),))


def _backward(*given: object) -> object:
    return torch.ops.warpglass.attention_backward.default(*given)


# ---- watchers ----


@contextmanager
def watched(watcher: Callable[..., None]) -> Iterator[None]:
    """Calls the watcher with each call's plan and tensors. The compiled launcher rests meanwhile."""
    watchers.append(watcher)
    _rest()
    try:
        yield
    finally:
        watchers.remove(watcher)
        _rest()


def _rest() -> None:
    if module is not None:
        module.pause(bool(watchers))


def bytes_of(address: int, count: int) -> bytes:
    """The memory of a C structure."""
    return ctypes.string_at(address, count)

"""The same .cu executed on the CPU: a shared library over kernels/simt, called through ctypes. Gives results, never times."""

import ctypes
import os
import platform
import re
from functools import lru_cache
from pathlib import Path

import numpy as np

from kernels.backends import Device
from kernels.build import CPU, cpp_compiler
from kernels.errors import BackendUnavailable, RunError
from kernels.probes import RECORD
from kernels.trace import RawRecords

SHARED_MAX = 227 * 1024  # simt.h allows what an H200 allows


class _Buffer(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_uint64)]


class _Launch(ctypes.Structure):  # struct Launch of simt.h
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint),
                ("reversed", ctypes.c_uint), ("buffer_count", ctypes.c_uint), ("buffers", ctypes.POINTER(_Buffer)),
                ("message", ctypes.c_char * 512)]


@lru_cache
def device():
    if platform.machine() not in ("x86_64", "aarch64", "arm64") or platform.system() != "Linux":
        raise BackendUnavailable(f"The CPU shim runs on Linux, on x86-64 and 64-bit Arm; this is {platform.system()} on {platform.machine()}.")
    cpp_compiler()
    return Device("cpu", _processor(), CPU, SHARED_MAX, _available_bytes())


def _processor():
    """The processor's model name, as Linux gives it."""
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1].strip() if found else platform.machine()


def _available_bytes():
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@lru_cache(maxsize=64)
def _library(path):
    return ctypes.CDLL(str(path))


def launch(build, plan, arrays, scope, capacities=None, reversed_order=False):
    """Runs the plan's launches in order over `arrays` (name -> float32 NumPy array, written in place).

    With `capacities` (records per thread, one per launch; probed builds only) returns their RawRecords, else []. With
    `reversed_order` threads run last to first: an output that changes is a race. RunError names block and thread.
    """
    library, found = _library(build.path), []
    for number, step in enumerate(plan.launches):
        values = [_pointer(arrays[a]) if isinstance(a, str) else a for a in step.args]
        if capacities is not None:
            first, blocks = scope.blocks(step)
            records = np.zeros((blocks * step.threads, capacities[number]), RECORD)
            counts = np.zeros(blocks * step.threads, np.uint32)
            found.append(RawRecords(number, first, step.threads, records, counts))
            values += [_pointer(records), _pointer(counts), np.uint32(capacities[number]), np.uint32(first), np.uint32(blocks)]
        _run(library, step, values, [arrays[a] for a in step.args if isinstance(a, str)], reversed_order)
    return found


def _pointer(array):
    return np.uint64(array.ctypes.data)


def _run(library, step, values, buffers, reversed_order):
    held = [np.array([value]) for value in values]
    args = (ctypes.c_void_p * len(held))(*[value.ctypes.data for value in held])
    table = (_Buffer * len(buffers))(*[_Buffer(b.ctypes.data, b.nbytes) for b in buffers])
    request = _Launch((ctypes.c_uint * 3)(*step.grid), (ctypes.c_uint * 3)(*step.block), step.shared_bytes, reversed_order, len(buffers), table)
    if library[f"launch_{step.entry}"](ctypes.byref(request), args):
        raise RunError(f"{step.entry} was stopped on the CPU at {request.message.decode(errors='replace')}")

"""The machine code of a cubin: its size and its text by nvdisasm."""

import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from kernels.build import packages
from kernels.errors import BackendUnavailable, BuildError

SECONDS = 120.0  # for a listing
INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?;)")  # in nvdisasm's listing: its address, and itself


@lru_cache
def _nvdisasm() -> str:
    """The path of nvdisasm: on PATH, in the toolkit, next to nvcc, or in nvidia-cuda-nvdisasm's wheel."""
    roots = [packages.toolkit() / "bin"]
    nvcc = shutil.which("nvcc")
    roots += [Path(nvcc).resolve().parent] if nvcc else []
    roots += [path for base in sys.path for path in Path(base or ".").glob("nvidia/*/bin")]
    found = shutil.which("nvdisasm") or shutil.which("nvdisasm", path=os.pathsep.join(map(str, roots)))
    if not found:
        raise BackendUnavailable(f"nvdisasm was not found. Run: {packages.command()}")
    return found


@lru_cache(maxsize=32)
def sass(cubin: Path, with_lines: bool = False) -> str:
    """nvdisasm's listing of a cubin. with_lines: with each instruction's line of PTX in a comment."""
    command = [_nvdisasm(), "-c", *(["-gp"] if with_lines else []), str(cubin)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise BuildError(
            f"nvdisasm did not read {cubin.name} within {SECONDS:g} s. Try again with less work."
        ) from None
    if done.returncode:
        raise BuildError(f"nvdisasm could not read {cubin.name}: {done.stderr.strip()}")
    return done.stdout


def sections_of(text: str, symbols: Collection[str]) -> str:
    """The parts of a listing with the code of these symbols. A linked cubin also has CUDA's device runtime."""
    parts = re.split(r"^(?=\s*\.section\s)", text, flags=re.M)
    named = ((part, re.match(r"\s*\.section\s+\.text\.(\w+)", part)) for part in parts)
    return "".join(part for part, section in named if section and section[1] in symbols)


def code_bytes(cubin: Path, symbols: Collection[str]) -> int:
    """The size of these symbols' machine code. It reads the ELF's table of sections: nvdisasm takes half a second."""
    elf = cubin.read_bytes()
    (table,), (row, count, names) = struct.unpack_from("<Q", elf, 40), struct.unpack_from("<3H", elf, 58)
    sections = [struct.unpack_from("<IIQQQQ", elf, table + n * row) for n in range(count)]
    texts = sections[names][4]  # the offset of their names
    sizes = {elf[texts + name :].partition(b"\0")[0].decode(): size for name, *_, size in sections}
    return sum(sizes.get(f".text.{symbol}", 0) for symbol in symbols)

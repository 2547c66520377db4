"""Source + mode + target -> Build. NVRTC makes a cubin for one architecture (no GPU needed), the system's C++ compiler a
shared library of the same source over kernels/simt. Built once per content: the cache key hashes source, headers,
options and compiler version."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from kernels.errors import BackendUnavailable, BuildError, ProblemError

HERE = Path(__file__).parent
CPU = "cpu"
DEFAULT_ARCH = "sm_90a"
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(.*?;)")  # in nvdisasm's listing, without its address


class Mode(Enum):
    """TIMED compiles the probes to nothing; PROBED writes a trace; TIMELINE notes only when and on which multiprocessor each block ran.
    A kernel's time comes only from TIMED."""

    TIMED = "timed"
    PROBED = "probed"
    TIMELINE = "timeline"


@dataclass(frozen=True)
class EntryFacts:
    """What ptxas said of one kernel in a cubin. Shared bytes are static ones; a launch adds its dynamic ones."""

    entry: str
    registers: int
    shared_bytes: int
    spill_bytes: int
    stack_bytes: int


@dataclass(frozen=True)
class Build:
    """A compiled kernel: `path` is a cubin or a shared library, `facts` is empty for the CPU."""

    kernel: str
    mode: Mode
    target: str
    path: Path
    compiler: str
    log: str
    facts: tuple[EntryFacts, ...] = ()

    @property
    def ptx_path(self):
        return self.path.with_suffix(".ptx")


def build(spec, defines, mode, target):
    """The Build of `spec` (a KernelSpec) for "cpu" or an architecture such as "sm_90a".

    Raises BuildError with file and line, BackendUnavailable where there is no compiler, ProblemError for an unknown target.
    """
    options = [f"-D{name}={value}" for name, value in sorted(defines.items())]
    options += {Mode.TIMED: [], Mode.PROBED: ["-DPROBED"], Mode.TIMELINE: ["-DTIMELINE"]}[mode]
    toolchain = _CpuToolchain() if target == CPU else _Nvrtc(target)
    options += toolchain.options
    headers = (path.read_text() for path in _headers(spec.folder))
    folder = cache_folder() / _hash(spec.name, spec.source, *headers, toolchain.version, target, *options)[:32]
    product = folder / f"{spec.name}{toolchain.suffix}"
    if not product.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-") as work:
            log, facts = toolchain.compile(spec, options, Path(work))
            Path(work, "build.json").write_text(json.dumps({"log": log, "facts": [asdict(fact) for fact in facts]}))
            try:
                os.rename(work, folder)
                os.mkdir(work)  # for TemporaryDirectory to remove
            except OSError:
                if not product.exists():  # else another process made the same thing first
                    raise
    made = json.loads((folder / "build.json").read_text())
    return Build(spec.name, mode, target, product, toolchain.version, made["log"], tuple(EntryFacts(**fact) for fact in made["facts"]))


def cache_folder():
    """$WARPGLASS_CACHE, or warpglass in the user's cache folder."""
    if os.environ.get("WARPGLASS_CACHE"):
        return Path(os.environ["WARPGLASS_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warpglass"


def _headers(folder):
    return sorted({*folder.glob("*.cuh"), *(HERE / "cuda").glob("*.cuh"), *(HERE / "simt").glob("*.h")})


def _hash(*texts):
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


# ---- the CPU ----


@lru_cache
def cpp_compiler():
    """The command of a C++17 compiler: $CXX, g++, clang++, c++, or the ziglang wheel. BackendUnavailable if there is none."""
    for name in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        if name and shutil.which(name):
            return (shutil.which(name),)
    if _run([sys.executable, "-m", "ziglang", "version"]).returncode == 0:
        return (sys.executable, "-m", "ziglang", "c++")
    raise BackendUnavailable("No C++ compiler was found. Install one (Debian: apt install g++) or the ziglang wheel (pip install "
                             "ziglang), or set CXX.")


@lru_cache
def _cpp_version(command):
    return _run([*command, "--version"]).stdout.splitlines()[0].strip()


def _run(command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _has_fma():
    """Whether an x86 processor has fused multiply-add; without it fmaf is exact too, only slow."""
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and re.search(r"^flags\s*:.*\bfma\b", cpuinfo.read_text(), re.M) is not None


class _CpuToolchain:
    suffix = ".so"

    def __init__(self):
        self.command = cpp_compiler()
        self.version = _cpp_version(self.command)
        # No contraction: only the fmaf written in the source is fused, so that the CPU rounds where the GPU does.
        self.options = ["-std=c++17", "-O2", "-ffp-contract=off", *(["-mfma"] if _has_fma() else [])]

    def compile(self, spec, options, folder):
        entries = re.findall(r'extern "C" __global__ void (?:__launch_bounds__\(.*\)\s*)?(\w+)\(', spec.source)
        unit = folder / "unit.cpp"
        unit.write_text(f'#include "{spec.path}"\n' + "".join(f"SIMT_EXPORT({entry})\n" for entry in entries))
        done = _run([*self.command, *options, "-fPIC", "-shared", "-fvisibility=hidden", f"-I{HERE / 'cuda'}", f"-I{HERE / 'simt'}",
                     "-x", "c++", str(unit), "-o", str(folder / f"{spec.name}.so")])
        if done.returncode:
            raise BuildError(_first_error(spec, done.stderr, r"([^\s:]+\.cuh?|[^\s:]+\.h):(\d+):\d+: (?:fatal )?error: (.*)"))
        return done.stderr, ()


# ---- the GPU ----


@lru_cache
def _nvrtc():
    try:
        from cuda.bindings import nvrtc

        _check(nvrtc, nvrtc.nvrtcVersion())
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        raise BackendUnavailable(f"NVRTC, the CUDA compiler, could not be loaded ({error}). Install requirements.txt, or on a machine "
                                 "with CUDA 13 the wheels cuda-bindings and nvidia-cuda-nvrtc.") from None
    return nvrtc


def _check(nvrtc, result):
    code, *values = result
    if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(f"NVRTC says {code.name}")
    return values[0] if len(values) == 1 else tuple(values)


def architectures():
    """The targets that this NVRTC knows, the plain ones and the arch-specific "a" ones from sm_90 on."""
    nvrtc = _nvrtc()
    numbers = _check(nvrtc, nvrtc.nvrtcGetSupportedArchs())
    return tuple(f"sm_{n}{suffix}" for n in numbers for suffix in (("", "a") if n >= 90 else ("",)))


class _Nvrtc:
    suffix = ".cubin"

    def __init__(self, arch):
        self.nvrtc = _nvrtc()
        if arch not in architectures():
            raise ProblemError(f"arch is {arch!r}; this NVRTC knows {', '.join(architectures())}.")
        self.version = "NVRTC {}.{}".format(*_check(self.nvrtc, self.nvrtc.nvrtcVersion()))
        self.arch = arch
        # no-cache: what NVRTC takes from its own cache comes without the log that tells registers and spills; the cache is ours.
        # fmad=false: only the fmaf written in the source is fused, so that the GPU rounds where the CPU does.
        self.options = ["--std=c++17", f"--gpu-architecture={arch}", "-lineinfo", "--ptxas-options=-v", "--fmad=false", "--no-cache"]

    def compile(self, spec, options, folder):
        nvrtc = self.nvrtc
        program = _check(nvrtc, nvrtc.nvrtcCreateProgram(spec.source.encode(), str(spec.path).encode(), 0, None, None))
        flags = [option.encode() for option in [*options, f"-I{HERE / 'cuda'}"]]
        (code,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        log = self._text(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
        if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise BuildError(_first_error(spec, log, r"([^\s:]+\.cuh?)\((\d+)\): (?:catastrophic )?error: (.*)"))
        (folder / f"{spec.name}.cubin").write_bytes(self._bytes(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN))
        (folder / f"{spec.name}.ptx").write_text(self._text(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX))
        _check(nvrtc, (*nvrtc.nvrtcDestroyProgram(program), None))
        facts = _ptxas_facts(log)
        if not facts:
            raise BuildError(f"{spec.path.name} was compiled for {self.arch}, but ptxas told no registers; its log: {log[:500]!r}")
        return log, facts

    def _bytes(self, program, size, get):
        """What `get` writes. NVRTC writes into the bytes object itself, so it must be ours alone: Python shares those of length 0 and 1."""
        count = _check(self.nvrtc, size(program))
        buffer = bytes(count + 2)
        _check(self.nvrtc, (*get(program, buffer), None))
        return buffer[:count]

    def _text(self, program, size, get):
        return self._bytes(program, size, get).rstrip(b"\0").decode()


def _ptxas_facts(log):
    facts = []
    for part in re.split(r"Compiling entry function '", log)[1:]:
        def number(pattern, part=part):
            found = re.search(pattern, part)
            return int(found[1]) if found else 0
        facts.append(EntryFacts(part.split("'")[0], number(r"Used (\d+) registers"), number(r"(\d+) bytes smem"),
                                number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
                                number(r"(\d+) bytes stack frame")))
    return tuple(facts)


def _first_error(spec, log, pattern):
    found = re.search(pattern, log)
    refused = re.search(r"^ptxas .*error\s*: (.*)$", log, re.M)
    if refused and not found:
        return f"{spec.path.name} does not compile for this architecture: {refused[1]}"
    if not found:
        return f"{spec.path.name} does not compile: {log.strip()[:2000]}"
    return f"{Path(found[1]).name} line {found[2]}: {found[3].strip()}"


@lru_cache
def _nvdisasm():
    """The path of nvdisasm: on PATH, under CUDA_HOME or CUDA_PATH, beside nvcc, or in the nvidia-cuda-nvdisasm wheel."""
    roots = [Path(root) / "bin" for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda") if root]
    nvcc = shutil.which("nvcc")
    roots += [Path(nvcc).resolve().parent] if nvcc else []
    roots += [path for base in sys.path for path in Path(base or ".").glob("nvidia/*/bin")]
    found = shutil.which("nvdisasm") or shutil.which("nvdisasm", path=os.pathsep.join(map(str, roots)))
    if not found:
        raise BackendUnavailable("nvdisasm was not found. Install the nvidia-cuda-nvdisasm wheel, or set CUDA_HOME.")
    return found


@lru_cache(maxsize=32)
def sass(cubin: Path, with_lines=False):
    """The machine code of a cubin, as nvdisasm prints it; with comments that give each instruction's line of PTX, if wanted."""
    done = _run([_nvdisasm(), "-c", *(["-gp"] if with_lines else []), str(cubin)])
    if done.returncode:
        raise BuildError(f"nvdisasm could not read {cubin.name}: {done.stderr.strip()}")
    return done.stdout


def instructions(sass_text):
    """The instructions of a disassembly, addresses and headers left out."""
    return INSTRUCTION.findall(sass_text)

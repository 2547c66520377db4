"""CUDA's packages. All of a process must be for one major, since a loader takes whichever library it finds first.

The sets are files of requirements in kernels/: cpu.txt (the compiler without a GPU), cuda12.txt, cuda13.txt.
"""

import os
import runpy
from collections.abc import Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETS = {12: "cuda12", 13: "cuda13"}
"""The set of each major."""


def command(name: str = "") -> str:
    """The command to install a set: of a checkout, or of the installed package. The default is the set of CuPy."""
    if not name:
        found = {str(one.name) for one in metadata.distributions()}
        name = next((SETS[major] for major in SETS if f"cupy-cuda{major}x" in found), "cpu")
    if not (ROOT / "requirements.txt").is_file():
        return f"pip install 'warpglass[{name}]'"
    if name == SETS[12]:
        return "pip install -r requirements.txt"
    return f"pip install -r app/requirements.txt -r kernels/{name}.txt"


def toolkit() -> Path:
    """The folder of a CUDA toolkit. It may be missing. CUDA_HOME, else CUDA_PATH, else /usr/local/cuda."""
    return Path(os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda")


def majors(nvrtc: int, cupy: int) -> dict[str, int]:
    """Each package with its version -> its CUDA major. A torch for the CPU has none.

    nvrtc, cupy: the majors of the loaded NVRTC and of CuPy's runtime."""
    bindings = metadata.version("cuda-bindings")
    found = {"CuPy": cupy, "NVRTC": nvrtc, f"cuda-bindings {bindings}": int(bindings.split(".")[0])}
    torch = find_spec("torch")
    if torch and torch.origin:
        # torch's import takes seconds
        version = runpy.run_path(str(Path(torch.origin).with_name("version.py")))
        if version["cuda"]:
            found[f"torch {version['__version__']}"] = int(version["cuda"].split(".")[0])
    return found


def fault(packages: Mapping[str, int], driver: int) -> str | None:
    """The two packages of different majors, or a too old driver, with the remedy. None if all agree.

    packages: as of majors().
    driver: the newest CUDA major of the driver. It runs older ones too."""
    (first, major), *others = packages.items()
    other = next(((name, number) for name, number in others if number != major), None)
    remedy = f"In a new environment, run: {command(SETS[13 if driver >= 13 else 12])}"
    if other:
        return f"No GPU is used: {first} is for CUDA {major}, and {other[0]} is for CUDA {other[1]}. {remedy}"
    if driver < major:
        return f"No GPU is used: {first} is for CUDA {major}, and the driver runs CUDA {driver} at most. {remedy}"
    return None

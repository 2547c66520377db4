"""What a user brings: a kernel of one file, and a family of one folder. Tests drop them where nothing knows them."""

import re
from pathlib import Path

from kernels import catalog, families

HERE = Path(__file__).parent
ONE_KERNEL = HERE / "one_kernel.cu"
ODD_FAMILY = HERE / "odd_family"
SKELETON = Path(families.__file__).parents[1] / "skeleton.cu"


def skeleton_kernel(folder):
    """The path of a copy of kernels/skeleton.cu in the folder, as kernels/first-kernel.md shows it."""
    path = folder / "scaled_copy.cu"
    path.write_text(SKELETON.read_text())
    return path


def conditional_kernel(folder, must="not causal", name="not_causal"):
    """The path of the skeleton under another name, with a condition that refuses some standard problems."""
    text = skeleton_kernel(folder).read_text()
    (folder / "scaled_copy.cu").unlink()
    condition = f'[[conditions]]\nmust = "{must}"\nmessage = "It must be that {must}."\n\n[[launches]]'
    path = folder / f"{name}.cu"
    path.write_text(text.replace("[[launches]]", condition, 1))
    return path


def silent_kernel(folder):
    """The path of the skeleton without its probes, in plain CUDA."""
    text = skeleton_kernel(folder).read_text()
    (folder / "scaled_copy.cu").unlink()
    text = re.sub(r"\n[^\n]*PROBE_(?!PARAM)[^\n]*", "", text)
    text = text.replace("ldg<float>(&V_gmem[at])", "V_gmem[at]").replace("stg<float>(&O_gmem[at], o)", "O_gmem[at] = o")
    path = folder / "silent.cu"
    path.write_text(text)
    return path


def odd_kernel(monkeypatch):
    """The KernelSpec of odd_family/odd.cu, whose family is found in this process as if WARPGLASS_KERNELS named it."""
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(HERE)])
    return catalog.load_kernel(ODD_FAMILY / "odd.cu")

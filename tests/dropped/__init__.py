"""What a user brings: a kernel of one file, and a family of one folder. Tests drop them where nothing knows them."""

import re
import textwrap
from pathlib import Path

from kernels import catalog, families

HERE = Path(__file__).parent
ONE_KERNEL = HERE / "one_kernel.cu"
ODD_FAMILY = HERE / "odd_family"


def readme_kernel(folder):
    """The path of the kernel that kernels/README.md shows how to write, written into the folder as it stands there."""
    readme = (Path(families.__file__).parents[1] / "README.md").read_text()
    (block,) = re.findall(r"^   ```\n(   /\*\n.*?)^   ```$", readme, re.M | re.S)
    path = folder / "scaled_copy.cu"
    path.write_text(textwrap.dedent(block))
    return path


def conditional_kernel(folder, must="not causal", name="not_causal"):
    """The path of the README's kernel under another name, with a condition that refuses some standard problems."""
    text = readme_kernel(folder).read_text()
    (folder / "scaled_copy.cu").unlink()
    condition = f'[[conditions]]\nmust = "{must}"\nmessage = "It must be that {must}."\n\n[[launches]]'
    path = folder / f"{name}.cu"
    path.write_text(text.replace("[[launches]]", condition, 1))
    return path


def silent_kernel(folder):
    """The path of the README's kernel without its probes, in plain CUDA."""
    text = readme_kernel(folder).read_text()
    (folder / "scaled_copy.cu").unlink()
    text = re.sub(r"\n[^\n]*PROBE_(?!PARAM)[^\n]*", "", text)
    text = text.replace("ldg<float>(&V_gmem[at])", "V_gmem[at]").replace("stg<float>(&O_gmem[at], o)", "O_gmem[at] = o")
    path = folder / "silent.cu"
    path.write_text(text)
    return path


def odd_kernel(monkeypatch):
    """The KernelSpec of odd_family/odd.cu, whose family is found in this process as if WARPGLASS_KERNELS named it."""
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(HERE)])
    monkeypatch.setattr(catalog, "family_names", catalog.family_names.__wrapped__)
    return catalog.load_kernel(ODD_FAMILY / "odd.cu")

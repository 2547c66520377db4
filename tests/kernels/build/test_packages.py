"""The sets of CUDA's packages agree, and a GPU is refused if the majors in a process differ."""

import re
import sys
from types import SimpleNamespace

import pytest

from kernels.build import nvrtc, packages
from kernels.errors import BackendUnavailable
from kernels.run.backends import gpu


def names_of(file):
    """name -> version of a set and of the sets that it includes. The names lack the major of CUDA."""
    found = {}
    for line in (packages.ROOT / "kernels" / f"{file}.txt").read_text().splitlines():
        included = re.fullmatch(r"-r (\w+)\.txt", line)
        if included:
            found |= names_of(included[1])
        elif line and not line.startswith("#"):
            name, version = re.split("==|>=", line)
            found[re.sub(r"-cu12$|-cuda1[23]x$", "", name)] = version
    return found


def test_the_sets_of_both_majors_have_the_same_packages_and_the_command_fits_the_installation(monkeypatch, tmp_path):
    old, new = names_of("cuda12"), names_of("cuda13")
    assert old.keys() == new.keys() and "cupy" in old
    by_major = [name for name in old if name.startswith(("nvidia-cuda-r", "nvidia-cuda-nvrtc", "nvidia-nvj", "cuda-"))]
    assert len(by_major) == 4
    for name in by_major:
        assert (old[name].split(".")[0], new[name].split(".")[0]) == ("12", "13"), name
    for name in ("cupy", "nvidia-ml-py"):
        assert old[name] == new[name]
    assert packages.command("cuda12") == "pip install -r requirements.txt"
    assert packages.command("cuda13") == "pip install -r app/requirements.txt -r kernels/cuda13.txt"
    monkeypatch.setattr(packages, "ROOT", tmp_path)
    assert packages.command("cuda13") == "pip install 'warpglass[cuda13]'"
    for name, wanted in {"cupy-cuda12x": "cuda12", "cupy-cuda13x": "cuda13", "numpy": "cpu"}.items():
        monkeypatch.setattr(packages.metadata, "distributions", lambda name=name: [SimpleNamespace(name=name)])
        assert packages.command() == packages.command(wanted)


@pytest.mark.parametrize(
    ("found", "driver", "says"),
    [
        ({"CuPy": 12, "NVRTC": 12, "torch 2.10.0": 12}, 12, None),
        ({"CuPy": 12, "NVRTC": 12}, 13, None),
        ({"CuPy": 13, "NVRTC": 13, "torch 2.13.0": 13}, 13, None),
        ({"CuPy": 12, "NVRTC": 12, "torch 2.13.0": 13}, 13, "CuPy is for CUDA 12, and torch 2.13.0 is for CUDA 13"),
        ({"CuPy": 12, "NVRTC": 13, "torch 2.10.0": 12}, 12, "CuPy is for CUDA 12, and NVRTC is for CUDA 13"),
        ({"CuPy": 13, "NVRTC": 13}, 12, "CuPy is for CUDA 13, and the driver runs CUDA 12 at most"),
    ],
)
def test_a_fault_names_the_two_and_the_command_for_the_driver(found, driver, says):
    fault = packages.fault(found, driver)
    if says is None:
        assert fault is None
    else:
        assert says in fault
        assert fault.endswith(f"In a new environment, run: {packages.command(packages.SETS[driver])}")


def test_a_torch_for_the_cpu_has_no_major(monkeypatch, tmp_path):
    file = tmp_path / "torch" / "__init__.py"
    file.parent.mkdir()
    monkeypatch.setattr(packages, "find_spec", lambda name: SimpleNamespace(origin=str(file)))
    for cuda, wanted in {"None": {}, "'12.8'": {"torch 2.10.0": 12}}.items():
        file.with_name("version.py").write_text(f"__version__ = '2.10.0'\ncuda = {cuda}\n")
        found = packages.majors(nvrtc=12, cupy=12)
        assert {name: major for name, major in found.items() if name.startswith("torch")} == wanted
        assert found["CuPy"] == found["NVRTC"] == 12


def test_the_gpu_backend_refuses_two_majors(monkeypatch):
    major, _ = nvrtc.version()
    other = {12: 13, 13: 12}[major]
    runtime = SimpleNamespace(
        CUDARuntimeError=RuntimeError,
        getDeviceCount=lambda: 1,
        runtimeGetVersion=lambda: 1000 * other,
        driverGetVersion=lambda: 13000,
    )
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(gpu, "driver_missing", lambda: None)
    with pytest.raises(BackendUnavailable, match=f"CuPy is for CUDA {other}, and NVRTC is for CUDA {major}"):
        gpu.device.__wrapped__()


@pytest.mark.parametrize(("version", "wanted"), [((12, 8), False), ((12, 9), True), ((13, 0), True)])
def test_an_option_is_used_only_if_nvrtc_knows_it(monkeypatch, version, wanted):
    monkeypatch.setattr(nvrtc, "version", lambda: version)
    assert ("--no-cache" in nvrtc.Toolchain("sm_80").options) == wanted

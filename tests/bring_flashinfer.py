"""FlashInfer for a GPU machine that reaches no network: cut down to the fp16 calls of
kernels/measure/flashinfer_calls.py, its modules built here for sm_90a, where no GPU is needed. Half an hour on two
processors; 15 MB to carry.

    python tests/bring_flashinfer.py .fi                        writes .fi/site.tar.xz
    mkdir /tmp/fi && tar xf .fi/site.tar.xz -C /tmp/fi          there; then PYTHONPATH=/tmp/fi FLASHINFER_DISABLE_JIT=1

Wants torch, nvcc 13 (CUDA_HOME), c++ and ninja. What is built already is kept.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

VERSION, FFI = "flashinfer-python==0.7.2.post1", "apache-tvm-ffi==0.1.15.post2"
PURE = ("einops", "tabulate", "tqdm")
THERE = ("--python-version", "3.12", "--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_24_x86_64")
# Of Hopper's templates the masks that nobody asks for are left out: they are most of what there is to compile.
ONLY = {
    "fa3_128": "mask_[01]|batch_prefill_sm90.cuda.o|binding",
    "fa3_128_window": "ragged_sm90_kernel_mask_1|batch_prefill_sm90.cuda.o|binding",
    "fa3_64": "mask_[01]|batch_prefill_sm90.cuda.o|binding",
}


def main(folder: Path) -> None:
    tools, site = folder / "tools", folder / "site"
    if not tools.exists():
        install(tools, VERSION, FFI, *PURE)
        install(folder / "curand", "nvidia-curand")
        stub(folder / "stub")
    environment = {
        **os.environ,
        "PYTHONPATH": str(tools),
        "FLASHINFER_WORKSPACE_BASE": str(folder / "work"),
        "FLASHINFER_CUDA_ARCH_LIST": "9.0a",
        "FLASHINFER_EXTRA_LDFLAGS": f"-Wl,--no-as-needed -L{folder / 'stub'}",
        "FLASHINFER_EXTRA_CUDAFLAGS": f"-I{folder / 'curand/nvidia/cu13/include'}",
        "TVM_FFI_DISABLE_TORCH_C_DLPACK": "1",
    }
    written = subprocess.run(
        [sys.executable, __file__, "--write"], env=environment, check=True, capture_output=True, text=True
    )
    libraries = []
    for line in written.stdout.splitlines():
        if line.startswith("module "):
            _, name, ninja = line.split()
            libraries.append(built(name, Path(ninja), folder / "stub"))
    pack(tools, site, libraries)


def install(target: Path, *packages: str, more: tuple[str, ...] = ()) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary=:all:", "--target", str(target)]
    subprocess.run([*pip, *more, *packages], check=True)


def stub(folder: Path) -> None:
    """An empty libcuda to link against, where there is no driver."""
    folder.mkdir()
    (folder / "none.c").touch()
    library = folder / "libcuda.so"
    subprocess.run(["cc", "-shared", "-Wl,-soname,libcuda.so.1", "-o", library, folder / "none.c"], check=True)


def write() -> None:
    """Writes a ninja file for every module, and prints its path. In a process of its own: FlashInfer reads its settings
    when it is imported."""
    import torch
    from flashinfer.jit import cascade, page, xqa
    from flashinfer.jit.attention import modules

    half, index, eight = torch.float16, torch.int32, torch.float8_e4m3fn

    def decode(kv, dim):
        return modules.gen_batch_decode_module(half, kv, half, index, dim, dim, 0, False, False)

    def fa2(kv, dim):
        return modules._gen_batch_prefill_primary_module("fa2", half, kv, half, index, dim, dim, 0, False, False, False)

    def fa3(dim, window=False):
        return modules.gen_batch_prefill_module("fa3", half, half, half, index, dim, dim, 0, window, False, False)

    def xqa_of(kv, page_size, dim, group):
        return xqa.gen_xqa_module(half, kv, page_size, dim, group, False, half)

    asked = {
        "page": page.gen_page_module(),
        "cascade": cascade.gen_cascade_module(),
        "decode_128": decode(half, 128),
        "decode_64": decode(half, 64),
        "decode_fp8": decode(eight, 128),
        "fa2_128": fa2(half, 128),
        "fa2_64": fa2(half, 64),
        "fa2_fp8": fa2(eight, 128),
        "fa3_128": fa3(128),
        "fa3_128_window": fa3(128, True),
        "fa3_64": fa3(64),
        "xqa_16": xqa_of(half, 16, 128, 4),
        "xqa_64": xqa_of(half, 64, 128, 4),
        "xqa_fp8": xqa_of(eight, 16, 128, 4),
        "xqa_mha": xqa_of(half, 16, 128, 1),
        "xqa_dim_64": xqa_of(half, 16, 64, 4),
    }
    for name, module in asked.items():
        module.write_ninja()
        print("module", name, module.ninja_path)


def built(name: str, ninja: Path, stub: Path) -> Path:
    """The library of a module."""
    folder = ninja.parent
    library = folder / f"{folder.name}.so"
    if library.exists():
        return library
    make = ["ninja", "-C", folder, "-f", ninja]
    if name in ONLY:
        objects = [o for o in re.findall(r"^build (\S+\.o):", ninja.read_text(), re.M) if re.search(ONLY[name], o)]
        subprocess.run([*make, *objects], check=True)
        cuda = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "lib64"
        paths = [Path(folder, o) for o in objects]
        link = ["c++", *paths, "-shared", f"-L{cuda}", f"-L{stub}", "-lcudart", "-lcuda", "-o", library]
        subprocess.run(link, check=True)
    else:
        subprocess.run(make, check=True)
    print(name, library.stat().st_size, flush=True)
    return library


def pack(tools: Path, site: Path, libraries: list[Path]) -> None:
    """FlashInfer's Python, the sources that it looks for, the libraries, and what it imports, for Python 3.12."""
    shutil.rmtree(site, ignore_errors=True)
    install(site, FFI, *PURE, more=THERE)
    source = tools / "flashinfer"
    python = [path for path in source.rglob("*.py") if path.relative_to(source).parts[0] != "data"]
    others = [path for path in (*source.rglob("*.json"), *source.rglob("*.jinja")) if path.stat().st_size < 50_000]
    sources = [path for path in (source / "data/csrc").iterdir() if path.is_file() and path.stat().st_size < 200_000]
    for path in {*python, *others, *sources}:
        copied(path, site / path.relative_to(tools))
    for library in libraries:
        copied(library, site / "flashinfer/data/aot" / library.stem / library.name)
    for path in tools.glob("flashinfer_python*.dist-info/METADATA"):
        copied(path, site / path.relative_to(tools))
    shutil.make_archive(str(site), "xztar", site)


def copied(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, to)


if __name__ == "__main__":
    write() if sys.argv[1:] == ["--write"] else main(Path(sys.argv[1]).resolve())

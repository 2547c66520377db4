"""A kernel made of a few lines, for tests of the probes and of the shim."""

import pytest
from front import of_roles

from kernels.catalog import load_kernel

FRONT = of_roles("""
[[launches]]
entry = "small"
grid = [1]
block = [{threads}]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]
*/
#include "common.cuh"
{above}
extern "C" __global__ void small(const float* X_gmem, float* O_gmem, int tiles PROBE_PARAM) {{
  DYNAMIC_SMEM(float, S_smem);
  PROBE_BEGIN();
{body}
}}
""")


@pytest.fixture
def small_kernel(tmp_path):
    """small_kernel(body, above="", threads=1, NAME=text of a header NAME.cuh) -> the KernelSpec of one block of it.

    The body may use X_gmem [256], O_gmem [64], tiles (4) and S_smem [256].
    """

    def make(body, above="", threads=1, **headers):
        for name, text in headers.items():
            (tmp_path / f"{name}.cuh").write_text(text)
        path = tmp_path / "small.cu"
        path.write_text(FRONT.format(threads=threads, above=above, body=body))
        return load_kernel(path)

    return make

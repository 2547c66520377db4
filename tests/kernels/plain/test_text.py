"""The text of a plain kernel: refused constructs with their lines, and the edits for the CPU."""

import pytest

from kernels.build.plain import refusals
from kernels.build.plain.edits import cpu_text, device_text
from kernels.errors import BuildError

KERNEL = """__global__ void k(float* o) {
  BODY
  o[0] = 1.f;
}
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#include <cutlass/cutlass.h>\n" + KERNEL, "k.cu line 1: it includes <cutlass/cutlass.h>"),
        (KERNEL.replace("BODY", "other<<<1, 32>>>(o);"), "k.cu line 2: a launch inside device code"),
        (KERNEL.replace("BODY", "auto g = cg::coalesced_threads();"), "k.cu line 2: coalesced groups"),
    ],
)
def test_a_construct_that_no_build_knows_is_refused_with_its_line(text, said):
    with pytest.raises(BuildError, match=said):
        refusals.check("k.cu", text)


def test_the_cpu_refuses_inline_ptx_with_its_instruction():
    text = KERNEL.replace("BODY", 'asm volatile("mma.sync.aligned.m16n8k16 {%0};" : : "r"(1));')
    with pytest.raises(BuildError, match=r"k.cu line 2: it has inline PTX \(mma.sync.aligned.m16n8k16\)"):
        refusals.check_for_cpu("k.cu", text)


def test_an_include_or_asm_in_a_comment_is_no_construct():
    text = "// #include <cutlass/cutlass.h>\n" + KERNEL.replace("BODY", "// asm volatile")
    refusals.check("k.cu", text)
    refusals.check_for_cpu("k.cu", text)


@pytest.mark.parametrize(
    ("declared", "became"),
    [
        ("extern __shared__ float s[];", "float* const s = reinterpret_cast<float*>(simt_dynamic_shared());"),
        ("extern __shared__ __align__(16) unsigned char s[];", "unsigned char* const s = "),
        ("__shared__ float a[4][8], b;", '__shared__ float a[4][8], b; simt_shared_array("a", a);'),
        ("if (o) return;", "if (o) { simt_leave_here(); return; }"),
    ],
)
def test_an_edit_for_the_cpu(declared, became):
    assert became in cpu_text(KERNEL.replace("BODY", declared))


def test_no_edit_moves_a_line_and_functions_of_the_host_are_blank():
    text = (
        KERNEL.replace("BODY", "extern __shared__\n  float s[];") + "int main() {\n  k<<<1, 1>>>(0);\n  return 0;\n}\n"
    )
    assert cpu_text(text).count("\n") == text.count("\n")
    assert "<<<" not in device_text(text) and "main" not in device_text(text)


def test_a_text_without_a_host_function_stays_unchanged_for_a_gpu():
    assert device_text(KERNEL) == KERNEL

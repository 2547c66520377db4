"""The text of a plain kernel: refused constructs with their lines, and the edits for the CPU."""

import re
from pathlib import Path

import pytest

from kernels.build.plain import assembly, refusals
from kernels.build.plain.device import device_text
from kernels.build.plain.edits import cpu_text
from kernels.core import frontmatter
from kernels.errors import BuildError, FrontMatterError

KERNEL = """__global__ void k(float* o) {
  BODY
  o[0] = 1.f;
}
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (KERNEL.replace("BODY", "other<<<1, 32>>>(o);"), "k.cu line 2: it launches a kernel in device code"),
        (KERNEL.replace("BODY", "auto g = cg::coalesced_threads();"), "k.cu line 2: coalesced groups"),
    ],
)
def test_a_construct_that_no_build_knows_is_refused_with_its_line(text, said):
    with pytest.raises(BuildError, match=said):
        refusals.check("k.cu", text)


def test_the_guide_lists_the_accepted_inline_ptx_and_a_comment_is_no_construct():
    guide = (Path(__file__).parents[3] / "kernels" / "first-kernel.md").read_text()
    rows = "".join(line for line in guide.splitlines() if line.startswith("| inline PTX | "))
    assert set(re.findall(r"`([a-z0-9]+)`", rows)) == {*assembly.RULES}
    text = "// #include <cutlass/cutlass.h>\n" + KERNEL.replace("BODY", "// asm volatile")
    refusals.check("k.cu", text)


@pytest.mark.parametrize(
    ("declared", "became"),
    [
        ("extern __shared__ float s[];", "float* const s = reinterpret_cast<float*>(simt_dynamic_shared());"),
        ("extern __shared__ __align__(16) unsigned char s[];", "unsigned char* const s = "),
        ("extern __shared__ half s[][32 + 8];", "half (*const s)[32 + 8] = reinterpret_cast<half (*)[32 + 8]>("),
        ("__shared__ float a[4][8], b;", '__shared__ float a[4][8], b; simt_shared_array("a", a);'),
        ("__shared__ union { float f; int i; } u;", 'i; } u; simt_shared_array("u", u);'),
        ("if (o) return;", "if (o) { simt_leave_here(); return; }"),
    ],
)
def test_an_edit_for_the_cpu(declared, became):
    assert became in cpu_text(KERNEL.replace("BODY", declared))


def test_no_edit_moves_a_line_functions_of_the_host_are_blank_and_comments_are_no_constructs():
    text = (
        KERNEL.replace("BODY", "extern __shared__\n  float s[];") + "int main() {\n  k<<<1, 1>>>(0);\n  return 0;\n}\n"
    )
    assert cpu_text(text).count("\n") == text.count("\n")
    assert "<<<" not in device_text(text) and "main" not in device_text(text)
    assert device_text(KERNEL) == KERNEL


@pytest.mark.parametrize(
    "entry",
    [
        "k<0>) static int off = (simt_quiet(1), 0); SIMT_PLAIN_EXPORT(other, k<0>",
        'k<0>)\n#include "/usr/lib/os-release"\n(0',
        'k<0>) asm(".byte 1"); SIMT_PLAIN_EXPORT(other, k<0>',
        "k<simt_quiet>",
        "k<simt::quiet>",
        "k<__tsan_read4>",
        "k<0> // >",
        "k<0",
    ],
)
def test_an_entry_adds_no_other_text_to_a_build(entry):
    text = "template <int N> __global__ void k(float* o) { o[0] = N; }\n"
    launch = {"grid": [1], "block": [1], "args": ["o"]}
    for right in ("k<4 * 16 / 2, float>", "k<HEAD_DIM>", "k<std::size_t>"):
        frontmatter.launches("k.cu", text, True, {"launches": [{"entry": right, **launch}]})
    with pytest.raises(FrontMatterError, match="It must be a kernel's name, or an instance such as"):
        frontmatter.launches("k.cu", text, True, {"launches": [{"entry": entry, **launch}]})

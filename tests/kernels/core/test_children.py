"""Launches by a kernel in the front matter: what a plan gets, and each mistake's remedy."""

import pytest
from front import of_dense

from kernels.catalog import load_kernel
from kernels.core.streams import steps
from kernels.errors import FrontMatterError

KERNEL = of_dense("""
launches = [
  {entry = "parent", grid = [1], block = [32], args = ["q", "o"], children = ["rows"]PARENT},
  {entry = "rows", grid = ["2 + n"], block = [32], repeat = {n = 3}ROWS},
  {entry = "last", grid = [1], block = [32], args = ["q", "o"]LAST}]
*/
#include "children.cuh"
extern "C" __global__ void rows(const float* Q_gmem, float* O_gmem, int n PROBE_PARAM) {}
extern "C" __global__ void last(const float* Q_gmem, float* O_gmem PROBE_PARAM) {}
extern "C" __global__ void parent(const float* Q_gmem, float* O_gmem PROBE_PARAM PROBE_CHILDREN) {}
""")


@pytest.fixture
def write(tmp_path):
    def make(parent="", rows="", last="", text=KERNEL):
        for place, keys in (("PARENT", parent), ("ROWS", rows), ("LAST", last)):
            text = text.replace(place, f", {keys}" if keys else "")
        (tmp_path / "children.cu").write_text(text)
        return load_kernel(tmp_path / "children.cu")

    return make


def test_each_repeat_of_a_child_is_a_launch_of_its_parents_stream_and_changes_the_code_hash(write):
    spec = write("stream = 1")
    plan = spec.plan(spec.problem_type())
    assert plan.children_of(0) == (1, 2, 3) and [plan.launches[n].grid[0] for n in plan.children_of(0)] == [2, 3, 4]
    assert plan.children_of(4) == () and spec.launches_children
    assert [step.stream for step in steps(plan)] == [1, 1, 1, 1, 0]
    assert spec.tensor_in(plan.launches[2], "O") == "o"  # a child's pointer has the name of its parent's
    text = KERNEL.replace(', children = ["rows"]', "EMPTY").replace("repeat = {n = 3}", 'args = ["q", "o", "int32 1"]')
    text = text.replace('"2 + n"', "2")
    plain, empty = (write(text=text.replace("EMPTY", keys)).code_hash for keys in ("", ", children = []"))
    assert plain == empty != write().code_hash


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"last": 'children = "rows"'}, r"launches\[2\].children is 'rows'. It must be a list of entries in quotes"),
        ({"last": 'children = ["rows"]'}, r"launches\[2\].children names 'rows', and no later launch has this entry"),
        ({"rows": 'children = ["last"]'}, "rows is a child and has children. Let parent launch these"),
        ({"rows": "stream = 1"}, r"launches\[1\].stream: parent launches rows, so it has only .*. Remove stream"),
        ({"rows": 'args = ["q", "o"]'}, r"launches\[1\].args: parent launches rows, .* Remove args"),
        ({"parent": "repeat = {i = 2}"}, r"launches\[0\] has children and is repeated. Launch a parent once"),
        ({"text": KERNEL.replace("O_gmem, int n", "X_gmem, int n")}, r"rows takes float\* X_gmem, and parent has"),
    ],
)
def test_a_mistake_names_file_key_and_remedy(write, keys, said):
    with pytest.raises(FrontMatterError, match=f"children.cu: .*{said}"):
        write(**keys)

"""Streams, events, copies and dependent launches in the front matter: what a plan gets, and each mistake's remedy."""

import pytest
from front import of_dense

from kernels.catalog import load_kernel
from kernels.core.launch import Fetch
from kernels.core.streams import last_order, steps
from kernels.errors import FrontMatterError

KERNEL = of_dense("""
GRAPH
launches = [
  {entry = "first", grid = [1], block = [32], args = ["q", "o"]FIRST},
  {entry = "second", grid = [1], block = [32], args = ["q", "o"]SECOND},
  {entry = "third", grid = [1], block = [32], args = ["q", "o"]THIRD}]
*/
#include "common.cuh"
extern "C" __global__ void first(const float* Q_gmem, float* O_gmem PROBE_PARAM) {}
extern "C" __global__ void second(const float* Q_gmem, float* O_gmem PROBE_PARAM) {}
extern "C" __global__ void third(const float* Q_gmem, float* O_gmem PROBE_PARAM) {}
""")


@pytest.fixture
def write(tmp_path):
    def make(second="", third="", first="", graph=""):
        text = KERNEL.replace("GRAPH", graph)
        for place, keys in (("FIRST", first), ("SECOND", second), ("THIRD", third)):
            text = text.replace(place, f", {keys}" if keys else "")
        (tmp_path / "three.cu").write_text(text)
        return load_kernel(tmp_path / "three.cu")

    return make


def plan_of(spec):
    return spec.plan(spec.problem_type())


def test_a_launch_has_its_stream_waits_copy_and_order_and_each_key_changes_the_code_hash(write):
    fetch = 'fetch = {tensors = ["k", "v"], part = 1, parts = 2, stream = 2, memory = "pageable"}'
    plan = plan_of(write("stream = 1", f'after = ["second"], {fetch}', graph="graph = true"))
    assert plan.graph and plan.launches[1].stream == 1
    assert plan.launches[2].fetch == Fetch(("k", "v"), 1, 2, 2, "pageable")
    found = [(step.number, step.tensor, step.stream, step.waits) for step in steps(plan)]
    assert found == [(0, "", 0, ()), (1, "", 1, ()), (2, "k", 2, ()), (2, "v", 2, ()), (2, "", 0, (1,))]
    assert last_order(plan_of(write()).launches) == [0, 1, 2]
    assert last_order(plan_of(write("stream = 1", "stream = 2")).launches) == [2, 1, 0]
    assert last_order(plan_of(write("stream = 1", 'stream = 2, after = ["first"]')).launches) == [1, 0, 2]
    plain = write().code_hash
    assert write("stream = 0, after = [], dependent = false", graph="graph = false").code_hash == plain
    for keys in ("stream = 1", 'after = ["first"]', "dependent = true", 'fetch = {tensors = ["k"]}'):
        assert write(keys).code_hash != plain
    assert write(graph="graph = true").code_hash != plain


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("stream = 8", r"launches\[1\].stream is 8. It must be a whole number from 0 to 7"),
        (
            'after = ["frist"]',
            r"launches\[1\].after names 'frist', and no launch has this entry. .* first, second, third",
        ),
        ('after = ["third"]', r"launches\[1\].after makes a circle: second would wait for third, a later launch. Name"),
        ('after = ["second"]', "makes a circle: second would wait for itself. Name earlier launches"),
        ("stream = 1, dependent = true", "dependent is true, and stream 1 has no earlier launch. Give it the stream"),
        ('dependent = true, after = ["first"]', "is dependent and has after. .* Remove one of them"),
        ('fetch = {tensors = ["k"], memory = "disk"}', "fetch.memory is 'disk'. It must be pinned or pageable"),
        ('fetch = {tensors = ["k"], part = 2, parts = 2}', "has part 2 of 2. A part is from 0 to parts - 1"),
        ('fetch = {tensors = ["z"]}', "there is no tensor 'z'. This problem and kernel have"),
    ],
)
def test_a_mistake_names_file_key_and_remedy(write, keys, said):
    with pytest.raises(FrontMatterError, match=f"three.cu: .*{said}"):
        plan_of(write(keys))

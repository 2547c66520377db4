"""Probe lines as they are read, as three compilers build them, and as their records come back."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from kernels.build import Mode, build
from kernels.catalog import DEVICE, KERNELS
from kernels.core.request import Request
from kernels.errors import BuildError, TraceError
from kernels.families.lab.patterns import RolesProblem
from kernels.run.execute import run
from kernels.trace import kinds, probes
from kernels.trace.probes import sites_of

LOGGING = rf"(PROBE_MARK|PROBE_VALUE|PROBE_ROLE|{'|'.join(kinds.MACROS)})\("


def read(*lines, file="x.cu", **defines):
    return probes.sites(SimpleNamespace(files=((file, "\n".join(lines)),)), defines)


def trace_of(spec):
    return run(Request(spec, RolesProblem())).trace


def test_every_probe_line_of_a_kernel_and_its_headers_is_read():
    for spec in KERNELS.values():
        written = [
            (name, number)
            for name, text in spec.files
            for number, line in enumerate(text.splitlines(), 1)
            if re.search(LOGGING, line) and not line.lstrip().startswith(("//", "#"))
        ]
        found = probes.sites_of(Request(spec, spec.problem_type()))
        assert [(site.file, site.line) for site in found] == written and written, spec.name
        assert all(found.find(*place).line == place[1] for place in written), spec.name


def test_a_site_tells_what_its_line_says_and_comments_hold_no_probes():
    value, load, role, mark = read(
        "float s = f(x);",
        "if (lane == 0) PROBE_VALUE(score, row, col, s);",
        "PROBE_LOAD(K_smem, a(1, 2) + d, 16, tile);",
        "v = lds(&K[a]);",
        "if (warp == 0) {  // one warp copies",
        "  PROBE_ROLE(producer);",
        "  PROBE_MARK(copy, tile);",
        "  copy(K_smem PROBE_PASS);",
    )
    assert (value.kind, value.event, value.keys, value.code_line) == ("value", "score", ("row", "col"), 1)
    assert (load.kind, load.event, load.space, load.tensor) == ("access", "load", "shared", "K")
    assert (load.bytes, load.keys, load.code_line, load.place) == (16, ("tile",), 4, "x.cu:4")
    assert (role.kind, role.event, role.keys) == ("role", "producer", ())
    assert (mark.kind, mark.event, mark.keys, mark.code_line) == ("mark", "copy", ("tile",), 8)
    assert (
        len(read("/* PROBE_MARK(a, b);", "PROBE_LOAD */", "// PROBE_MARK(a, b);", "PROBE_MARK(a, b);  // and then"))
        == 1
    )


@pytest.mark.parametrize(
    "line",
    [
        "PROBE_LOAD(K, i, 16);",
        "PROBE_LOAD(K_smem, i);",
        "PROBE_LOAD(K_smem, i, wide);",
        "PROBE_CP_ASYNC(K_gmem, i, 16);",
        "PROBE_LDMATRIX(K_gmem, i, 16);",
        "PROBE_VALUE(m, row + 1, v);",
        "PROBE_VALUE(m, v);",
        "PROBE_MARK(a, warp);",
        "PROBE_MARK(a, role);",
        "PROBE_MARK(a);",
        "PROBE_MARK(a, b, c, d);",
        "PROBE_ROLE(a, b);",
        "PROBE_MARK(a, b); PROBE_MARK(c, d);",
        "PROBE_OTHER(a, b);",
    ],
)
def test_a_probe_that_cannot_be_read_back_names_file_and_line(line):
    with pytest.raises(BuildError, match="x.cu:2: "):
        read("", line)


def test_a_width_may_be_a_constant_and_stripping_the_probes_leaves_the_lines_in_place():
    lines = "PROBE_LOAD(V_gmem, i, T_BYTES);", "v = ldg<T>(&V[i]);"
    assert read(*lines, T_BYTES=2)[0].bytes == 2
    with pytest.raises(BuildError, match="x.cu:1: "):
        read(*lines, OTHER=2)
    for name, text in sorted({file for spec in KERNELS.values() for file in spec.files}):
        if name not in ("probe.cuh", "hopper.cuh", "bulk_store.cuh", "children.cuh"):  # they define the probes
            stripped = probes.strip_probes(text)
            assert "PROBE_" not in stripped and len(stripped.splitlines()) == len(text.splitlines()), name


# ---- the site word ----

WORD = """
#ifdef PROBED
static_assert(probe_site("small.cu", 12) == {0}u);
static_assert(probe_site("/some/where/small.cu", 12) == {0}u && probe_site("C:\\\\some\\\\small.cu", 12) == {0}u);
static_assert(probe_site("walk.cuh", 262143) == {1}u);
#endif
"""


@pytest.mark.parametrize("target", ["cpu", "sm_80", "sm_100a"])
def test_the_compilers_and_python_compute_the_same_site_word(small_kernel, target):
    words = probes.site_word("small.cu", 12), probes.site_word("walk.cuh", 262143)
    assert max(words) < probes.OUT_OF_RANGE and words[0] & 0x3FFFF == 12
    build(small_kernel("", above=WORD.format(*words)), {}, Mode.PROBED, target)


def test_two_files_whose_records_would_be_mixed_up_are_refused():
    seen = {}
    for number in range(10_000):
        name = f"h{number}.cuh"
        other = seen.setdefault(probes.site_word(name, 0), name)
        if other != name:
            break
    text = "PROBE_MARK(a, b);"
    with pytest.raises(BuildError, match=rf"{other} and {name} have the same words. Rename one"):
        probes.sites(SimpleNamespace(files=((other, text), (name, text))), {})


# ---- records ----

HEADER = """#pragma once
__device__ __forceinline__ float twice(const float* S_smem, int i PROBE_REF) {
  PROBE_LOAD(S_smem, i, 4, i);
  const float x = lds<float>(&S_smem[i]);
  PROBE_VALUE(twice, i, 2.f * x);
  return 2.f * x;
}
"""
CALLS = """  const int i = threadIdx.x;
  PROBE_STORE(S_smem, i, 4);
  sts<float>(&S_smem[i], 21.f + i);
  twice(S_smem, i PROBE_PASS);
"""


def test_a_probe_in_a_header_is_known_by_its_name_and_line(small_kernel):
    spec = small_kernel(CALLS, above='#include "shared.cuh"', threads=2, shared=HEADER)
    frame = trace_of(spec).frame("thread", "file", "line", "event", "tensor", "i", "value")
    mine = frame[frame.file == "shared.cuh"]
    assert mine.line.tolist() == [3, 5, 3, 5] and mine.event.tolist() == ["load", "twice"] * 2
    assert mine.value.dropna().tolist() == [42.0, 44.0] and mine.i.tolist() == [0, 0, 1, 1]
    assert (frame[frame.file == "small.cu"].event == "store").all()


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("target", ["cpu", "sm_80", "sm_90a"])
def test_a_header_with_probes_compiles_in_every_build(small_kernel, mode, target):
    build(small_kernel(CALLS, above='#include "shared.cuh"', shared=HEADER), {}, mode, target)


@pytest.mark.parametrize(
    ("probe", "says"),
    [
        ("PROBE_MARK(step, tile);", "the key tile of the probe step was 70,000"),
        ("PROBE_MARK(step, row, tile);", "the key tile of the probe step was 70,000"),
        ("PROBE_VALUE(m, row, below, row, 1.f);", "the key below of the probe m was -1"),
        ("PROBE_VALUE(m, row, row, big, row, 1.f);", "the key big of the probe m was 4,294,967,301"),
        ("PROBE_VALUE(m, row, row, row, tile, 1.f);", "the key tile of the probe m was 70,000"),
    ],
)
def test_a_key_out_of_range_is_refused_with_file_line_key_value_and_remedy(small_kernel, probe, says):
    keys = "  const int row = 3, tile = 70000, below = -1;\n  const long long big = (1ll << 32) + 5;\n"
    spec = small_kernel(f"{keys}  {probe}")
    line = spec.source.splitlines().index(f"  {probe}") + 1
    with pytest.raises(TraceError, match=rf"^small.cu:{line}: {says}. .* from 0 to 65,535. Choose a smaller"):
        trace_of(spec)


def test_the_largest_key_is_logged_as_it_is_and_small_types_as_their_number(small_kernel):
    body = "  const int row = 65535, tile = 0, col = row, dim = row;\n  PROBE_VALUE(m, row, tile, col, dim, 1.5f);"
    (record,) = trace_of(small_kernel(body)).table.to_pylist()
    assert [record[key] for key in ("row", "tile", "col", "dim", "value")] == [65535, 0, 65535, 65535, 1.5]
    body = """  const int row = 1, col = 2;
  PROBE_VALUE(a, row, to_half(-2.7182818f));
  PROBE_VALUE(b, row, col, to_bfloat16(-2.7182818f));
  PROBE_VALUE(c, row, to_fp8_e4m3(-2.7182818f));
  PROBE_VALUE(d, row, -2.7182818f);
"""
    table = trace_of(small_kernel(body)).frame("event", "value")
    wanted = {"a": -2.71875, "b": -2.71875, "c": -2.75, "d": np.float32(-2.7182818)}
    assert dict(zip(table.event, table.value)) == wanted


# ---- the table of access kinds ----

PROBE, COMMON, *HOPPER = (
    (DEVICE / name).read_text() for name in ("probe.cuh", "common.cuh", "hopper.cuh", "bulk_store.cuh")
)


def test_the_tables_macros_are_those_of_the_header_its_comment_and_every_kernel():
    unprobed, probed = PROBE.split("#ifndef PROBED")[1].split("#else\n\n")
    for header in HOPPER:
        of_header = header.split("#ifdef PROBED")[1].split("#endif")[0].split("#else")
        probed, unprobed = probed + of_header[0], unprobed + of_header[1]
    off = set(re.findall(r"#define (PROBE_\w+)\(\.\.\.\) \(\(void\)0\)", unprobed))
    assert off - {"PROBE_MARK", "PROBE_VALUE", "PROBE_ROLE"} == set(kinds.MACROS)
    calls = r"#define (PROBE_\w+)\(\.\.\.\) probe_writer\.access\(PROBE_HERE, (?:AccessKind::)?(\w+),"
    on = dict(re.findall(calls, probed))
    assert {macro: event.lower() for macro, event in on.items()} == kinds.MACROS
    said = PROBE.split("#pragma once")[0]
    assert set(re.findall(r"#define (PROBE_[A-Z_0-9]+)", PROBE)) - {"PROBE_HERE"} == set(
        re.findall(r"^//   (PROBE_[A-Z_0-9]+)", said, re.M)
    )
    for spec in KERNELS.values():
        for site in sites_of(Request(spec, spec.problem_type())):
            assert site.kind != "access" or kinds.kind_of(site.event, site.space)


def test_the_shim_compares_the_same_events_and_a_kind_is_known_by_name_and_by_event_and_space():
    listed = re.search(r"enum class AccessKind \{ (.*) \};", COMMON)[1].lower().split(", ")
    more = {
        int(number): name.lower() for name, number in re.findall(r"\b([A-Z_]+) = AccessKind\((\d+)\)", "".join(HOPPER))
    }
    assert (*listed, *(more[number] for number in range(len(listed), len(listed) + len(more)))) == kinds.EVENTS
    named = re.search(r"KIND_NAMES\[\] = \{(.*?)\};", (DEVICE / "simt" / "simt.h").read_text(), re.S)[1]
    assert tuple(re.findall(r'"(\w+)"', named)) == kinds.EVENTS
    assert len({kind.name for kind in kinds.KINDS}) == len(kinds.KINDS)
    assert all(kinds.kind_of(kind.event, kind.space) is kind for kind in kinds.KINDS)
    assert kinds.READS == ("load", "ldmatrix", "tma", "product")
    assert kinds.WRITES == ("store", "cp_async", "cp_async_l2", "tma_smem", "tma_store", "atomic")
    assert {kind.direction for kind in kinds.KINDS if kind.event in kinds.READS} == {"read"}

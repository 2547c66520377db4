import re

import pytest

from kernels import probes
from kernels.catalog import KERNELS
from kernels.errors import BuildError


@pytest.mark.parametrize("spec", KERNELS.values(), ids=KERNELS)
def test_every_probe_line_of_a_kernel_is_read(spec):
    lines = spec.source.splitlines()
    written = {n for n, text in enumerate(lines, 1) if re.search(r"PROBE_(MARK|VALUE|LOAD|STORE|LDMATRIX|CP_ASYNC)\(", text)}
    assert set(spec.sites) == written
    if spec.family == "attention":
        assert {"score", "m", "l", "p", "o", "tile_begin", "tile_end", "load", "store"} <= {site.event for site in spec.sites.values()}


def test_a_site_tells_what_its_line_says(tmp_path):
    path = tmp_path / "x.cu"
    path.write_text("float s = f(x);\nif (lane == 0) PROBE_VALUE(score, row, col, s);\nPROBE_LOAD(K_smem, a(1, 2) + d, 16, tile);\nv = lds(&K[a]);\n")
    value, load = probes.sites(path).values()
    assert (value.kind, value.event, value.keys, value.code_line) == ("value", "score", ("row", "col"), 1)
    assert (load.kind, load.space, load.tensor, load.bytes, load.keys, load.code_line) == ("load", "shared", "K", 16, ("tile",), 4)


@pytest.mark.parametrize("line", ["PROBE_LOAD(K, i, 16);", "PROBE_LOAD(K_smem, i);", "PROBE_LOAD(K_smem, i, wide);", "PROBE_VALUE(m, row + 1, v);",
                                  "PROBE_MARK(a, warp);", "PROBE_MARK(a, b, c, d);", "PROBE_MARK(a, b); PROBE_MARK(c, d);"])
def test_a_probe_that_cannot_be_read_back_names_file_and_line(tmp_path, line):
    path = tmp_path / "x.cu"
    path.write_text(f"\n{line}\n")
    with pytest.raises(BuildError, match="x.cu:2: "):
        probes.sites(path)


def test_a_width_may_be_a_constant_of_the_build(tmp_path):
    path = tmp_path / "x.cu"
    path.write_text("PROBE_LOAD(V_gmem, i, T_BYTES);\nv = ldg<T>(&V[i]);\n")
    assert probes.sites(path, (("T_BYTES", 2),))[1].bytes == 2
    with pytest.raises(BuildError, match="x.cu:1: "):
        probes.sites(path, (("OTHER", 2),))


@pytest.mark.parametrize("spec", KERNELS.values(), ids=KERNELS)
def test_stripping_the_probes_leaves_the_lines_in_place(spec):
    stripped = probes.strip_probes(spec.source)
    assert "PROBE_" not in stripped
    assert len(stripped.splitlines()) == len(spec.source.splitlines())

"""The kernels that a site runs in the reader's browser: their outputs equal those of this CPU, bit for bit."""

import base64
import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import stage_tools

from app.run_here import SHOWN, Modules, can_run, meta
from explainers.story import encoding
from explainers.story.stage import Stage
from kernels.build import wasm
from kernels.catalog import current
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.run import execute

KERNELS = ("01_naive", "02_tiled", "03_flash", "04_warp_rows", "05_register_tiles")
BROKEN = [("02_tiled", "SUBTRACT_MAX"), ("03_flash", "SUBTRACT_MAX"), ("04_warp_rows", "RESCALE")]
OTHERS = [
    ("03_flash", {"head_dim": 128}, {"BLOCK_Q": 32, "BLOCK_KV": 32, "PAD_K": 4}),  # 1,024 threads
    ("05_register_tiles", {"head_dim": 128}, {}),  # the most locals of a thread
]
ALL = [*((kernel, {}, {}) for kernel in KERNELS), *((kernel, {}, {name: 0}) for kernel, name in BROKEN), *OTHERS]
IN_TURN = ALL[:1] + ALL[4:5] + ALL[6:7]  # three launches, the largest module, NaN
CASES = [pytest.param(*case, marks=[] if case in IN_TURN else pytest.mark.slow) for case in ALL]
SIZES = [(1, False, 1.0), (17, True, 30.0), (50, False, 1000.0), (64, True, 0.01), (64, False, 1.0)]  # scale: of scores
needs_emscripten = pytest.mark.skipif(
    not wasm.has_compiler(), reason="Emscripten was not found, so no module was built. Debian: apt install emscripten"
)
RUN = """
import { readFileSync } from 'node:fs';
import { Kernel, tensorsOf, truth } from './views/run_here_rule.js';
const { meta, sizes, module, given } = JSON.parse(readFileSync(process.argv[1]));
const text = array => Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString('base64');
const floats = text => new Float32Array(Uint8Array.from(Buffer.from(text, 'base64')).buffer);
const texts = of => Object.fromEntries(Object.entries(of).map(([name, array]) => [name, text(array)]));
const kernel = await Kernel.load(readFileSync(module), meta);
const found = sizes.map((size, n) => {
  const tensors = given ? Object.fromEntries(Object.entries(given[n]).map(([name, one]) => [name, floats(one)]))
    : tensorsOf(meta, size.tokens, { seed: n, spread: 30 });
  const ran = kernel.run(size, tensors), values = Object.entries(ran.values).flatMap(([name, rows]) =>
    rows.flatMap((row, y) => row.map((value, x) => [name, y, x, String(value)])));
  return { tensors: texts(ran.tensors), values, right: text(truth(tensors, meta, size)) };
});
console.log(JSON.stringify(found));
"""


def request_of(name, fields=(), constants=()):
    kernel = current().kernels[name]
    return Request(kernel, kernel.problem_type(num_heads=1, **dict(fields)), tuple(dict(constants).items()))


def in_node(request, problems, folder, given=None):
    """(tensors, values, o in float64) of each problem. given: the tensors of each, else those that the page makes."""
    module = folder / "kernel.wasm"
    module.write_bytes(wasm.build(request.kernel, request.defines))
    sizes = [{"tokens": one.seq_len, "causal": one.causal} for one in problems]
    wanted = {"meta": meta(request, ""), "sizes": sizes, "module": str(module), "given": given}
    (folder / "wanted.json").write_text(json.dumps(wanted))
    said = stage_tools.run("node", "--input-type=module", "--eval", RUN, str(folder / "wanted.json"))
    return [
        (
            {name: np.frombuffer(base64.b64decode(text), "<f4") for name, text in one["tensors"].items()},
            {(name, row, at): np.float32(value) for name, row, at, value in one["values"]},
            np.frombuffer(base64.b64decode(one["right"]), "<f8"),
        )
        for one in json.loads(said)
    ]


def logged(run):
    """(name, row, second key or 0) -> each value that a run of this CPU logs and the tab shows."""
    found = {}
    for site in run.sites.listed:
        if site.kind == "value" and site.keys in SHOWN:
            frame = run.trace.frame("event", "value", *site.keys)
            for _, value, row, *at in frame[frame.event == site.event].itertuples(index=False):
                found[site.event, row, *(at or [0])] = np.float32(value)
    return found


@needs_emscripten
@pytest.mark.parametrize(("kernel", "fields", "constants"), CASES)
def test_a_browser_and_this_cpu_compute_and_log_equal_bits(kernel, fields, constants, tmp_path):
    request = request_of(kernel, fields, constants)
    requests = [
        replace(request, problem=replace(request.problem, seq_len=tokens, causal=causal, score_scale=scale))
        for tokens, causal, scale in SIZES
    ]
    given = [
        {name: base64.b64encode(array.tobytes()).decode() for name, array in execute.start_arrays(one).items()}
        for one in requests
    ]
    for one, (tensors, values, right) in zip(
        requests, in_node(request, [one.problem for one in requests], tmp_path, given), strict=True
    ):
        run = execute.run(replace(one, scope=Scope.everything(one.plan)))
        for name in ("q", "k", "v", "o"):
            expected = run.arrays[name].ravel()
            np.testing.assert_array_equal(tensors[name].view("<u4"), expected.view("<u4"), f"{one.problem} {name}")
        expected = logged(run)
        assert values.keys() == expected.keys() and len(values) > one.problem.seq_len
        at = list(values)
        np.testing.assert_array_equal([values[key] for key in at], [expected[key] for key in at])
        np.testing.assert_allclose(right, one.problem.truth()["o"].ravel(), rtol=1e-9, atol=1e-11)


@needs_emscripten
def test_the_inputs_have_the_spread_and_what_is_not_written_is_nan(tmp_path):
    request = request_of("03_flash")
    problem = replace(request.problem, seq_len=64)
    ((tensors, _, _),) = in_node(request, [problem], tmp_path)
    q, k, v = (tensors[name] for name in "qkv")
    assert q.std() == pytest.approx(30, rel=0.1) and k.std() == pytest.approx(1, rel=0.1)
    assert abs(v.mean()) < 0.1 and len({*q, *k, *v}) > 6000
    given = [{name: base64.b64encode(tensors[name].tobytes()).decode() for name in "qkv"}]
    given[0]["o"] = base64.b64encode(np.full(64 * 32, np.nan, np.float32).tobytes()).decode()
    ((half, _, _),) = in_node(request, [replace(problem, seq_len=33)], tmp_path, given)
    assert np.isfinite(half["o"][: 33 * 32]).all() and np.isnan(half["o"][33 * 32 :]).all()


@needs_emscripten
def test_a_bundle_gets_the_tab_with_the_name_of_its_module(tmp_path):
    modules, request = Modules(), request_of("03_flash")
    data = gzip.compress(encoding.encode(Stage("", "", ())))
    made = encoding.decode(gzip.decompress(modules.with_tab(data, "first", request)))
    (tab,) = made["tabs"]
    name = tab["blocks"][0]["meta"]["module"]
    assert tab["title"] == "Run it here" and modules.of == {"first": name}
    assert gzip.decompress(modules.packed[name]) == wasm.build(request.kernel, request.defines)
    assert len(modules.packed[name]) < 60_000


def test_a_site_made_without_emscripten_says_what_it_leaves_out(monkeypatch):
    monkeypatch.setenv("PATH", "")
    modules, data = Modules(), b"a bundle"
    assert modules.with_tab(data, "first", request_of("03_flash")) == data
    assert modules.refused == (
        "tab Run it here: Emscripten was not found. Install it (Debian: apt install emscripten)."
    )


def test_the_first_five_kernels_of_the_course_run_in_a_browser():
    requests = [Request(spec, spec.problem_type()) for spec in current().kernels.values()]
    assert [one.kernel.name for one in requests if can_run(one)] == [*KERNELS]
    other = replace(request_of("03_flash").kernel, path=Path("/home/reader/03_flash.cu"))  # Emscripten is in no jail
    assert not can_run(Request(other, other.problem_type()))


def test_other_kernels_stay_without_the_tab():
    modules, kernel = Modules(), current().kernels["06_mma"]
    assert modules.with_tab(b"a bundle", "first", Request(kernel, kernel.problem_type())) == b"a bundle"
    assert modules.with_tab(b"a bundle", "first", (request_of("01_naive"), request_of("02_tiled"))) == b"a bundle"
    assert not modules.refused and not modules.of

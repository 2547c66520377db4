"""The kernels that a site runs in the reader's browser: their outputs equal those of this CPU, bit for bit."""

import base64
import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
import stage_tools

from app.run_here import KERNELS, Modules, meta
from explainers.story import encoding
from explainers.story.stage import Stage
from kernels.build import Mode, wasm
from kernels.catalog import current
from kernels.core.request import Request
from kernels.run import execute
from kernels.run.backends import cpu

WHAT_IFS = [("02_tiled", "SUBTRACT_MAX"), ("03_flash", "SUBTRACT_MAX"), ("04_warp_rows", "RESCALE")]
CASES = [*((kernel, "") for kernel in KERNELS), *WHAT_IFS]
SIZES = [(1, False, 1.0), (17, True, 30.0), (50, False, 1000.0), (64, True, 0.01), (64, False, 1.0)]
needs_emscripten = pytest.mark.skipif(
    not wasm.has_compiler(), reason="Emscripten was not found, so no module was built. Debian: apt install emscripten"
)
RUN = """
import { readFileSync } from 'node:fs';
import { load, run, tensorsOf, truth } from './views/run_here_rule.js';
const { meta, sizes, module } = JSON.parse(readFileSync(process.argv[1]));
const text = array => Buffer.from(array.buffer).toString('base64');
const wasm = await load(readFileSync(module)), found = [];
for (const [n, [tokens, causal, spread]] of sizes.entries()) {
  const tensors = tensorsOf(meta, tokens, { seed: n, spread }), sized = { tokens, causal };
  const { o } = run(wasm, meta, sized, tensors), { q, k, v } = tensors;
  found.push([q, k, v, o, truth(tensors, meta, sized)].map(text));
}
console.log(JSON.stringify(found));
"""


def request_of(name, broken=""):
    kernel = current().kernels[name]
    return Request(kernel, kernel.problem_type(num_heads=1), ((broken, 0),) if broken else ())


def in_node(request, sizes, folder):
    """(q, k, v, o, o in float64) of each size."""
    module = folder / "kernel.wasm"
    module.write_bytes(wasm.build(request.kernel, request.defines))
    given = folder / "given.json"
    given.write_text(json.dumps({"meta": meta(request, ""), "sizes": sizes, "module": str(module)}))
    said = stage_tools.run("node", "--input-type=module", "--eval", RUN, str(given))
    kinds = ("<f4", "<f4", "<f4", "<f4", "<f8")
    return [
        [np.frombuffer(base64.b64decode(text), kind) for text, kind in zip(texts, kinds, strict=True)]
        for texts in json.loads(said)
    ]


def on_this_cpu(request, inputs):
    built, plan, arrays = execute.prepare(request, Mode.TIMED)
    for name, values in zip("qkv", inputs, strict=True):
        arrays[name][...] = values.reshape(arrays[name].shape)
    cpu.launch(built, plan, arrays, request.scope)
    return arrays["o"].ravel()


@needs_emscripten
@pytest.mark.parametrize(("kernel", "broken"), CASES)
def test_a_browser_and_this_cpu_compute_equal_bits(kernel, broken, tmp_path):
    request = request_of(kernel, broken)
    for size, (*inputs, o, right) in zip(SIZES, in_node(request, SIZES, tmp_path), strict=True):
        tokens, causal, spread = size
        problem = replace(request.problem, seq_len=tokens, causal=causal)
        expected = on_this_cpu(replace(request, problem=problem), inputs)
        np.testing.assert_array_equal(o.view("<u4"), expected.view("<u4"), err_msg=f"{kernel} {broken} {size}")
        if not broken:
            assert np.abs(o - right).max() < 2e-4, size


@needs_emscripten
def test_the_inputs_have_the_spread_and_the_right_answer_is_that_of_the_problem(tmp_path):
    request = request_of("03_flash")
    ((q, k, v, o, right),) = in_node(request, [(64, True, 30.0)], tmp_path)
    assert q.std() == pytest.approx(30, rel=0.1) and k.std() == pytest.approx(1, rel=0.1)
    assert abs(v.mean()) < 0.1 and len({*q, *k, *v}) > 6000
    scores = np.where(
        np.tri(64) > 0, request.problem.scale * q.reshape(64, -1).astype(float) @ k.reshape(64, -1).T, -np.inf
    )
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = weights @ v.reshape(64, -1) / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(right, expected.ravel(), rtol=1e-12, atol=1e-13)


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


def test_other_kernels_stay_without_the_tab():
    modules, kernel = Modules(), current().kernels["06_mma"]
    assert modules.with_tab(b"a bundle", "first", Request(kernel, kernel.problem_type())) == b"a bundle"
    assert modules.with_tab(b"a bundle", "first", (request_of("01_naive"), request_of("02_tiled"))) == b"a bundle"
    assert not modules.refused and not modules.of

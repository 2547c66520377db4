"""The five products of the backward on tensor cores: sums as the trace has them, owners as PTX documents them."""

import numpy as np
import pytest

from explainers.models import gradients
from explainers.stories.tensor_cores import fragments
from explainers.stories.tensor_cores import story as page
from explainers.story import encoding, stage
from kernels.catalog import current
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError
from kernels.run import execute

KERNELS = {name: k for name, k in current().of_family("backward").items() if page.STORY.accepts(k)}


def run_of(kernel, fields, scope=0, **constants):
    problem = kernel.problem_type(**{"seq_len": 40, "num_heads": 1} | fields)
    chosen = kernel.settings_for(problem, constants)
    return execute.run(Request(kernel, problem, tuple(chosen.items()), Scope(scope), "cpu"))


@pytest.fixture(scope="module", params=KERNELS.values(), ids=KERNELS)
def run(request):
    keys, rows = (request.param.constant_of(role) for role in ("key_rows", "query_rows"))
    small = {keys.name: min(keys.values), rows.name: min(rows.values)} if len(keys.values) > 1 else {}
    return run_of(request.param, {"causal": True}, **small)


@pytest.fixture(scope="module")
def story(run):
    return fragments.explain(run)


def test_every_logged_sum_is_that_of_its_products_with_a_frame_and_each_term_once(run, story):
    logged = {site.event for site in run.sites if site.kind == "value"}
    assert story.wrong == 0 and (story.compared > 20) == ("dk" in logged)
    assert {product.c for product in story.products} == {product.made for product in gradients.PRODUCTS}
    assert "left out" not in page.unlogged(story)
    # Added up over its products, each sum has every term of its axis: the whole product of the matrices.
    for c, kind in story.kinds.items():
        last = max((p for p in story.last.values() if p.c == c), key=lambda p: p.tile)
        group = [p for p in story.products if p.part == last.part]
        covered = sorted(n for p in group for n in range(*p.k))
        assert covered == [*range(covered[0], covered[0] + len(covered))] and len(set(covered)) == len(covered)
        if kind.axes[2] == "dim":
            assert len(covered) == run.request.problem.head_dim
    made = encoding.decode(encoding.encode(page.stage_of(run, story, stage.provenance(run))))
    assert len(made["frames"]) == len(story.steps) <= 20 and {q["id"] for q in made["questions"]} >= {"spread", "owner"}
    for frame in made["frames"]:
        assert all(len(said.split()) <= 25 for said in frame["sentence"].split(". ")), frame["sentence"]
    table = page.layout_table(story)
    assert {f"C = {kind.label('C')}" for kind in story.kinds.values()} <= set(table.of)


def test_owners_lie_as_ptx_has_them(story):
    """PTX ISA, fragments of mma.m16n8k16, and of wgmma: A and C have a row for four lanes, pairs of neighbours."""
    for product in story.products[:200:7]:
        kind = story.kinds[product.c]
        for letter, (name, low, left, high, wide, turned) in page.parts_of(kind, product).items():
            m = story.matrices[name]
            window = np.s_[max(0, low - m.row0) : low - m.row0 + high, max(0, left - m.col0) : left - m.col0 + wide]
            lane = m.lane[window].T if turned else m.lane[window]
            for (i, j), who in np.ndenumerate(lane):
                if who >= 0 and letter == "B":
                    assert who == 4 * j + i % 8 // 2
                elif who >= 0:
                    assert who == 32 * (i // 16) + 4 * (i % 8) + j % 8 // 2


def test_a_later_tile_starts_from_the_sums_before_it(run):
    later = fragments.explain(run, 0, fragments.key_tiles(run.request) - 1)
    assert later.wrong == 0
    with pytest.raises(ProblemError, match="key_tile is 99. This block has the query tiles"):
        fragments.explain(run, 0, 99)


@pytest.mark.parametrize("name", [name for name, kernel in KERNELS.items() if kernel.requires == "sm_90a"])
def test_a_sum_starts_with_the_tiles_that_came_before_in_the_loop(name):
    """Under a causal mask these kernels go back from the last query tile."""
    story = fragments.explain(run_of(KERNELS[name], {"seq_len": 130, "causal": True}))
    assert story.tiles == [1, 0]
    k = story.matrices["dO of dV"]
    assert not story.before["dV"][0].any()
    added = story.matrices["P of dV"].value[128:].T @ k.value[128:]
    np.testing.assert_allclose(story.before["dV"][1], added, rtol=1e-5)
    n, product = next((n, p) for n, p in enumerate(story.products) if p.c == "dV" and p.tile == 0)
    sums, _, _ = fragments.added_up(story, range(len(story.products)))
    before, after, _ = sums.places[n]
    (r0, r1), (c0, c1) = product.rows, product.cols
    c = sums.c[before : before + (r1 - r0) * (c1 - c0)].reshape(r1 - r0, c1 - c0)
    assert before >= 0 and np.array_equal(c, story.before["dV"][1][r0:r1, c0:c1])


@pytest.mark.parametrize("name", [name for name, kernel in KERNELS.items() if kernel.requires == "sm_90a"])
@pytest.mark.parametrize("head_dim", (64, 128))
def test_a_warpgroup_multiplies_ds_of_all_keys_from_shared_memory_for_dq(name, head_dim):
    """Heads of 64: half of the queries. Heads of 128: half of the dims. Queries past the end have no record."""
    run = run_of(KERNELS[name], {"seq_len": 130, "head_dim": head_dim})
    story = fragments.explain(run, 1)
    own = [product for product in story.products if product.c == "dQ"]
    rows, cols = ((64, 128), (0, 64)) if head_dim == 64 else ((0, 64), (64, 128))
    assert (own[0].rows, own[0].cols) == (rows, cols) and {p.k for p in own} == {(k, k + 16) for k in range(0, 128, 16)}
    assert not (story.matrices["dS of dQ"].lane >= 0).any() and (story.matrices["dS of dK"].lane >= 0).any()
    said = next(frame["sentence"] for frame in story.frames if frame["phase"] == "dQ")
    assert said.endswith("The tensor cores read dS and K from shared memory.")
    summed = story.matrices["dS of dQ"].value[:64, :128] @ story.matrices["K of dQ"].value[:128, : cols[1] - cols[0]]
    dq = story.matrices["dQ"].value[:64]
    known = np.isfinite(dq)
    assert known.all()
    np.testing.assert_allclose(dq, story.scale * summed[: len(dq)], atol=2e-3)

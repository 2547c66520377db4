"""The tab Run it here of the site without a server: the reader's browser executes a kernel on inputs of its own."""

import numpy as np
import pytest
from browser.conftest import shown
from playwright.sync_api import expect

from app import export
from kernels.build import Mode, wasm
from kernels.catalog import current
from kernels.core.request import Request
from kernels.run import execute
from kernels.run.backends import cpu

pytestmark = pytest.mark.skipif(
    not wasm.has_compiler(), reason="Emscripten was not found, so no module was built. Debian: apt install emscripten"
)
PANEL = ".wg .drawer [data-view=run_here]"
RAN = """panel => {
  const { sizes, tensors, values } = panel.ran;
  const lists = Object.entries(tensors).map(([name, values]) => [name, [...values]]);
  return { ...sizes, ...Object.fromEntries(lists), l: values.l };
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The start page and the stop One pass, with the other value of one choice."""
    top = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "values_of", lambda choices: iter([("causal", "true")]))
        made = export.Export(top / "a" / "path", ("one_pass",))
        made.write()
    assert set(made.here.of) == {entry["bundle"] for entry in made.pages["online_softmax"].entries}
    return top


def opened(page, url):
    page.goto(f"{url}/online_softmax/?stop=one_pass&tab=here")
    shown(page, "online_softmax")
    panel = page.locator(PANEL)
    expect(panel.locator("tbody tr").first).to_be_visible()
    return panel


def native(ran):
    """O of this CPU for the inputs of the page."""
    kernel = current().kernels["03_flash"]
    problem = kernel.problem_type(num_heads=1, seq_len=ran["tokens"], causal=ran["causal"])
    built, plan, arrays = execute.prepare(
        request := Request(kernel, problem, (("BLOCK_Q", 8), ("BLOCK_KV", 8))), Mode.TIMED
    )
    for name in "qkv":
        arrays[name][...] = np.reshape(ran[name], arrays[name].shape)
    cpu.launch(built, plan, arrays, request.scope)
    return arrays["o"].ravel()


def test_a_change_of_the_inputs_executes_the_kernel_with_the_bits_of_this_cpu(site, page):
    panel = opened(page, site[0])
    expect(panel.locator("b.label")).to_have_text("executed: in this browser")
    expect(panel).to_contain_text(
        "03_flash on 64 tokens, one head of 32 numbers. Largest difference of O from float64:"
    )
    first = panel.evaluate(RAN)
    panel.get_by_label("tokens").fill("50")
    panel.get_by_label("size of the scores").fill("1.5")
    panel.get_by_label("causal").check()
    expect(panel).to_contain_text("03_flash on 50 tokens")
    second = panel.evaluate(RAN)
    panel.get_by_role("button", name="New inputs").click()
    page.wait_for_function(
        "([at, q]) => document.querySelector(at).ran.tensors.q[0] !== q", arg=[PANEL, second["q"][0]]
    )
    third = panel.evaluate(RAN)
    for ran in (first, second, third):
        np.testing.assert_array_equal(np.array(ran["o"], np.float32).view("<u4"), native(ran).view("<u4"))
    assert np.std(second["q"]) > 20 * np.std(first["q"]) and (second["tokens"], second["causal"]) == (50, True)
    panel.get_by_label("row", exact=True).fill("20")
    rows = panel.locator("tbody tr")
    expect(rows).to_have_count(3)  # up to key 20, in tiles of 8
    logged = [float(text) for text in rows.locator("td:last-child").all_inner_texts()]
    assert logged == pytest.approx(third["l"][20], rel=1e-5)
    expect(panel).to_contain_text("Row 20, as the probes of 03_flash log it.")


def test_a_value_that_the_site_lacks_leads_to_the_tab(site, page):
    page.goto(f"{site[0]}/online_softmax/?stop=one_pass&seed=77")
    shown(page, "online_softmax")
    told = page.locator(".wg .messages")
    expect(told).to_contain_text("seed = 77 is not on this site")
    expect(told).to_contain_text("The tab “Run it here” runs this kernel on other inputs in your browser.")


def test_the_tab_runs_without_a_network_after_a_visit(site, page):
    url, end = site
    page.goto(f"{url}/")
    page.wait_for_function("navigator.serviceWorker.controller !== null", timeout=20_000)
    end()
    expect(opened(page, url)).to_contain_text("03_flash on 64 tokens")


def test_a_module_that_cannot_be_fetched_says_so(site, page):
    page.add_init_script("delete Navigator.prototype.serviceWorker")  # its requests are out of the route's reach
    page.route("**/bundles/module-*.gz", lambda route: route.fulfill(status=404))
    page.goto(f"{site[0]}/online_softmax/?stop=one_pass&tab=here")
    expect(page.locator(f"{PANEL} [role=alert]")).to_contain_text("was not reached")

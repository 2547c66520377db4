"""A kernel that once had another name is still found by it."""

from urllib.parse import urlencode

import pytest
from pages import open_page

from kernels import catalog
from kernels.measure import sweeps

FORMER = {spec.formerly: spec.name for spec in catalog.KERNELS.values() if spec.formerly}


def test_no_former_name_is_another_kernels_name():
    assert FORMER and not {*FORMER} & {*catalog.KERNELS}
    assert (
        catalog.current().present_name("03_flash") == "03_flash"
        and catalog.current().present_name("nobody") == "nobody"
    )


@pytest.mark.parametrize(("before", "now"), FORMER.items())
def test_commands_and_links_take_the_former_name(before, now):
    assert catalog.find(before).name == now
    assert {point.name for point in sweeps.points([before, now])} == {now}
    page = open_page(f"tiling?kernel={before}&backend=cpu")
    assert page.asked.link["kernel"] == now and not page.asked.told
    page = open_page(f"compare?a=03_flash&b={before}&backend=cpu")
    assert page.asked.link["b"] == now and not page.asked.told
    sweep = "seq_len batch=1 num_heads=8 num_kv_heads=8 head_dim=64 causal=False dtype=float32 Attention"
    page = open_page(f"timing?{urlencode({'sweep': sweep})}&baseline={before}&hide={before}|01_naive")
    assert page.asked.link["baseline"] == now and page.asked.link["hide"] == f"{now}|01_naive" and not page.asked.told

"""The page Fusion in a real Chromium: the ledger read off the picture adds up to the bytes of the trace."""

import re

from browser.stepping import count, hover, press, sentence, step_of
from pages import open_page

LINK = "fusion?kernel=add_rms_norm&tokens=2&hidden=64"


def test_the_cells_of_the_ledger_add_up_to_both_sums(visit):
    page, made = visit(f"/{LINK}"), open_page(LINK).stage
    (table,), (bars, *_) = next(view for view in made.views if view["id"] == "ledger")["meta"]["lines"]
    assert count(page) == len(made.frames)
    press(page, "ArrowRight", "ArrowRight")
    assert step_of(page) == 2 and sentence(page) == made.frames[2]["sentence"]
    sums = {"separate": 0, "fused": 0}
    for datum in {tuple(cell["datum"].items()): cell["datum"] for cell in table["cells"]}.values():
        said = hover(page, "Bytes", **datum)
        sums[datum["side"]] += sum(int(n.replace(",", "")) for n in re.findall(r"([\d,]+) bytes of", said))
    assert sums == {bar["datum"]["total"]: bar["value"] for bar in bars["bars"]}
    assert hover(page, "Bytes", total="fused").endswith(f": {sums['fused']:,} bytes read and written")

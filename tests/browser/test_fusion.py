"""The page Fusion in a real Chromium: the ledger read off the picture adds up to the bytes of the trace."""

import re

from browser.stepping import count, hover, press, sentence, step_of
from pages import open_page

LINK = "fusion?kernel=add_rms_norm&tokens=2&hidden=64"


def test_the_cells_of_the_ledger_add_up_to_both_sums(visit):
    page, made = visit(f"/{LINK}"), open_page(LINK).stage
    meta = next(view for view in made.views if view["id"] == "ledger")["meta"]
    assert count(page) == len(made.frames)
    press(page, "ArrowRight", "ArrowRight")
    assert step_of(page) == 2 and sentence(page) == made.frames[2]["sentence"]
    sums = [0, 0]
    for launch, column in enumerate(meta["launches"]):
        for tensor in meta["tensors"]:
            said = hover(page, "Ledger", tensor=tensor["name"], launch=launch)
            sums[column["side"]] += sum(int(n.replace(",", "")) for n in re.findall(r"([\d,]+) bytes of", said))
    assert sums == meta["totals"]
    assert hover(page, "Ledger", total=1) == f"{meta['kernels'][1]}: {sums[1]:,} bytes read and written"

"""The source story: what it shows is the listing's own."""

import json
from pathlib import Path

from explainers.stories.source import source
from explainers.stories.source.stalls import Matched
from explainers.story import encoding
from kernels.build import disassembly
from kernels.catalog import KERNELS, load_kernel


def test_the_view_holds_every_line_with_its_labels_and_addresses():
    kernel = KERNELS["paged_v1"]
    listing = disassembly.listing(kernel, kernel.problem_type(), ())
    meta = source.view(kernel, listing, Matched())
    assert [f["name"] for f in meta["files"]][0] == "paged_v1.cu" and len(meta["files"]) >= 2
    for part, lines in (("ptx", listing.ptx), ("sass", listing.sass)):
        assert meta[part]["text"] == [line.text for line in lines]
        assert {len(column) for column in meta[part].values()} == {len(lines)}
        known = {label for labels in meta[part]["labels"] for label in labels}
        assert known and {t for t in meta[part]["target"] if t} - known <= set(listing.registers)
    held = set(meta["held"])
    assert held == {place for part in ("ptx", "sass") for place in meta[part]["source"] if place}
    assert all(int(place.split(":")[1]) >= 1 for place in held)
    json.dumps(meta)


def test_the_stage_has_one_picture_and_names_where_the_most_registers_are_live():
    kernel = KERNELS["03_flash"]
    listing = disassembly.listing(kernel, kernel.problem_type(), ())
    said, most = source.sentence(listing), max(line.live for line in listing.sass)
    peak = next(line for line in listing.sass if line.live == most)
    assert f"at most {most} live registers" in said and f"address {peak.address:04x}" in said
    assert f"{len(listing.sass)} instructions" in said and source.most_live(listing) == {"flash": most}
    assert source.live_table(listing).iloc[0].tolist() == ["flash", most, listing.registers["flash"], 0]
    kernel = KERNELS["02_tiled"]
    of = kernel, kernel.problem_type(), ()
    made = source.stage_of(
        kernel, disassembly.listing(*of), disassembly.check_widths(*of), "timed", "sm_90a", Matched()
    )
    assert not made.frames and [v.kind for v in made.views] == ["source"] and not made.codes
    assert [tab.id for tab in made.tabs] == ["mix", "widths", "live", "builds"]
    rows = made.tabs[0].blocks[0]["rows"]
    assert sum(row[1] for row in rows) == len(made.views[0].meta["sass"]["text"])
    assert made.tabs[1].blocks[0]["tone"] == "good"
    encoding.decode(encoding.encode(made))


def test_the_stage_names_the_local_memory_of_a_thread():
    """The starter's arrays with indices of a run."""
    kernel = load_kernel(Path(__file__).parents[4] / "app/workbench/starter.cu")
    listing = disassembly.listing(kernel, kernel.problem_type(), ())
    assert source.sentence(listing).endswith("and 1,168 bytes of local memory a thread.")
    assert source.live_table(listing)["bytes of local memory a thread"].tolist() == [1168]

"""Kernels that a user brings: one .cu in a folder, and a family in a folder, with nothing else edited."""

import shutil

import pytest
from dropped import ODD_FAMILY, ONE_KERNEL, conditional_kernel, silent_kernel, skeleton_kernel
from pages import shown_with

SURPRISED = ("tiling", "online_softmax", "any_kernel")


def surprising():
    """one_kernel.cu with a tensor and a value that no story knows."""
    text = ONE_KERNEL.read_text()
    scratch = '[scratch.seen]\nshape = ["batch * num_heads", "seq_len"]\naxes = ["flat", "query"]\n\n'
    logged = (
        "  if (row_leader) PROBE_VALUE(surprise, row, l);\n  PROBE_STORE(SEEN_gmem, head + row, 4);\n"
        "  if (row < seq_len) stg<float>(&SEEN_gmem[head + row], l);\n"
    )
    for old, new in (
        ('title = "One of mine"', 'title = "Surprising"'),
        ("[[launches]]", f"{scratch}[[launches]]"),
        ('"o", "int32', '"o", "seen", "int32'),
        ("float* O_gmem, int seq_len", "float* O_gmem, float* SEEN_gmem, int seq_len"),
        ("  PROBE_MARK(write, row);\n", f"  PROBE_MARK(write, row);\n{logged}"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    return text


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """What the pages show of what was put into an empty folder: three kernels, and a family."""
    folder = tmp_path_factory.mktemp("mine")
    shutil.copy(ONE_KERNEL, folder)
    silent_kernel(folder)
    conditional_kernel(folder)
    conditional_kernel(folder, "causal", "only_causal")
    skeleton_kernel(folder)
    (folder / "surprising.cu").write_text(surprising())
    shutil.copytree(ODD_FAMILY, folder / "odd_family")
    kernel = "kernel=one_kernel&backend=cpu"
    links = {
        "tiling": f"tiling?{kernel}",
        "online_softmax": f"online_softmax?{kernel}&what_if=RESCALE",
        "bank_conflicts": f"bank_conflicts?view=attention&{kernel}",
        "coalescing": f"coalescing?{kernel}",
        "occupancy": "occupancy?kernel=one_kernel",
        "source": "source?kernel=one_kernel",
        "any_kernel": f"any_kernel?{kernel}",
        "readme": "any_kernel?kernel=scaled_copy&backend=cpu",
        "silent": "any_kernel?kernel=silent&backend=cpu",
        "silent source": "source?kernel=silent",
        "refusing": "any_kernel?kernel=not_causal&backend=cpu",
        "refused": "any_kernel?kernel=only_causal&backend=cpu",
        "causal": "any_kernel?kernel=only_causal&backend=cpu&causal=true",
        "compare": "compare?a=03_flash&b=one_kernel&backend=cpu",
        "recorded": "tiling?kernel=one_kernel&backend=recorded",
        "ours": "tiling?kernel=03_flash&backend=cpu",
        "odd any_kernel": "any_kernel?kernel=odd&backend=cpu",
        "odd coalescing": "coalescing?kernel=odd&backend=cpu",
        "odd source": "source?kernel=odd",
        "odd occupancy": "occupancy?kernel=odd",
        **{f"surprising {page}": f"{page}?kernel=surprising&backend=cpu" for page in SURPRISED},
    }
    return dict(zip(links, shown_with(folder, *links.values())))


@pytest.mark.parametrize(
    ("page", "view"),
    [
        ("tiling", "matrices"),
        ("online_softmax", "row"),
        ("bank_conflicts", "banks"),
        ("coalescing", "sectors"),
        ("occupancy", "scene"),
        ("source", "source"),
        ("any_kernel", "tensors"),
        ("compare", "matrices"),
    ],
)
def test_a_dropped_kernel_is_on_every_page_that_its_events_allow(mine, page, view):
    shown = mine[page]
    assert "one_kernel" in shown["kernels"] and "one_kernel" in (
        shown["choices"].get("kernel"),
        shown["choices"].get("b"),
    )
    assert view in shown["views"] and not shown["error"] and not shown["told"] and not shown["warnings"]
    assert "goes wrong" in shown["summary"] or page != "online_softmax"
    live = {"hand"}  # sliders, which have no words here
    assert all(text for tab, text in shown["tabs"].items() if tab not in live) or page == "compare"


def test_the_kernel_that_the_readme_shows_how_to_write_is_shown(mine):
    shown = mine["readme"]
    assert shown["choices"]["kernel"] == "scaled_copy" and shown["views"] == ["tensors"] and not shown["error"]
    assert any("Do not trust this run" in warning for warning in shown["warnings"])


def test_a_kernel_that_refuses_a_standard_problem_stops_no_page(mine):
    for page in ("refusing", "causal"):
        assert mine[page]["views"] == ["tensors"] and not mine[page]["error"]
    assert mine["refused"]["error"] == "It must be that causal." and "only_causal" in mine["refused"]["kernels"]


def test_a_kernel_without_probes_is_on_any_kernel_with_its_tensors(mine):
    shown = mine["silent"]
    assert shown["choices"]["kernel"] == "silent" and shown["views"] == ["tensors"] and not shown["error"]
    assert "has no probes" in shown["summary"] and all(shown["tabs"].values())
    assert not mine["silent source"]["error"] and "silent" not in mine["compare"]["kernels"]


def test_what_is_missing_of_a_dropped_kernel_is_said(mine):
    assert "python -m kernels record" in mine["recorded"]["error"]


def test_ours_are_compared_with_a_dropped_kernel(mine):
    assert not mine["ours"]["error"] and "One of mine 4 times" in mine["ours"]["tabs"]["bytes"]


def test_a_family_that_nothing_knows_opens_and_breaks_no_page(mine):
    any_, coalescing, source, occupancy = (
        mine[f"odd {p}"] for p in ("any_kernel", "coalescing", "source", "occupancy")
    )
    assert any_["choices"]["kernel"] == "odd" and any_["views"] == ["tensors"]
    for shown in (any_, coalescing, source, occupancy, mine["ours"]):
        assert not shown["error"] and not shown["warnings"] and not shown["told"], shown["link"]
    assert "odd" in coalescing["kernels"] and "odd" in source["kernels"] and "odd" not in mine["ours"]["kernels"]


@pytest.mark.slow  # its tabs read every table of times
def test_a_family_that_nothing_knows_breaks_no_page_of_times(tmp_path):
    shutil.copytree(ODD_FAMILY, tmp_path / "odd_family")
    (shown,) = shown_with(tmp_path, "timing")
    assert not shown["error"] and not shown["warnings"] and not shown["told"]


@pytest.mark.parametrize("page", SURPRISED)
def test_a_kernel_with_a_tensor_and_a_value_that_no_story_knows_is_shown_whole(mine, page):
    shown = mine[f"surprising {page}"]
    assert not shown["error"] and not shown["warnings"] and not shown["told"], shown
    if page == "any_kernel":
        assert "seen" in str(shown["tabs"])
    else:  # the story, and what it does not know beside it
        assert "tensors" in shown["views"], "seen and surprise are shown by no picture of this story"

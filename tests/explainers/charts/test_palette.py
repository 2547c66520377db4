"""The palette's promises: sets without a colour in common, contrast on both themes, differences that all eyes see."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from explainers.charts import palette
from explainers.stories.tiling import traffic
from kernels.catalog import KERNELS, current
from kernels.core.request import Request
from kernels.run import execute

STAGE_CSS = (Path(__file__).parents[3] / "app" / "stage" / "core" / "stage.css").read_text()
LIGHT, DARK = ("#ffffff", "#f0f2f6", "#31333f"), ("#0e1117", "#262730", "#fafafa")  # Streamlit's: page, panel, text
SETS = {
    "kernels": palette.KERNELS,
    "peers": palette.PEERS,
    "tensors": tuple(palette.TENSORS.values()),
    "sequences": palette.SEQUENCES,
    "sign": tuple(palette.SIGN.values()),
    "marks": tuple(palette.MARKS.values()),
}
CHARTED = [*palette.OKABE_ITO.values(), *(colour for colours in SETS.values() for colour in colours)]
# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
BLIND = {
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
}


def linear(colour):
    """sRGB text -> linear red, green and blue (IEC 61966-2-1)."""
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    """WCAG 2: (lighter + 0.05) / (darker + 0.05) of the relative luminances."""
    low, high = sorted(float(np.dot([0.2126, 0.7152, 0.0722], linear(colour))) for colour in (a, b))
    return (high + 0.05) / (low + 0.05)


def oklab(rgb):
    """Bjorn Ottosson's OKLab of linear RGB: distances in it are about those that are seen."""
    to_lms = np.array([[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]])
    lms = np.cbrt(np.clip(to_lms @ rgb, 0, None))
    return np.array([[0.21045, 0.79362, -0.00407], [1.97800, -2.42859, 0.45059], [0.02590, 0.78277, -0.80868]]) @ lms


def seen(a, b, eye=None):
    through = np.array(BLIND[eye]) if eye else np.eye(3)
    return float(np.linalg.norm(oklab(through @ linear(a)) - oklab(through @ linear(b))))


def mixed(a, b, share):
    """color-mix(in srgb, a share, b)."""
    return "#" + "".join(
        f"{round(int(a[i : i + 2], 16) * share + int(b[i : i + 2], 16) * (1 - share)):02x}" for i in (1, 3, 5)
    )


def test_the_ratio_is_that_of_wcag():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)  # the known least grey for text on white


def test_sets_have_no_colour_in_common_and_none_that_is_taken_for_anothers():
    for one, other in itertools.combinations(SETS, 2):
        assert not {c.upper() for c in SETS[one]} & {c.upper() for c in SETS[other]}, (one, other)
        plain = [pair for pair in itertools.product(SETS[one], SETS[other]) if palette.TENSORS["other"] not in pair]
        assert min(seen(a, b) for a, b in plain) > 0.045, (one, other)  # about twice what is just seen


def test_colours_of_a_set_are_told_apart_by_every_eye():
    for a, b in [pair for colours in SETS.values() for pair in itertools.combinations(colours, 2)]:
        assert seen(a, b) > 0.08, f"{a} and {b}"
        for eye in BLIND:
            assert seen(a, b, eye) > 0.05, f"{a} and {b} with {eye}"


def test_what_carries_meaning_stands_out_three_to_one_on_both_themes():
    for colour, background in itertools.product(CHARTED, (LIGHT[0], DARK[0])):
        assert contrast(colour, background) >= 3, f"{colour} on {background}: {contrast(colour, background):.2f}"


@pytest.mark.parametrize(("page", "panel", "text"), [LIGHT, DARK], ids=["light", "dark"])
def test_dimmed_text_is_read_at_four_and_a_half_to_one_on_both_themes(page, panel, text):
    theirs = r"[{;]\s*(?:--dim|color): color-mix\(in srgb, var\(--st-text-color\) (\d+)%, var\(--st-([a-z-]+)-co"
    mixes = re.findall(theirs, STAGE_CSS)
    assert len(mixes) >= 4
    for share, into in mixes:
        behind = panel if into == "secondary-background" else page
        colour = mixed(text, behind, int(share) / 100)
        assert contrast(colour, behind) >= 4.5, f"{share} % on {behind}: {contrast(colour, behind):.2f}"
    light, dark = re.search(r"--warn: light-dark\((#\w+), (#\w+)\)", STAGE_CSS).groups()
    assert contrast(light if page == LIGHT[0] else dark, page) >= 4.5
    lit = mixed("#e69f00", page, int(re.search(r"--lit: color-mix\(in srgb, #e69f00 (\d+)%", STAGE_CSS)[1]) / 100)
    assert contrast(text, lit) >= 4.5  # a lit line


@pytest.mark.parametrize("family", current().families)
def test_a_kernel_has_one_colour_by_its_spec_its_name_and_its_title(family):
    for spec in current().of_family(family).values():
        assert palette.kernel_colour(spec) == palette.kernel_colour(spec.name) == palette.kernel_colour(spec.title)
        assert palette.kernel_colour(f"A: {spec.name}") == palette.kernel_colour(spec)
    colours = [palette.kernel_colour(spec) for spec in current().of_family(family).values()]
    assert len(set(colours)) == min(len(colours), len(palette.KERNELS))


def test_two_builds_of_one_kernel_are_told_apart_and_the_chart_of_bytes_has_the_kernels_colours():
    first = next(iter(KERNELS))
    one, other = palette.kernel_colours([first, first])
    assert one == palette.kernel_colour(first) and other not in (one, *palette.KERNELS)
    assert palette.kernel_colour("nobody's kernel") in palette.KERNELS
    specs = list(current().of_family("dense").values())[1:3]
    problem = specs[0].problem_type(seq_len=32, head_dim=32)
    counted = [(request, execute.traffic(request)) for request in (Request(spec, problem) for spec in specs)]
    scale = traffic.chart(counted).to_dict()["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"])) == {s.title: palette.kernel_colour(s) for s in specs}

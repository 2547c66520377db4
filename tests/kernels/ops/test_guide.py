"""The examples of kernels/pytorch.md run as they stand, with the package under its name in the repository."""

import re
from pathlib import Path

import pytest
import torch

from kernels import ops

GUIDE = (Path(__file__).parents[3] / "kernels" / "pytorch.md").read_text()
EXAMPLES = dict(re.findall(r"## (\w+)\n+```python\n(.*?)```", GUIDE, re.S))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_guide_runs(name, capsys):
    torch.manual_seed(0)
    names = {}
    with ops.watch() as seen:
        exec(EXAMPLES[name].replace("from warpglass import", "from kernels import"), names)
    if name == "Models" and hasattr(torch.nn.attention, "register_flash_attention_impl"):
        assert {"attention", "attention_backward"} <= {one.by for one in seen.calls}
    if name == "Train":
        assert names["loss"].isfinite() and names["q"].grad.abs().max() > 0
    if name == "Decode":
        assert names["o"].shape == (2, 4, 64) and names["o"].isfinite().all()
    if name == "Watch":
        assert "4x16x4096x128" in capsys.readouterr().out


def test_an_example_has_about_ten_lines():
    assert set(EXAMPLES) == {"Train", "Models", "Decode", "Watch"}
    for name, text in EXAMPLES.items():
        lines = [line for line in text.splitlines() if line and not line.startswith(("import", "from"))]
        assert len(lines) <= 10, name


def test_the_guide_names_each_operator():
    for name in ops.__all__:
        assert name.split("_attention")[0] in GUIDE or name == "attention_backward", name

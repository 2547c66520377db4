"""The table of kernels/walls.md: each threat names a wall of the first table, and a test that exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "kernels" / "walls.md").read_text()
ROWS = re.findall(r"^\| (.+?) \| (\w+) \| `(\S+)::(\w+)` \|$", TEXT, re.M)


def test_each_threat_has_a_known_wall_and_names_a_test_that_exists():
    walls = set(re.findall(r"^\| (\w+) \| [^|`]+ \|$", TEXT, re.M))
    assert len(ROWS) >= 40 and {wall for _, wall, *_ in ROWS} == walls - {"wall"}
    assert len(ROWS) == sum("::" in line for line in TEXT.splitlines())
    for threat, _, file, name in ROWS:
        tree = ast.parse((ROOT / "tests" / file).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, (threat, file, name)

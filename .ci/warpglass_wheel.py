"""Hooks of hatchling: `pip install .` gives one package, warpglass/, with kernels, explainers and app below it.

In the repository these are top-level names, so that `python -m kernels` works without an install. On a user's machine
the name kernels may belong to another package, for example Hugging Face's. The wheel therefore has them below
warpglass. `renamed` changes each import and each command in a text.

Other ways do not work without this change:
- relative imports: some 1,080 of 3,640 imports cross these folders, and would leave the top level in the repository
- a path entry at run time: it takes the name kernels from the user's process
- an import hook: it hides the real names from type checkers and editors
- a setting of hatchling, setuptools or flit: each moves folders, and none changes an import
"""

import ast
import shutil
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).parents[1]
NAME = "warpglass"
FOLDERS = ("kernels", "explainers", "app")
COMMANDS = {
    "-m kernels.": f"-m {NAME}.kernels.",
    "python -m kernels": NAME,
    "python -m app.serve": f"{NAME} serve",
    "-m app.": f"-m {NAME}.app.",
}
"""A command in a text of the repository -> the command of an installation. The rules apply in this order."""


class Requirements(MetadataHookInterface):
    """The packages of the wheel."""

    def update(self, metadata: dict) -> None:
        """Adds the extra pages of app/requirements.txt, and an extra for each kernels/EXTRA.txt.

        The operators need the ranges of pyproject.toml and one extra, so that they replace nobody's torch."""
        extras = {path.stem: path for path in sorted((ROOT / "kernels").glob("*.txt"))}
        extras["pages"] = ROOT / "app" / "requirements.txt"
        metadata["optional-dependencies"] = {name: requirements(path) for name, path in extras.items()}


class Package(BuildHookInterface):
    """The files of the wheel."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Makes the package in a temporary folder.

        version: "standard", or "editable" for a wheel with only a path to this checkout, where warpglass, kernels,
        explainers and app keep their names.
        """
        if version == "editable":
            return
        self.folder = tempfile.TemporaryDirectory()  # until hatchling has written the wheel
        package = Path(self.folder.name, NAME)
        left_out = shutil.ignore_patterns("__pycache__", "node_modules", ".*")
        shutil.copytree(ROOT / NAME, package, ignore=left_out)
        for name in FOLDERS:
            shutil.copytree(ROOT / name, package / name, ignore=left_out)
        for path in package.rglob("*.py"):
            path.write_text(renamed(path.read_text()))
        build_data["force_include"][str(package)] = NAME
        build_data["force_include"][str(ROOT / ".streamlit" / "config.toml")] = f"{NAME}/.streamlit/config.toml"


def renamed(text: str) -> str:
    """A Python file's text with the prefix in each import of ours, and with the commands of an installation."""
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module.split(".")[0] in FOLDERS:
            line, at = lines[node.lineno - 1], node.col_offset
            lines[node.lineno - 1] = line[:at] + line[at:].replace("from ", f"from {NAME}.", 1)
    text = "".join(lines)
    for here, installed in COMMANDS.items():
        text = text.replace(here, installed)
    return text


def requirements(path: Path) -> list[str]:
    """The packages of a file and of its included files (`-r`)."""
    found = []
    for line in (line.partition("#")[0].strip() for line in path.read_text().splitlines()):
        found += requirements(path.parent / line[3:]) if line.startswith("-r ") else [line] if line else []
    return found

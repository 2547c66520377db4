"""The stage does not know the app: core and views import nothing from the shell."""

import posixpath
import re
from pathlib import Path

import pytest

STAGE = Path(__file__).parents[3] / "app" / "stage"
FROM = re.compile(r"""(?:^|[\s;])(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]|\bimport\(?\s*['"`]([^'"`]+)""")
MAY = {
    "core": {"core", "views"},
    "views": {"core", "views", "workbench.js"},
    "shell": {"core", "shell", "talks", "vega.js"},
}
HOST = re.compile(r"\b(?:(?:localStorage|sessionStorage|history|location)\.|document\.title|(?<!\.)fetch\(`)")


def modules(folder):
    return sorted((STAGE / folder).glob("*.js"))


def imports(text):
    return [one or other for one, other in FROM.findall(text)]


@pytest.mark.parametrize("folder", MAY)
def test_a_folder_imports_only_from_its_neighbours(folder):
    found = {
        (path.name, posixpath.normpath(f"{folder}/{to}").split("/")[0])
        for path in modules(folder)
        for to in imports(path.read_text())
    }
    assert {to for _, to in found} <= MAY[folder], found


def test_core_reaches_the_views_by_one_import_only():
    reached = [path.name for path in modules("core") if any("views/" in to for to in imports(path.read_text()))]
    assert reached == ["views.js"]


@pytest.mark.parametrize("folder", ["core", "views"])
def test_the_stage_leaves_address_storage_and_fetching_to_its_host(folder):
    for path in modules(folder):
        code = re.sub(r"//.*", "", path.read_text())
        assert not HOST.findall(code), path.name

"""The house: who imports whom, what lies at the top, and lists that stand twice and must agree."""

import ast
import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest
from conftest import LONGEST

from explainers.story import glossary
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.run.backends import PROVENANCE
from kernels.trace.probes import sites_of

ROOT = Path(__file__).parents[1]
SETS = ("app/requirements.txt", "kernels/cpu.txt", "kernels/cuda12.txt", "kernels/cuda13.txt")
TOP = {
    "warpglass",
    "app",
    "kernels",
    "explainers",
    "tests",
    ".streamlit",
    "requirements.txt",
    "README.md",
    "notebook.ipynb",
    ".ci",
    ".gitignore",
}
TOP |= {
    ".github",
    "LICENSE",
    "pyproject.toml",
    "CHANGELOG.md",
    "SECURITY.md",
}  # GitHub's tab "Security" shows SECURITY.md
FORBIDDEN = {
    "kernels": {"streamlit", "altair", "explainers", "app"},
    "explainers": {"streamlit", "cupy", "cuda", "multiprocessing", "time", "os", "pathlib", "io", "app"},
    "app": {"cupy", "cuda", "torch", "ctypes"},
}


def imports(path):
    """The modules that a file imports, dotted, those inside functions too, those for types alone left out."""
    tree = ast.parse(path.read_text())
    typing = {id(n) for block in ast.walk(tree) if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
              for n in ast.walk(block)}  # fmt: skip
    for node in ast.walk(tree):
        if id(node) in typing:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_go_one_way(folder):
    for path in (ROOT / folder).rglob("*.py"):
        assert not FORBIDDEN[folder] & {name.split(".")[0] for name in imports(path)}, path


def test_only_the_app_imports_streamlit_the_stage_is_safe_and_the_top_level_is_fixed():
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = [ROOT / line for line in tracked.splitlines() if "streamlit" in (ROOT / line).read_text()]
    users = {p.relative_to(ROOT).parts[0] for p in named if any(n.split(".")[0] == "streamlit" for n in imports(p))}
    assert users <= {"app", "tests"}
    ours = [path for path in (ROOT / "app").rglob("*.py") if any(n.split(".")[0] == "streamlit" for n in imports(path))]
    assert {path.name for path in ours} == {
        "export.py",
        "files.py",
        "main.py",
        "page.py",
        "serve.py",
    }  # our own routes do the rest
    folders = [ROOT / "app" / "stage" / name for name in ("core", "views", "shell", "workbench")]
    for path in (path for folder in folders for path in folder.rglob("*.js")):
        text = path.read_text()
        assert not re.search(r"(?<!our own text\n)^(?!.*our own text).*\binnerHTML\b", text, re.M), path
        assert not re.search(r"https?://(?!www\.w3\.org)", text), path
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split("/")[0].strip('"') for line in tracked.split("\n") if line} <= TOP


@pytest.mark.parametrize("folder", ["explainers", "app"])
def test_no_page_and_no_explainer_names_a_kernel_a_problem_class_a_family_or_a_constant_with_a_role(folder):
    classes = {spec.problem_type.__name__ for spec in KERNELS.values()}
    named = re.compile(rf"\b({'|'.join([*KERNELS, *classes])})\b")
    for path in (ROOT / folder).rglob("*.py"):
        found = named.findall(path.read_text())
        assert not found, (path, found)
    for path in (ROOT / folder).rglob("*.py"):
        assert not [name for name in imports(path) if name.startswith("kernels.families")], path
    constants = {c.name for spec in KERNELS.values() for c in spec.constants if c.role}
    assert {"BLOCK_Q", "PARTITION", "PAD_K"} <= constants
    for path in (ROOT / folder).rglob("*.py"):
        texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        assert not {text for text in texts if isinstance(text, str)} & constants, path


def is_problem(node, names):
    """Whether an expression is a problem or the class of one: an attribute `problem` or `problem_type`, a call of such
    a class, its type, or a name that was given such a value."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("problem", "problem_type")
    if isinstance(node, ast.Call):
        of_type = isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1
        return is_problem(node.args[0] if of_type else node.func, names)
    return isinstance(node, ast.Name) and node.id in names


QUESTIONS = ("getattr", "hasattr", "isinstance", "issubclass")


def questions_on_problems(tree):
    """The lines that look up a problem's attribute by name, or check its class."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    bodies = [node for block in (tree, *classes) for node in block.body]
    for function in (node for node in bodies if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))):
        nodes = list(ast.walk(function))
        names = {node.arg for node in nodes if isinstance(node, ast.arg) and _is_annotated(node.annotation)}
        for node in [node for node in nodes if isinstance(node, ast.Assign)] * 3:  # names of names
            if is_problem(node.value, names):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        yield from (node.lineno for node in nodes if _asks(node, names))


def _asks(node, names):
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in QUESTIONS:
        return is_problem(node.args[0], names)
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        sides = (node.left, *node.comparators)
        is_none = any(isinstance(side, ast.Constant) and side.value is None for side in sides)
        return not is_none and any(is_problem(side, names) for side in sides)
    return False


def _is_annotated(annotation):
    return annotation is not None and re.fullmatch(r"(type\[)?Problem\]?", ast.unparse(annotation).strip("\"'"))


def test_no_code_outside_core_and_families_asks_for_a_problems_class_or_attributes():
    asks = "def f(spec, run):\n kind = spec.problem_type\n made = kind()\n return {}"
    for question in ("hasattr(made, 'x')", "isinstance(run.problem, A)", "kind is A", "type(run.problem) is A"):
        assert list(questions_on_problems(ast.parse(asks.format(question)))) == [4], question
    assert not list(questions_on_problems(ast.parse(asks.format("made.x is None"))))
    files = [path for folder in ("kernels", "explainers", "app") for path in (ROOT / folder).rglob("*.py")]
    for path in files:
        if path.relative_to(ROOT).parts[:2] not in (("kernels", "core"), ("kernels", "families")):
            found = list(questions_on_problems(ast.parse(path.read_text())))
            assert not found, (path, found)


def test_phases_labels_and_kernels_of_the_readme_are_those_of_the_code():
    probes = (site for spec in KERNELS.values() for site in sites_of(Request(spec, spec.problem_type())))
    marks = {site.event for site in probes if site.kind == "mark"}
    assert set(glossary.PHASES) <= marks
    assert set(PROVENANCE.values()) <= set(glossary.PROVENANCE)
    assert list(glossary.PROVENANCE) == ["measured", "executed", "derived", "modelled", "recorded"]
    readme = (ROOT / "README.md").read_text()
    for label, meaning in glossary.PROVENANCE.items():
        assert f"| {label} | {meaning} |" in readme
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", (ROOT / "kernels" / "README.md").read_text(), re.M)
    assert rows
    for name, title, idea in rows:
        assert (title, idea) == (KERNELS[name].title, KERNELS[name].idea)
    readme, inside = (ROOT / "README.md").read_text(), (ROOT / "kernels" / "README.md").read_text()
    assert all(f"{name}/" in readme for name in ("app", "kernels", "explainers", "tests", ".streamlit"))
    folders = {path.name for path in (ROOT / "kernels").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert all(f"| `{name}/` |" in inside for name in folders)


def test_requirements_are_pinned_and_those_of_the_pages_and_cuda_12():
    """Each package has one version. torch and the packages that it pins itself have a range with two ends."""
    for file in (ROOT / name for name in (*SETS, "tests/requirements.txt")):
        lines = [line for line in file.read_text().splitlines() if line and not line.startswith(("#", "-r"))]
        assert lines, file
        for line in lines:
            pinned = re.match(r"[\w-]+(\[\w+\])?==[\w.]+( *#.*| *;.*)?$", line)
            assert pinned or re.match(r"(torch|cuda-bindings|nvidia-[\w-]+-cu12)>=[\d.]+,<[\d.]+$", line), line
    lines = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines == ["-r app/requirements.txt", "-r kernels/cuda12.txt"]


def test_no_folder_of_tests_is_left_out_and_ci_calls_the_very_command_of_the_readme(pytestconfig):
    """pytest passes over folders named build, dist or venv unless it is told what to pass over."""
    folders = {part for path in (ROOT / "tests").rglob("test_*.py") for part in path.relative_to(ROOT).parts[:-1]}
    assert not [name for name in folders for out in pytestconfig.getini("norecursedirs") if fnmatch(name, out)]
    assert len(set(LONGEST)) == len(LONGEST) and all((ROOT / "tests" / name).exists() for name in LONGEST)
    command = re.search(r"^python3 -m venv .*pytest.*$", (ROOT / "README.md").read_text(), re.M)[0]
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()

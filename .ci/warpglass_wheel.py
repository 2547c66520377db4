"""The build backend of pyproject.toml: `pip install .` gives one package, warpglass, with kernels, explainers and app.

In the repository these are top-level names, so that `python -m kernels` works without an install. On a user's machine
the name kernels may belong to another package. The wheel therefore has them below warpglass, and each mention of a
module in the Python files gets the prefix: imports, names of modules in strings, and commands in texts.
"""

import base64
import hashlib
import re
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = "warpglass"
FOLDERS = ("kernels", "explainers", "app")
ONLY_HERE = "# not in the wheel"  # marks a line for runs without an install
SKIPPED = ("__pycache__", "node_modules")
LATE = f'''

def __getattr__(name: str) -> object:
    """watch, which needs torch."""
    if name != "watch":
        raise AttributeError(f"module {NAME!r} has no attribute {{name!r}}")
    from {NAME} import ops

    return ops.watch
'''
OPERATORS = f'''"""The kernels as PyTorch operators ({NAME}.kernels.ops)."""

import sys

from {NAME}.kernels import ops

sys.modules[__name__] = ops
'''


def build_wheel(folder: str, config_settings: object = None, metadata_directory: object = None) -> str:
    """Writes the wheel into the folder and returns its file name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = f"{NAME}-{project['version']}.dist-info"
    files = {f"{NAME}/__init__.py": _init(project).encode(), f"{NAME}/ops.py": OPERATORS.encode()}
    files |= {f"{NAME}/{path.relative_to(ROOT).as_posix()}": _content(path) for path in _sources()}
    files |= {
        f"{info}/METADATA": _metadata(project).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: true\nTag: py3-none-any\n".encode(),
        f"{info}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    record = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    wheel = f"{NAME}-{project['version']}-py3-none-any.whl"
    with zipfile.ZipFile(Path(folder, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return wheel


def build_sdist(folder: str, config_settings: object = None) -> str:
    """Refuses: the repository is the source."""
    raise NotImplementedError("Warpglass has no sdist. Build a wheel: pip wheel . --no-deps")


def renamed(text: str) -> str:
    """A Python file's text with the prefix before each module of ours."""
    lines = [line for line in text.splitlines(keepends=True) if ONLY_HERE not in line]
    names = "|".join(FOLDERS)
    modules = "|".join(sorted({path.stem for folder in FOLDERS for path in (ROOT / folder).iterdir()} - {"__init__"}))
    imports = rf"^(\s*(?:from|import) )(?=(?:{names})\b)"
    commands = rf"(-m )(?=(?:{names})\b)"
    dotted = rf"(?<![\w./-])(?=(?:{names})\.(?:{modules})\b(?!\.(?:py|md|js)\b))"
    done = "".join(lines)
    done = re.sub(imports, rf"\1{NAME}.", done, flags=re.M)
    done = re.sub(commands, rf"\1{NAME}.", done)
    return re.sub(dotted, f"{NAME}.", done)


def _sources() -> list[Path]:
    """The files of the wheel."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    kept = [path for path in found if not any(part in SKIPPED or part.startswith(".") for part in _parts(path))]
    return [*kept, ROOT / ".streamlit" / "config.toml"]


def _parts(path: Path) -> tuple[str, ...]:
    return path.relative_to(ROOT).parts


def _content(path: Path) -> bytes:
    return renamed(path.read_text()).encode() if path.suffix == ".py" else path.read_bytes()


def _init(project: dict[str, str]) -> str:
    return f'"""{project["description"]}"""\n\n__version__ = "{project["version"]}"\n{LATE}'


def _metadata(project: dict[str, str]) -> str:
    """METADATA, with the dependencies of requirements.txt."""
    lines = (line.partition("#")[0].strip() for line in (ROOT / "requirements.txt").read_text().splitlines())
    head = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}",
        "License-File: LICENSE",
        *(f"Requires-Dist: {line}" for line in lines if line),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(head) + "\n\n" + (ROOT / "README.md").read_text()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()

"""Joins the stage's modules in one file for browsers: python .ci/stage_bundle.py (needs npm ci --prefix app/stage)

Run it after every change of app/stage, and commit the file. tests/app/web/test_modules.py says if it is old.
"""

import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

from app.store import disk  # noqa: E402
from app.web import modules  # noqa: E402


def bundled() -> bytes:
    """The text of the bundle, with the names of the sources."""
    apart = (modules.CONSTANTS, modules.SEQUENCES, modules.WORKBENCH, "vega.js")
    small = ["--minify-whitespace", "--minify-syntax"]
    return joined(modules.ENTRY, *small, *(f"--external:./{name}" for name in apart))


def workbench() -> bytes:
    """The text of the workbench's bundle, with its editor."""
    return joined(modules.WORKBENCH_ENTRY, "--minify", "--loader:.css=text", "--legal-comments=none")


def joined(entry: str, *options: str) -> bytes:
    """The text of a bundle. Raises CalledProcessError if esbuild finds a fault."""
    command = ["node_modules/.bin/esbuild", entry, "--bundle", "--format=esm", "--log-level=error", *options]
    return subprocess.run(command, cwd=modules.STAGE, stdout=subprocess.PIPE, check=True).stdout


if __name__ == "__main__":
    wanted = {
        modules.bundle_of(modules.sources()): bundled,
        modules.workbench_bundle_of(modules.workbench_sources()): workbench,
    }
    modules.BUNDLES.mkdir(exist_ok=True)
    for old in modules.BUNDLES.glob("*.js.gz"):
        if old not in wanted:
            old.unlink()
    for file, make in wanted.items():
        if not file.is_file():
            file.write_bytes(disk.pack(make()))
        print(f"{file.relative_to(modules.STAGE)}: {file.stat().st_size:,} bytes")

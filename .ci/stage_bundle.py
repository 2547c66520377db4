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
    """The text of the bundle, with the names of the sources. Raises CalledProcessError if esbuild finds a fault."""
    apart = [f"--external:./{name}" for name in (modules.CONSTANTS, modules.SEQUENCES, "vega.js")]
    command = ["node_modules/.bin/esbuild", modules.ENTRY, "--bundle", "--format=esm", "--log-level=error"]
    small = ["--minify-whitespace", "--minify-syntax"]
    return subprocess.run([*command, *small, *apart], cwd=modules.STAGE, stdout=subprocess.PIPE, check=True).stdout


if __name__ == "__main__":
    file = modules.bundle_of(modules.sources())
    modules.BUNDLES.mkdir(exist_ok=True)
    for old in modules.BUNDLES.glob("*.js.gz"):
        old.unlink()
    file.write_bytes(disk.pack(bundled()))
    print(f"{file.relative_to(modules.STAGE)}: {file.stat().st_size:,} bytes")

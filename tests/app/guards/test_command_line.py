"""Words of the command line that nobody else may read."""

import ast
import subprocess
import sys
from pathlib import Path

TEXT = """
import sys
from app import serve
from kernels.build import child
given = serve.parser().parse_args()
child.forget(given.room_secret, given.password)
print([sys.argv[1:], sys.orig_argv[-3:], open("/proc/self/cmdline").read().split(chr(0))[-4:]])
"""


def test_the_list_of_processes_shows_no_secret():
    words = ["--room-secret=a-word", "--password", "an-öther-word"]
    command = [sys.executable, "-c", TEXT, *words]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    stars = ["--room-secret=******", "--password", "*" * len("an-öther-word".encode())]
    assert ast.literal_eval(done.stdout) == [stars, stars, [*stars, ""]]

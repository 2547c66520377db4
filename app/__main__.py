"""The command of an installation, `warpglass`: the pages, or a command of python -m kernels."""

import sys
from importlib.util import find_spec

HELP = """Show the pages: python -m app.serve [--host HOST] [--port PORT] (the default)
Run kernels without a browser: python -m kernels COMMAND, for example python -m kernels check FILE.cu
"""


def main(words: list[str] | None = None) -> int:
    """Runs a command line and returns its exit code. words: without the program's name."""
    words = sys.argv[1:] if words is None else words
    asks_help = words[:1] in (["-h"], ["--help"])
    if asks_help:
        print(HELP)
    if asks_help or words and words[0] != "serve" and not words[0].startswith("-"):
        from kernels import __main__ as kernels

        return kernels.main(words)
    if not find_spec("streamlit"):
        print("The pages need Streamlit. Run: pip install 'warpglass[pages]'", file=sys.stderr)
        return 1
    from app import serve

    return serve.main(words[1:] if words[:1] == ["serve"] else words)


if __name__ == "__main__":
    sys.exit(main())

"""The command `warpglass`, and `python -m warpglass`."""

import sys

from app.__main__ import main

if __name__ == "__main__":
    sys.exit(main())

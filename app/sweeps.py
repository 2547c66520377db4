"""Records the table of Precision's sweeps on this GPU: python -m app.sweeps"""

import sys

from app.measured.sweeps import main

if __name__ == "__main__":
    sys.exit(main())

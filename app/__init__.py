"""The pages. The only folder that imports streamlit; pages lay out, nothing else."""

import os

# Arrow reads it when it loads. Its own pool kept a megabyte of the web process for each session of a hundred.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

"""Page config and navigation: streamlit run app/main.py

Everything is under the guard: worker processes import this file as __mp_main__, and must not run it.
"""

import sys
from pathlib import Path


def main() -> None:
    root = str(Path(__file__).resolve().parent.parent)
    if root not in sys.path:
        sys.path.insert(0, root)

    import streamlit as st

    from app import kept
    from app.choices import link
    from app.clock import components
    from app.stories import PAGES
    from kernels.run import workers

    st.set_page_config(page_title="Warpglass", page_icon=str(Path(__file__).parent / "icon.png"), layout="wide")
    st.html("<style>[data-testid=stMainBlockContainer] { padding: 4rem clamp(1rem, 3vw, 3rem) 3rem; }</style>")
    components.bound_step()
    st.cache_resource(show_spinner=False)(workers.warm_up)()
    pages = [st.Page("stories/start.py", title="Start", default=True)]
    pages += [st.Page(path, title=title) for path, title, _ in PAGES]
    page = st.navigation(pages, position="top")
    kept.note_page(page.url_path)
    link.begin()
    page.run()


if __name__ == "__main__":
    main()

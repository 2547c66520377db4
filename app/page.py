"""The page that Streamlit draws. All pages are the one stage: its address names the story, and the browser does the
rest."""

import streamlit as st

from app.classroom import access
from app.stories import STORIES, rail, stops
from app.web import modules, server
from kernels.catalog import current

START = "start"
LOADER = """
const loading = {};
// Who has logged in hands the ticket over and gets the cookie that our routes know; then back to where they were going.
async function enter({ base, ticket }) {
  if (!ticket) return;
  await fetch(`${base}/wg/enter`, { method: 'POST', body: new URLSearchParams({ ticket }) }).catch(() => {});
  const back = /(?:^|; )warpglass_back=([^;]*)/.exec(document.cookie)?.[1];
  if (!back) return;
  document.cookie = 'warpglass_back=; max-age=0; path=/';
  const to = new URL(decodeURIComponent(back), location.origin);
  if (to.origin === location.origin && location.pathname === `${base}/`) history.replaceState({}, '', to);
}
export default function (component) {
  const { base, entry, version } = component.data, url = `${location.origin}${base}/wg/${version}/${entry}`;
  let leave = null, left = false;
  loading[url] ??= enter(component.data).then(() => import(url));
  loading[url].then(module => { if (!left) leave = module.default(component); });
  return () => { left = true; leave?.(); };
}
"""
HTML = '<div class="wg" data-part="root"></div>'


@st.cache_resource(show_spinner=False)
def _stage(version: str):
    return st.components.v2.component(
        "warpglass.stage", html=HTML, css=modules.style(), js=LOADER, isolate_styles=False
    )


def _page(path: str) -> "st.Page":
    """A page with its own address and no content. The stage is in front of all pages, and it stays."""

    def nothing() -> None:
        pass

    nothing.__name__ = path
    return st.Page(nothing, title=STORIES[path].title, url_path=path, default=path == START)


st.set_page_config(page_title="Warpglass", page_icon=str(modules.STAGE.parent / "icon.png"), layout="wide")
shown = st.navigation([_page(path) for path in STORIES], position="hidden")  # so that Streamlit knows every address
data = {
    "base": server.base_of(st.get_option("server.baseUrlPath")),
    "entry": modules.ENTRY,
    "version": modules.version(),
    "rail": rail(current()),
    "stops": stops(current()),
}
if access.by_login():
    if not st.user.is_logged_in:
        st.login()
        st.stop()
    data["ticket"] = access.ticket()
_stage(modules.version())(key="stage", data=data)
shown.run()

"""The app: streamlit run app/main.py, or for a class python -m app.serve

Streamlit finds `app` here and serves it: its own pages (page.py) and our routes (server.py).
"""

import gc
import os
import sys
from pathlib import Path

gc.disable()  # nothing that an import makes is garbage, and looking for some takes time
if not __package__:  # streamlit run imports this file by its path
    sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from app import web  # noqa: E402
from kernels.build import child  # noqa: E402
from kernels.errors import WarpglassError  # noqa: E402
from kernels.run import workers  # noqa: E402

child.close_to_others()  # before a worker runs
try:
    workers.warm_up(f"{web.__name__}.making", f"{web.__name__}.warm")  # they import while this process does
except WarpglassError as error:  # of the settings
    sys.exit(str(error))

from starlette.middleware import Middleware  # noqa: E402
from streamlit import get_option, runtime  # noqa: E402
from streamlit.file_util import get_static_dir  # noqa: E402
from streamlit.starlette import App  # noqa: E402

from app.classroom import access  # noqa: E402
from app.guards import audit, files, hosts  # noqa: E402
from app.web import server  # noqa: E402
from kernels.jail import setting  # noqa: E402

files.raise_limit()
listens_at, names = get_option("server.address") or "", os.environ.get(hosts.VARIABLE, "")
try:
    audit.start()
    access.check()
    setting.put_in_force(hosts.decide(listens_at, names, os.environ.get(setting.VARIABLE, "")))
except WarpglassError as error:
    sys.exit(str(error))
server.prepare()
index = Path(get_static_dir()) / "index.html"
base = server.base_of(get_option("server.baseUrlPath"))
routes = [
    *server.routes(
        base, lambda: runtime.get_instance()._session_mgr.num_active_sessions(), f"-{get_option('server.port')}"
    ),
    *server.pages(index, base),
]
answers_as = hosts.allowed(listens_at, names)
guards = [*server.middleware(base, index, answers_as), Middleware(files.Pages)]
app = App(Path(__file__).parent / "page.py", routes=routes, middleware=guards)
gc.freeze()
gc.enable()

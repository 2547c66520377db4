"""Waits until a server that was just started answers."""

import time
import urllib.request


def until_it_answers(url, log):
    """url: of the app's first page, with a slash. RuntimeError after half a minute."""
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{url}_stcore/health", timeout=1)
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"the server did not start; {log} says why")

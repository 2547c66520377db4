"""The ids of browsers, and the key that signs them."""

import stat

import pytest
from starlette.requests import HTTPConnection

from app.guards import browsers


@pytest.fixture
def restart(monkeypatch, tmp_path):
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path))
    browsers._signer.cache_clear()
    yield browsers._signer.cache_clear
    browsers._signer.cache_clear()


def connection(cookie=""):
    headers = [(b"cookie", cookie.encode())] if cookie else []
    return HTTPConnection({"type": "http", "scheme": "http", "path": "/", "server": ("a", 80), "headers": headers})


def test_a_restarted_server_knows_its_browsers(restart, tmp_path):
    cookie = browsers.new_cookie(connection(), "").partition(";")[0]
    known = browsers.known(connection(cookie))
    restart()
    assert known and browsers.known(connection(cookie)) == known
    assert stat.S_IMODE((tmp_path / "browsers.key").stat().st_mode) == 0o600


def test_a_key_that_is_cut_off_is_made_anew(restart, tmp_path):
    cookie = browsers.new_cookie(connection(), "").partition(";")[0]
    (tmp_path / "browsers.key").write_bytes(b"short")
    restart()
    assert browsers.known(connection(cookie)) == "" and browsers.new_cookie(connection(cookie), "")

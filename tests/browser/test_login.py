"""Who logs in (OIDC) comes to the link that they asked for; before it, our own routes answer nobody. The provider is a
small one, in this process."""

import json
import threading
import time
import urllib.error
import urllib.request

import pytest
import uvicorn
from authlib.jose import JsonWebKey, jwt
from browser.conftest import Server
from browser.stepping import address
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route

KEY = JsonWebKey.generate_key("RSA", 2048, {"kid": "one", "use": "sig", "alg": "RS256"}, is_private=True)


class Provider:
    """An OIDC provider that lets everyone in. asked: what its authorization was asked for."""

    def __init__(self):
        self.asked = []
        routes = [Route(f"/{name.replace('_', '-')}", getattr(self, name)) for name in ("authorize", "keys")]
        routes.append(Route("/token", self.token, methods=["POST"]))
        routes.append(Route("/.well-known/openid-configuration", self.configuration))
        config = uvicorn.Config(Starlette(routes=routes), port=0, log_level="error")
        self.server = uvicorn.Server(config)
        threading.Thread(target=self.server.run, daemon=True).start()
        while not self.server.started:
            time.sleep(0.02)
        self.url = f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}"

    async def configuration(self, request: Request):
        ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        said = {name: f"{self.url}/{path}" for name, path in ends.items()}
        return JSONResponse({"issuer": self.url, **said, "id_token_signing_alg_values_supported": ["RS256"]})

    async def authorize(self, request: Request):
        self.asked.append(dict(request.query_params))
        asked = self.asked[-1]
        return RedirectResponse(f"{asked['redirect_uri']}?code=one&state={asked['state']}")

    async def token(self, request: Request):
        now, nonce = int(time.time()), self.asked[-1].get("nonce")
        said = {"iss": self.url, "aud": "warpglass", "sub": "ann", "iat": now, "exp": now + 600, "nonce": nonce}
        signed = jwt.encode({"alg": "RS256", "kid": "one"}, {**said, "email": "ann@class.test"}, KEY).decode()
        return JSONResponse({"access_token": "one", "token_type": "Bearer", "expires_in": 600, "id_token": signed})

    async def keys(self, request: Request):
        return JSONResponse({"keys": [json.loads(KEY.as_json(is_private=False))]})


@pytest.fixture
def provider():
    made = Provider()
    yield made
    made.server.should_exit = True


def test_who_logs_in_comes_to_the_link_that_they_asked_for(visit, provider, tmp_path):
    server = Server(["--login", "oidc"], before=lambda port: secrets(tmp_path, port, provider), HOME=str(tmp_path))
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{server.url}/wg/ask/tiling")
    page = visit("/tiling?kernel=03_flash&seq_len=32&head_dim=32&step=4", at=server, wait="")
    asks_for_it(page)
    assert len(provider.asked) == 1 and provider.asked[0]["client_id"] == "warpglass"
    assert address(page)["step"] == "4" and address(page)["seq_len"] == "32"
    page.reload(wait_until="commit")
    asks_for_it(page)
    assert len(provider.asked) == 1  # once in a browser
    server.stop()


def asks_for_it(page):
    """The stage asks for its story, and our routes answer. Whether a worker then makes it is no question of a login."""
    with page.expect_response(lambda response: "/wg/ask/tiling" in response.url) as answered:
        pass
    assert answered.value.ok


def secrets(home, port, provider):
    folder = home / ".streamlit"
    folder.mkdir()
    said = {
        "redirect_uri": f"http://127.0.0.1:{port}/oauth2callback",
        "cookie_secret": "as long as a secret must be",
        "client_id": "warpglass",
        "client_secret": "chalk",
        "server_metadata_url": f"{provider.url}/.well-known/openid-configuration",
    }
    (folder / "secrets.toml").write_text("[auth]\n" + "".join(f'{k} = "{v}"\n' for k, v in said.items()))

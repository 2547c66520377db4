"""The routes that measure: what they answer, and that no other site's form can start a measurement."""

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.measured import measuring
from app.web import server
from kernels.run import workers

pytestmark = pytest.mark.skipif("gpu" in workers.survey().devices, reason="this machine has a GPU")


@pytest.fixture
def client():
    return TestClient(Starlette(routes=server.routes("")))


def test_how_far_it_is_is_always_answered(client):
    said = client.get("/wg/measure").json()
    assert said["running"] is False and said["version"] == measuring.progress().version


def test_what_cannot_be_measured_is_refused_with_words(client):
    answer = client.post("/wg/measure", json={"what": "sweep"})
    assert answer.status_code == 400 and "No GPU was found" in answer.json()["error"]
    answer = client.post("/wg/measure", content="{", headers={"content-type": "application/json"})
    assert answer.status_code == 400 and "no JSON" in answer.json()["error"]
    for odd in ({"what": []}, {"what": "sweep", "kernels": [[]]}, [], "["):
        assert client.post("/wg/measure", json=odd).status_code == 400
    assert client.post("/wg/measure", content=b"[" * server.MOST_ASKED).status_code == 400


@pytest.mark.parametrize(
    "route", ["/wg/measure", "/wg/measure/stop", "/wg/measure/forget?what=sweep", "/wg/stop?key=a"]
)
def test_a_page_of_another_site_changes_nothing(client, route):
    refused = client.post(route, json={"what": "hierarchy"}, headers={"origin": "https://other.example"})
    assert refused.status_code == 403 and "https://other.example is another site" in refused.json()["error"]
    proxied = TestClient(client.app, base_url="https://testserver")  # its proxy speaks TLS, and says so
    for where, ours in (
        (client, {"origin": "http://testserver"}),
        (proxied, {"origin": "https://wg.example", "x-forwarded-host": "wg.example"}),
        (client, {}),
    ):
        assert where.post(route, json={"what": "hierarchy"}, headers=ours).status_code in (200, 204, 400)
    other_scheme = client.post(route, json={"what": "hierarchy"}, headers={"origin": "https://testserver"})
    assert other_scheme.status_code == 403


def test_while_a_class_is_led_its_leader_alone_measures(client):
    made = client.post("/wg/rooms", json={}).json()
    leader = {"x-warpglass-class": f"{made['code']} {made['secret']}"}
    try:
        for route in ("/wg/measure", "/wg/measure/stop", "/wg/measure/forget?what=sweep"):
            refused = client.post(route, json={"what": "hierarchy"})
            assert refused.status_code == 403 and "only its leader may measure" in refused.json()["error"]
            assert client.post(route, json={"what": "hierarchy"}, headers=leader).status_code in (200, 400)
        assert client.get("/wg/measure").status_code == 200  # all may see how far it is
    finally:
        with client.websocket_connect(f"/wg/room/{made['code']}") as socket:
            socket.send_json({"who": "leader", "secret": made["secret"]})
            socket.send_json({"end": True})
            while "ended" not in socket.receive_json():
                pass
    assert client.post("/wg/measure/stop").status_code == 200


def test_a_question_of_any_length_is_not_read(client):
    answer = client.post("/wg/measure", content=b"[" * (server.MOST_ASKED + 1))
    assert answer.status_code == 413 and "65,536 bytes" in answer.json()["error"]


def test_stopping_and_forgetting_nothing_is_no_fault(client):
    assert client.post("/wg/measure/stop").json()["running"] is False
    assert client.post("/wg/measure/forget?what=sweep").status_code == 200

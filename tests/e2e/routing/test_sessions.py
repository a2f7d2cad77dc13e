"""Sessions stay at their replica, leave it when it is too busy, and move when it dies."""

import os
import signal

import pytest
from routing_world import Later, open_gate
from support import deployments, wait

pytestmark = pytest.mark.core
SESSIONS = [f"user-{i}" for i in range(24)]
STICKY = pytest.mark.parametrize("policy", ["session", "consistent_hash"])


@STICKY
def test_they_stay_whatever_the_protocol(routing, policy):
    r = routing(max_ongoing_requests=10, router=policy)
    assert r.router()["policy"] == policy
    home = {s: r.session(s)["pid"] for s in SESSIONS}
    assert len(set(home.values())) == 3
    for s in SESSIONS:
        assert r.get(X_Session_Id=s)["pid"] == home[s]
        assert r.get(version="h2", x_session_id=s)["pid"] == home[s]
        assert r.call(session_id=s)["pid"] == home[s]
        assert r.grpc(session_id=s)["pid"] == home[s]
        assert r.grpc(x_session_id=s)["pid"] == home[s]


def test_the_name_of_the_header_is_configurable(routing):
    r = routing(max_ongoing_requests=10, router=("consistent_hash", {"session_header": "X_User"}))
    home = {s: r.get(x_user=s)["pid"] for s in SESSIONS}
    assert len(set(home.values())) > 1
    for s in SESSIONS:
        assert r.get(x_user=s)["pid"] == r.grpc(x_user=s)["pid"] == r.call(session_id=s)["pid"] == home[s]


@STICKY
def test_a_session_whose_replica_is_busy_waits_and_then_goes_elsewhere(routing, policy):
    r = routing(2, max_ongoing_requests=1, router=(policy, {"max_wait_s": 0.05, "bound": 100}))
    home = r.session("s")["pid"]
    gate, busy = r.begin(x_session_id="s")
    r.wait_for(ongoing=1)
    assert r.session("s")["pid"] != home  # while its replica is busy
    open_gate(gate)
    assert busy.result()["pid"] == home


def test_a_session_waits_for_its_replica_as_long_as_it_may(routing):
    r = routing(2, max_ongoing_requests=1, router=("session", {"max_wait_s": 3600}))
    home = r.session("s")["pid"]
    gate, busy = r.begin(x_session_id="s")
    r.wait_for(ongoing=1)
    waiting = Later(lambda: r.session("s"))
    r.wait_for(waiting_for_preferred=1)
    assert r.session("another")["pid"] != home
    open_gate(gate)
    assert waiting.result()["pid"] == busy.result()["pid"] == home


@STICKY
def test_a_session_moves_when_its_replica_dies(routing, policy):
    r = routing(3, max_ongoing_requests=10, router=policy)
    home = {s: r.session(s) for s in SESSIONS}
    dead = home[SESSIONS[0]]
    moved = [s for s in SESSIONS if home[s]["pid"] == dead["pid"]]
    os.kill(dead["pid"], signal.SIGKILL)
    for s in moved:
        assert r.session(s)["pid"] != dead["pid"]
    for s in set(SESSIONS) - set(moved):
        assert r.session(s)["pid"] == home[s]["pid"]
    wait.until(lambda: r.server.workers().get(dead["replica"], dead["pid"]) != dead["pid"], r.server.status)
    again = {s: r.session(s)["replica"] for s in SESSIONS}
    if policy == "consistent_hash":  # the process that replaces it has its place on the ring
        assert again == {s: home[s]["replica"] for s in SESSIONS}
    assert again == {s: r.session(s)["replica"] for s in SESSIONS}


def test_the_id_of_a_session_may_have_64_kib(routing):
    r = routing(2, max_ongoing_requests=10, router="consistent_hash")
    home = r.call(session_size=65536)["pid"]
    assert {r.call(session_size=65536)["pid"] for _ in range(4)} == {home}
    assert "metadata are too large" in r.call(session_size=1 << 20)["error"]
    assert r.call(session_size=65536)["pid"] == home


def test_websockets_and_a_router_of_the_code(routing):
    from support.protocol import websocket

    r = routing(1)
    r.more = ("sockets",)
    r.deploy(1)
    deployments.healthy(r.server, "Sockets", 3, "sockets")
    r.server.forget_fds()

    def pid(session):
        with websocket.connect(r.server, "/sockets/", additional_headers={"X-Session-Id": session}) as s:
            return int(s.recv())

    home = {s: pid(s) for s in SESSIONS}
    assert len(set(home.values())) == 3
    assert home == {s: pid(s) for s in SESSIONS}
    assert r.server.deployment("Sockets")["router"]["policy"] == "session"


def test_models_of_the_open_inference_protocol_have_sessions(serve, tmp_path):
    import numpy as np
    from support.protocol import http, oip

    app = tmp_path / "pids.py"
    app.write_text("""
import os
import numpy as np
from anyserve import AnyServe
app = AnyServe()

@app.model("pid")
def pid(x):
    return np.array([os.getpid()])
""")
    server = serve(app, "--workers", "3", "--router", "consistent_hash")
    x = np.array([1.0])

    def rest(session):
        client = http.Http1(server.host, server.port)
        reply = client.request("POST", "/v2/models/pid/infer", http.infer_json({"x": x}), headers=[("x-session-id", session)])
        client.close()
        assert reply.status == 200, reply.body
        return reply.json()["outputs"][0]["data"][0]

    home = {s: rest(s) for s in SESSIONS}
    assert len(set(home.values())) == 3
    client = oip.Client(server.address)
    for s in SESSIONS:
        assert rest(s) == home[s]
        assert client.infer("pid", {"x": x}, metadata=[("x-session-id", s)]).outputs.popitem()[1][0] == home[s]
    client.close()

"""Pickled bytes from somebody who may not offer them: refused, counted, and logged at most once a second for each kind.

The code that they would run creates a file, so a refusal that came too late is seen.
"""

import hashlib
import json
import os
import pickle
import re
import socket
import time

import grpc
import numpy as np
import pytest

from support import wait
from support.process import users
from support.protocol import http, link, oip, prometheus
from support.protocol.link import Worker

pytestmark = [pytest.mark.core, pytest.mark.quick]

DENIED = 7
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("serve_chain:chain_and_model")


@pytest.fixture
def trace(tmp_path):
    """A path, and pickled code that creates it."""
    path = tmp_path / "ran"

    class Code:
        def __reduce__(self):
            return open, (str(path), "w")

    yield pickle.dumps(((Code(),), {}))
    assert not path.exists(), "the pickled code was run"


@pytest.fixture
def rest(server):
    c = http.Http1(server.host, server.port)
    yield c
    c.close()


def refused(server, source):
    samples = prometheus.parse(server.metrics())
    assert ("anyserve_payloads_refused_total", frozenset({("from", source)})) in samples
    return prometheus.total(samples, "anyserve_payloads_refused_total", **{"from": source})


def logged(server, source, since):
    lines = server.log.lines[since:]
    return [line for line in lines if "event=payload_refused" in line and f"from={source} " in line]


class counted:
    """What is done inside is counted n times for this source, and leaves at least one line, but at most one a second."""

    def __init__(self, server, source, n):
        self.server, self.source, self.n = server, source, n

    def __enter__(self):
        self.before, self.since, self.began = refused(self.server, self.source), len(self.server.log.lines), time.monotonic()

    def __exit__(self, kind, *_):
        if kind:
            return
        wait.until(lambda: refused(self.server, self.source) >= self.before + self.n,
                   lambda: f"{refused(self.server, self.source) - self.before} were counted, not {self.n}")
        assert refused(self.server, self.source) == self.before + self.n
        seconds = time.monotonic() - self.began
        assert len(logged(self.server, self.source, self.since)) <= 1 + seconds


def names_refusal(server, source, text):
    line = server.log.wait(f"event=payload_refused from={source} ").string
    assert text in line and re.search(r"skipped=\d+$", line)


# --- clients ---

def test_rest(server, rest, trace):
    types = ["application/octet-stream", "application/x-pickle", "application/python-pickle", "application/json",
             "application/vnd.anyserve.call", "text/plain", None]  # fmt: skip
    paths = ["Front/infer", "Back/infer", "Back/versions/1/infer", "Back/generate", "Back/generate_stream"]
    with counted(server, "rest", len(types) * len(paths)):
        for type in types:
            for path in paths:
                reply = rest.request("POST", f"/v2/models/{path}", trace, [("content-type", type)] if type else ())
                assert reply.status == 404 and "takes calls of handles only" in reply.error, (type, path, reply)
    names_refusal(server, "rest", "it takes calls of handles only")


def test_rest_with_parameters(server, rest, trace):
    text = trace.hex()
    with counted(server, "rest", 1):
        reply = rest.request("POST", "/v2/models/Back/infer", json.dumps({
            "parameters": {"content_type": "pickle", "codec": 1, "serve_method": "__call__", "payload": text},
            "inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "data": [text]}]}).encode())  # fmt: skip
        assert reply.status == 404, reply


def test_questions_of_clients_are_not_counted(server, rest):
    before = refused(server, "rest")
    for path in ["/v2/models/Back", "/v2/models/Back/ready", "/v2/models/nobody/ready"]:
        assert rest.request("GET", path).status == 404
    reply = rest.request("POST", "/v2/models/nobody/infer", b"{}")
    assert reply.status == 404 and "handles" not in reply.error
    assert refused(server, "rest") == before


def test_grpc(server, client, trace):
    inputs = {"x": np.array([trace], object)}
    with counted(server, "grpc", 6):
        for model in "Front", "Back":
            for parameters in None, {"content_type": "pickle", "codec": 1}, {"serve_method": "__call__"}:
                e = client.refused(model, inputs, parameters=parameters,
                                   metadata=[("content-encoding", "pickle"), ("serve_multiplexed_model_id", "m")])
                assert e.code() == grpc.StatusCode.NOT_FOUND and "takes calls of handles only" in e.details()
    names_refusal(server, "grpc", "model=")


def test_grpc_stream(server, client, trace):
    stream = client.channel.stream_stream(f"/{oip.SERVICE}/ModelStreamInfer", lambda q: q.SerializeToString(),
                                          oip.messages()["ModelStreamInferResponse"].FromString)
    with counted(server, "grpc", 2):
        requests = [oip.infer_request(m, {"x": np.array([trace], object)}) for m in ("Front", "Back")]
        answers = list(stream(iter(requests), timeout=oip.SECONDS))
        assert len(answers) == 2 and all("takes calls of handles only" in a.error_message for a in answers)


# --- the link ---

def test_worker_with_the_join_token_calls(server, trace):
    with counted(server, "join_token_call", 40), Worker(server, "hand:1", capabilities=link.CAP_CALLS) as worker:
        worker.greeted()
        worker.send(link.target(0, "default", "Back"))
        for stream in range(2, 82, 2):
            worker.send(link.open_call(stream, link.pickled(trace)))
            f = next_of(worker, link.ERROR, stream)
            assert int.from_bytes(f.payload[:4], "little") == DENIED
    names_refusal(server, "join_token_call", "replica=hand-0")


def test_worker_with_the_join_token_serves_calls(server):
    with counted(server, "join_token_register", 3), Worker(server, "hand:1", capabilities=link.CAP_CALLS) as worker:
        worker.greeted()
        worker.next(link.CREDIT)
        for _ in range(3):
            _, code, text = worker.register("Back", opaque=True)
            assert code == DENIED and text == "a worker with the join token may not serve calls"


def next_of(worker, kind, stream):
    while True:
        f = worker.next(kind, link.CREDIT)
        if f.type == kind and f.stream == stream:
            return f


@pytest.mark.parametrize("token", ["", "0" * 64, "join"])
def test_driver_without_its_token(server, trace, token):
    said = server.join_token() if token == "join" else token
    with counted(server, "link_no_token", 1), Worker(server, greet=False) as worker:
        worker.send(link.hello(said, "driver", "", link.CAP_CANCEL | link.CAP_CALLS | link.CAP_DRIVER)
                    + link.target(0, "default", "Back") + link.open_call(2, link.pickled(trace)))
        worker.wait_end()


# --- another user ---

@pytest.fixture
def open_folders(server):
    """As after a mistake with chmod: everyone may reach the sockets."""
    folders = [server.folder, server.runtime, server.folder_of_port()]
    files = [os.path.join(server.folder_of_port(), name) for name in ("link.sock", "control.sock")]
    modes = {path: os.stat(path).st_mode & 0o7777 for path in folders + files}
    for path in modes:
        os.chmod(path, 0o777)
    yield server.folder_of_port()
    for path, mode in modes.items():
        os.chmod(path, mode)


def error_of(call, *args):
    try:
        call(*args)
    except OSError as e:
        return type(e).__name__
    return None


def talk(path, data):
    """All that the server answers until it ends the connection."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(wait.SECONDS)
        s.connect(path)
        answer = b""
        try:
            s.sendall(data)
            while part := s.recv(1 << 16):
                answer += part
        except (BrokenPipeError, ConnectionResetError):
            pass
        return answer


@needs_root
def test_another_user_has_no_way(server):
    for name in "link.sock", "control.sock":
        assert users.as_user(error_of, talk, os.path.join(server.folder_of_port(), name), b"") == "PermissionError"
    assert users.as_user(error_of, open, os.path.join(server.folder_of_port(), "driver-token")) == "PermissionError"


@needs_root
def test_another_user_at_the_link(server, open_folders, trace):
    """Even one who has got hold of the token."""
    path = os.path.join(open_folders, "driver-token")
    with open(path) as f:
        token = f.read().strip()
    assert users.as_user(error_of, open, path) == "PermissionError"
    data = (link.hello(token, "driver", "", link.CAP_CANCEL | link.CAP_CALLS | link.CAP_DRIVER)
            + link.target(0, "default", "Back") + link.open_call(2, link.pickled(trace)))
    with counted(server, "link_other_user", 20):
        for _ in range(20):
            assert users.as_user(talk, os.path.join(open_folders, "link.sock"), data) == b""
    names_refusal(server, "link_other_user", "reason=\"a process of another user connects\"")


@needs_root
def test_another_user_at_the_control_socket(server, open_folders, trace):
    data = (f"PUT /api/serve/code/{hashlib.sha256(trace).hexdigest()} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Length: {len(trace)}\r\n\r\n").encode() + trace
    since = len(server.log.lines)
    with counted(server, "control", 5):
        for _ in range(5):
            assert users.as_user(talk, os.path.join(open_folders, "control.sock"), data) == b""
    server.log.wait(r"event=control_refused reason=\"another user\" uid=54321 ", since)

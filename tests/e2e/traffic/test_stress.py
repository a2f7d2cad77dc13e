"""All kinds of traffic at once, with clients on four loops and models on others: each gets its own answer.

The TSan build sees here what crosses from loop to loop: plain HTTP on both protocols, streams, batches, regions of
shared memory, models that are unloaded, and clients that leave at any moment.
"""

import json
import random
import socket
import threading

import grpc
import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.utils.shared_memory as shm

from support import wait
from support.protocol import http, oip
from support.protocol.h2client import H2, prefixed

pytestmark = [pytest.mark.stress, pytest.mark.core]

ROUNDS = 40


@pytest.fixture
def server(serve):
    server = serve("mixed.py", "--threads", 4, "--allow-client-shm", "--allow-client-control",
                   "--log-level", "warn")
    server.wait_all_ready()
    return server


def doubled(reply, x):
    assert reply.status == 200, reply.data
    assert np.array_equal(http.outputs_of(reply)["y"], x * 2)


def some(rand, rows=None):
    """An input that no other request has."""
    return np.array([[rand.randrange(1 << 30) for _ in range(3)] for _ in range(rows or rand.choice([1, 1, 2, 5]))],
                    np.int32)


def text_of(path, body):
    return b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


# --- what one client does in one round ---

def rest(server, rand):
    """Requests in JSON and in bytes, on a connection that stays, of either protocol."""
    client = http.CLIENTS[rand.choice(["h1", "h2"])](server.host, server.port)
    for _ in range(4):
        x = some(rand)
        model = rand.choice(["double", "rows", "slow"])
        headers, body = http.infer_binary({"x": x}) if rand.random() < 0.5 else ([], http.infer_json({"x": x}))
        doubled(client.request("POST", f"/v2/models/{model}/infer", body, headers), x)
    client.close()


def pipelined(server, rand):
    """Several requests in one write: answers in their order, or the client leaves before it has them all."""
    inputs = [some(rand) for _ in range(5)]
    with socket.create_connection((server.host, server.port), wait.SECONDS) as s:
        s.sendall(b"".join(text_of(f"/v2/models/{rand.choice(['double', 'slow'])}/infer", http.infer_json({"x": x}))
                           for x in inputs))
        if rand.random() < 0.4:
            s.recv(rand.choice([1, 500]))
            return
        with s.makefile("rb") as f:
            for x in inputs:
                assert f.readline() == b"HTTP/1.1 200 OK\r\n"
                head = dict(line.decode().lower().split(": ") for line in iter(lambda: f.readline().strip(), b""))
                assert json.loads(f.read(int(head["content-length"])))["outputs"][0]["data"] == (x * 2).ravel().tolist()


def half(server, rand):
    """A request that stops in the middle of its body."""
    whole = text_of("/v2/models/double/infer", http.infer_json({"x": some(rand)}))
    with socket.create_connection((server.host, server.port), wait.SECONDS) as s:
        s.sendall(whole[:rand.randrange(1, len(whole))])


def events(server, rand):
    """Server-sent events, to their end or to the first of them."""
    n = rand.choice([0, 3, 50, 3000])
    with H2(server.host, server.port) as h2:
        call = h2.open([(":method", "POST"), (":scheme", "http"), (":path", "/v2/models/numbers/generate_stream"),
                        (":authority", "a")])
        h2.send(call, json.dumps({"n": n}).encode(), end=True)
        if n and rand.random() < 0.5:
            while not h2.replies[call].data:
                h2.read()
            return
        data = h2.reply(call).data.decode()
    assert [json.loads(e[6:])["y"] for e in data.split("\n\n")[:-1]] == list(range(n))


def stream(server, rand):
    """ModelStreamInfer with many requests under way, to its end or left in the middle."""
    sizes = [rand.choice([0, 1, 20, 300, -1, -2, -20]) for _ in range(6)]  # below 0: an error behind so many
    outputs = rand.choice([[], ["y"]])
    with H2(server.host, server.port) as h2:
        call = h2.open_grpc("ModelStreamInfer")
        for i, n in enumerate(sizes):
            q = oip.infer_request("numbers", {"n": np.array([n], np.int32)}, id=str(i), outputs=outputs)
            h2.send(call, prefixed(q.SerializeToString()), end=i == len(sizes) - 1)
        if any(sizes) and rand.random() < 0.4:
            while not h2.replies[call].data:
                h2.read()
            if rand.random() < 0.5 and not h2.replies[call].ended:
                h2.conn.reset_stream(call, 8)
                h2.flush()
            return
        reply = h2.reply(call)
    assert reply.grpc_status == 0, reply
    got, failed, data = {}, set(), reply.data
    while data:
        n = int.from_bytes(data[1:5], "big")
        m = oip.messages()["ModelStreamInferResponse"].FromString(data[5:5 + n])
        data = data[5 + n:]
        assert m.error_message in ("", "enough") and m.infer_response.id not in failed, m
        if m.error_message:
            failed.add(m.infer_response.id)
        else:
            got.setdefault(m.infer_response.id, []).append(int(oip.Answer(m.infer_response)["y"][0]))
    assert got == {str(i): list(range(abs(n))) for i, n in enumerate(sizes) if n}
    assert failed == {str(i) for i, n in enumerate(sizes) if n < 0}


def batch(server, rand):
    """Members of one call: some leave, some have too little time, and the others do not notice."""
    with oip.Client(server.address) as client:
        calls = []
        for _ in range(12):
            x, fate = some(rand), rand.choice(["stay"] * 4 + ["leave", "late"])
            calls.append((client.begin("rows", {"x": x}, timeout=0.002 if fate == "late" else oip.SECONDS), x, fate))
        for call, _, fate in calls:
            if fate == "leave":
                call.cancel()
        for call, x, fate in calls:
            if fate == "stay":
                assert np.array_equal(oip.Answer(call.result())["y"], x * 2)
            elif fate == "late" and call.exception():
                assert call.exception().code() == grpc.StatusCode.DEADLINE_EXCEEDED


def regions(server, rand):
    """Inputs and outputs in shared memory that is unregistered while others use theirs."""
    x, name = some(rand, 4), f"r{rand.randrange(1 << 40)}"
    region = shm.create_shared_memory_region(name, f"/anyserve-stress-{name}", 2 * x.nbytes)
    try:
        shm.set_shared_memory_region(region, [x])
        with triton.InferenceServerClient(server.address) as client:
            client.register_system_shared_memory(name, f"/anyserve-stress-{name}", 2 * x.nbytes)
            given, wanted = triton.InferInput("x", list(x.shape), "INT32"), triton.InferRequestedOutput("y")
            given.set_shared_memory(name, x.nbytes)
            wanted.set_shared_memory(name, x.nbytes, x.nbytes)
            for model in ("double", "rows"):
                client.infer(model, [given], outputs=[wanted])
                assert np.array_equal(shm.get_contents_as_numpy(region, np.int32, x.shape, x.nbytes), x * 2)
            client.unregister_system_shared_memory(name)
    finally:
        shm.destroy_shared_memory_region(region)


def toggling(server, rand):
    """A model goes and comes; its requests are answered, or are told so."""
    client = http.CLIENTS["h1"](server.host, server.port)
    for verb in ("unload", "load"):
        assert client.request("POST", f"/v2/repository/models/toggled/{verb}", b"{}").status == 200
        x = some(rand)
        reply = client.request("POST", "/v2/models/toggled/infer", http.infer_json({"x": x}))
        if reply.status != 404:
            doubled(reply, x)
    client.close()


def looking(server, rand):
    """What shows the state of all loops."""
    client = http.CLIENTS["h1"](server.host, server.port)
    for path in ("/v2/models/stats", "/openapi.json", "/v2/models/rows/config", "/v2/health/ready", "/v2/models/double"):
        assert client.request("GET", path).status == 200, path
    client.close()
    server.status()
    assert "anyserve_batch_size" in server.metrics()


ACTORS = [rest, rest, pipelined, half, events, stream, stream, batch, batch, regions, toggling, looking]


def test_all_kinds_of_traffic_at_once(server):
    seed = random.randrange(1 << 32)
    wrong = []

    def act(number, actor):
        rand = random.Random(f"{seed} {number}")
        for k in range(ROUNDS):
            if wrong:
                return
            try:
                actor(server, rand)
            except Exception as e:  # told by the test's thread
                wrong.append((actor.__name__, k, e))

    threads = [threading.Thread(target=act, args=pair, daemon=True) for pair in enumerate(ACTORS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(2 * oip.SECONDS)
    if wrong:
        name, k, e = wrong[0]
        raise AssertionError(f"seed {seed}, {name}, round {k}: {e!r}") from e
    assert not any(t.is_alive() for t in threads)
    server.settle()
    batches = server.deployment("batches")["batches"]
    assert batches["items"] > batches["calls"] > 0

"""Reverse proxies between clients and the server: what they make of requests, answers, streams and health checks."""

import json

import grpc
import httpx
import numpy as np
import pytest

from conftest import ADD, SUM
from proxies import PROXIES, Proxy
from support import wait
from support.protocol import http, oip

pytestmark = pytest.mark.install
BIG = np.arange(1 << 18, dtype=np.float32)  # 1 MiB
OF_GRPC = [name for name, row in PROXIES.items() if row[-1] == 2]
plain = pytest.mark.parametrize("proxy", [name for name in PROXIES if name != "nginx-grpc"], indirect=True)


@pytest.fixture(scope="module")
def proxy(request, server):
    p = Proxy(request.param, server.address)
    try:
        yield p
    finally:
        p.stop()


@pytest.fixture
def settled(server, proxy):
    """Proxies keep connections to the server, so it is not at rest; its log must not blame them."""
    began = len(server.log.lines)
    yield
    server.check_log()
    assert "event=client_closed" not in server.log.text(began), server.log.text(began)


@pytest.fixture
def client(proxy):
    with httpx.Client(base_url=f"http://{proxy.address}", http1=proxy.speaks == 1, http2=proxy.speaks == 2, timeout=60) as c:
        # a proxy that checks its servers has none until the first check
        wait.until(lambda: c.get("/v2/health/ready").status_code == 200, proxy.text)
        yield c


@plain
def test_json(client):
    for _ in range(5):
        answer = client.post("/v2/models/add/infer", content=ADD)
        assert answer.status_code == 200 and answer.json()["outputs"][0]["data"] == SUM
    assert client.post("/v2/models/none/infer", content=ADD).json() == {"error": "unknown model 'none'"}


@plain
def test_one_mebibyte(client):
    head, body = http.infer_binary({"x": BIG})
    for content in body, iter([body[:70000], body[70000:]]):  # with its length, and without
        answer = client.post("/v2/models/echo/infer", content=content, headers=dict(head))
        assert answer.status_code == 200, answer.content[:1000]
        np.testing.assert_array_equal(http.outputs_of(http.Reply(200, dict(answer.headers), answer.content))["x"], BIG)


@plain
def test_at_once(proxy, client, run, tmp_path):
    (tmp_path / "body").write_text(ADD)
    version = "--h1" if proxy.speaks == 1 else "--npn-list=h2c"
    out = run("h2load", "-n", "400", "-c", "16", "-m", "4", "-d", "body", version, f"http://{proxy.address}/v2/models/add/infer")
    assert "400 succeeded, 0 failed, 0 errored" in out and "400 2xx" in out, out


@plain
def test_stream_of_events(client):
    with client.stream("POST", "/v2/models/count/generate_stream", json={"n": 3}) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert [json.loads(line.removeprefix("data: "))["i"] for line in lines] == [0, 1, 2]


@pytest.mark.parametrize("proxy", ["varnish", "squid"], indirect=True)
@pytest.mark.parametrize("path", ["/v2/health/ready", "/v2/health/live", "/v2", "/v2/models/add", "/v2/models/add/stats",
                                  "/v2/models/stats", "/openapi.json"])
def test_not_cached(client, path):
    """Caches keep what may be kept: an answer that is served again names no request of the server."""
    first, second = client.get(path), client.get(path)
    assert first.status_code == second.status_code == 200
    for answer in first, second:
        assert answer.headers.get("age", "0") == "0" and "HIT" not in answer.headers.get("x-cache", ""), answer.headers
        assert len(answer.headers.get("x-varnish", "").split()) <= 1, answer.headers


@pytest.mark.parametrize("proxy", OF_GRPC, indirect=True)
def test_grpc(proxy, client):
    with oip.Client(proxy.address, oip.UNLIMITED) as stub:
        np.testing.assert_array_equal(stub.infer("echo", {"x": BIG})["x"], BIG)
        with pytest.raises(grpc.RpcError) as e:
            stub.infer("none", {"x": BIG})
        assert e.value.code() is grpc.StatusCode.NOT_FOUND and e.value.details() == "unknown model 'none'"
        types = oip.messages()
        stream = stub.channel.stream_stream(f"/{oip.SERVICE}/ModelStreamInfer",
                                            request_serializer=lambda m: m.SerializeToString(),
                                            response_deserializer=types["ModelStreamInferResponse"].FromString)
        answers = list(stream(iter([oip.infer_request("count", {"n": np.array([3], np.int32)})]), timeout=60))
        assert [a.infer_response.raw_output_contents[0][0] for a in answers if a.infer_response.outputs] == [0, 1, 2]

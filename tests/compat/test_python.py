"""HTTP and gRPC clients of Python. tritonclient, grpcio, aiohttp and http.client are in tests/e2e and tests/conform."""

import asyncio
import io
import json
import urllib.request

import grpclib.client
import httpx
import numpy as np
import prometheus_client.parser
import pycurl
import pytest
import requests
import urllib3
from open_inference.openapi.client import AsyncOpenInferenceClient, OpenInferenceClient
from open_inference.openapi.core.api_error import ApiError
from open_inference.openapi.types import InferenceRequest, RequestInput, TensorData

from conftest import ADD, SUM
from support.protocol import http, oip

BIG = np.arange(1 << 18, dtype=np.float32)  # 1 MiB


def of_add(document):
    (output,) = document["outputs"]
    assert output["name"] == "sum" and output["datatype"] == "FP32"
    return output["data"]


def test_requests(base):
    with requests.Session() as session:
        assert session.get(f"{base}/v2/health/ready").status_code == 200
        for _ in range(3):  # on one connection
            assert of_add(session.post(f"{base}/v2/models/add/infer", data=ADD).json()) == SUM
        head, body = http.infer_binary({"x": BIG})
        answer = session.post(f"{base}/v2/models/echo/infer", data=iter([body[:1000], body[1000:]]), headers=dict(head))
        found = http.Reply(answer.status_code, {k.lower(): v for k, v in answer.headers.items()}, answer.content)
        np.testing.assert_array_equal(http.outputs_of(found)["x"], BIG)
        answer = session.post(f"{base}/v2/models/count/generate_stream", json={"n": 3}, stream=True)
        lines = [line for line in answer.iter_lines() if line]
        assert [json.loads(line.removeprefix(b"data: "))["i"] for line in lines] == [0, 1, 2]
        assert session.post(f"{base}/v2/models/none/infer", data=ADD).status_code == 404


def test_urllib3(base):
    with urllib3.PoolManager(maxsize=1) as pool:
        answer = pool.request("POST", f"{base}/v2/models/add/infer", body=ADD, headers={"accept-encoding": "gzip"})
        assert of_add(answer.json()) == SUM


def test_urllib(base):
    with urllib.request.urlopen(f"{base}/v2/models/add/infer", ADD.encode(), timeout=60) as answer:
        assert of_add(json.load(answer)) == SUM


@pytest.mark.parametrize("version", [1, 2])
def test_httpx(base, version):
    with httpx.Client(http1=version == 1, http2=version == 2, timeout=60) as client:
        for _ in range(3):
            answer = client.post(f"{base}/v2/models/add/infer", content=ADD)
            assert answer.http_version == f"HTTP/{version}" + (".1" if version == 1 else "")
            assert of_add(answer.json()) == SUM
        with client.stream("POST", f"{base}/v2/models/count/generate_stream", json={"n": 3}) as answer:
            found = [line for line in answer.iter_lines() if line]
        assert [json.loads(line.removeprefix("data: "))["i"] for line in found] == [0, 1, 2]


def test_httpx_async(base):
    async def run():
        async with httpx.AsyncClient(timeout=60) as client:
            answers = await asyncio.gather(*(client.post(f"{base}/v2/models/add/infer", content=ADD) for _ in range(20)))
        assert all(of_add(a.json()) == SUM for a in answers)
    asyncio.run(run())


def test_pycurl(base):
    curl, out = pycurl.Curl(), io.BytesIO()
    try:
        for version in pycurl.CURL_HTTP_VERSION_1_1, pycurl.CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE:
            out.seek(0)
            out.truncate()
            for option, value in ((pycurl.URL, f"{base}/v2/models/add/infer"), (pycurl.POSTFIELDS, ADD),
                                  (pycurl.HTTP_VERSION, version), (pycurl.WRITEDATA, out)):
                curl.setopt(option, value)
            curl.perform()
            assert curl.getinfo(pycurl.RESPONSE_CODE) == 200 and of_add(json.loads(out.getvalue())) == SUM
    finally:
        curl.close()


def test_grpclib(server):
    async def run():
        types = oip.messages()
        channel = grpclib.client.Channel(server.host, server.port)
        infer = grpclib.client.UnaryUnaryMethod(channel, f"/{oip.SERVICE}/ModelInfer", types["ModelInferRequest"],
                                                types["ModelInferResponse"])
        try:
            for _ in range(3):
                answer = await infer(oip.infer_request("echo", {"x": BIG}), timeout=60)
                assert answer.raw_output_contents[0] == BIG.tobytes()
            with pytest.raises(grpclib.GRPCError) as e:
                await infer(oip.infer_request("none", {"x": BIG}), timeout=60)
            assert e.value.status is grpclib.Status.NOT_FOUND
        finally:
            channel.close()
    asyncio.run(run())


def inputs():
    return InferenceRequest(inputs=[RequestInput(name=i["name"], datatype=i["datatype"], shape=i["shape"],
                                                 data=TensorData.parse_obj(i["data"])) for i in json.loads(ADD)["inputs"]])


def test_open_inference(base):
    """The Open Inference Protocol's own client; what is not given it writes as null, or leaves out."""
    with httpx.Client(timeout=60) as wire:
        client = OpenInferenceClient(base_url=base, httpx_client=wire)
        client.check_server_readiness()
        assert client.read_model_metadata("add").inputs[0].datatype == "FP32"
        assert client.model_infer("add", request=inputs()).outputs[0].data.__root__ == SUM
        with pytest.raises(ApiError, match="unknown model 'none'") as e:
            client.model_infer("none", request=inputs())
        assert e.value.status_code == 404


def test_open_inference_async(base):
    async def run():
        async with httpx.AsyncClient(timeout=60) as wire:
            client = AsyncOpenInferenceClient(base_url=base, httpx_client=wire)
            assert (await client.model_infer("add", request=inputs())).outputs[0].data.__root__ == SUM
    asyncio.run(run())


def test_prometheus_client(server, base):
    """Its parser reads /metrics whole, and finds the request."""
    requests.post(f"{base}/v2/models/add/infer", data=ADD, timeout=60)
    families = list(prometheus_client.parser.text_string_to_metric_families(server.metrics()))
    assert len({f.name for f in families}) == len(families) > 10
    assert all(f.documentation and f.type != "unknown" for f in families)

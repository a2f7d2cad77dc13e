"""Parameters of single tensors (`content_type` and others, as MLServer's codecs use them): those of inputs reach the
handler, those that the handler gives its outputs reach the client; over REST, gRPC, streams; by every kind of worker."""

import json
import uuid

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.utils.shared_memory as shm

from support.protocol import http as rest
from support.protocol import link, oip
from support.protocol.simple import Simple, echo
from test_stream import Stream

pytestmark = pytest.mark.core

PARAMETERS = {"content_type": "str", "n": -3, "big": 2**64 - 1, "flag": True, "ratio": 0.5, "größe": "ü\"\n"}
OTHERS = {"content_type": "np"}
X, Y = np.arange(3, dtype=np.int32), oip.bytes_array([b"a", b"bc"])
SOURCE = '''
import json
import numpy as np
from collections.abc import AsyncIterator
from anyserve import AnyServe, Batching, Request, Response, Tensor

app = AnyServe()

@app.model("codec")
def codec(request):
    """Each output with the parameters of the input that it is; what was seen, as text."""
    return Response(dict(request.inputs), {"seen": json.dumps(request.input_parameters)},
                    output_parameters=request.input_parameters)

@app.model("stream")
def stream(request):
    for i in range(3):
        yield Response({"out": np.array([i])}, output_parameters={"out": {"i": i}} if i != 1 else None)

@app.model("inputs", outputs={"out": Tensor("BYTES", [1])})
async def inputs(requests: AsyncIterator[Request]):
    async for request in requests:
        yield Response({"out": [json.dumps(request.input_parameters)]})

@app.model("classes", outputs={"scores": Tensor("FP32", [3], labels=["a", "b", "c"])})
def classes(request):
    return Response(np.array([0.1, 0.7, 0.2], np.float32), output_parameters={"scores": {"content_type": "np"}})

@app.model("texts", inputs={"text": Tensor("BYTES", [1])}, outputs={"out": Tensor("BYTES", [1])})
def texts(text):
    return Response({"out": text}, output_parameters={"out": {"content_type": "str"}})

@app.model("batched", inputs={"x": Tensor("INT32", [1])}, outputs={"y": Tensor("INT64", [1])},
           batching=Batching(8, max_wait_ms=50))
def batched(requests):
    seen = {json.dumps(r.input_parameters) for r in requests}
    assert len(seen) == 1, seen
    rows = sum(r.items for r in requests)
    return Response(np.full((rows, 1), rows), output_parameters={"y": dict(requests[0].input_parameters.get("x", {}))})

@app.model("wrong")
def wrong(request):
    said = eval(request.parameters["said"])
    return Response({"y": np.zeros(1)}, output_parameters=said)
'''


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("codec.py", "--debug-errors", source=SOURCE)


@pytest.fixture(params=rest.CLIENTS)
def http(server, request):
    client = rest.CLIENTS[request.param](server.host, server.port)
    yield client
    client.close()


@pytest.fixture
def grpc(server):
    with oip.Client(server.address) as client:
        yield client


def seen(message):
    return json.loads(message["parameters"]["seen"])


def said_of(reply):
    """(message, output name -> its parameters without the size of binary data)"""
    length = int(reply.headers.get(rest.JSON_LENGTH, len(reply.data)))
    assert reply.status == 200, reply.data[:500]
    message = json.loads(reply.data[:length])
    return message, {o["name"]: {k: v for k, v in o.get("parameters", {}).items() if k != "binary_data_size"}
                     for o in message["outputs"]}


def request_of(inputs, model="codec", **fields):
    """gRPC; inputs: name -> (array, parameters)"""
    q = oip.infer_request(model, {k: a for k, (a, _) in inputs.items()}, **fields)
    for t in q.inputs:
        for key, value in inputs[t.name][1].items():
            if value == 2**64 - 1:
                t.parameters[key].uint64_param = value
            else:
                oip.set_parameter(t.parameters, key, value)
    return q


def output_parameters(answer):
    return {o.name: oip.parameters_of(o.parameters) for o in answer.outputs}


def infer(http, body, headers=(), model="codec"):
    return http.request("POST", f"/v2/models/{model}/infer", body, headers)


# --- REST ---

def test_json(http):
    """Every kind of value, there and back; a tensor without any has no `parameters` in the answer."""
    inputs = [rest.tensor("x", X, data=X.tolist(), parameters=PARAMETERS), rest.tensor("y", Y, data=["a", "bc"]),
              rest.tensor("z", X, parameters=OTHERS, data=X.tolist())]
    message, said = said_of(infer(http, json.dumps({"inputs": inputs}).encode()))
    assert seen(message) == {"x": PARAMETERS, "z": OTHERS}
    assert said == {"x": PARAMETERS, "y": {}, "z": OTHERS}
    assert ["parameters" in o for o in message["outputs"]] == [True, False, True]


def test_binary(http):
    """Beside binary_data_size, which the handler does not see."""
    headers, body = rest.infer_binary({"x": X, "y": Y})
    head = json.loads(body[:int(headers[0][1])])
    data = body[int(headers[0][1]):]
    head["inputs"][1]["parameters"].update(PARAMETERS)
    text = json.dumps(head).encode()
    reply = infer(http, text + data, [(rest.JSON_LENGTH, str(len(text)))])
    message, said = said_of(reply)
    assert seen(message) == {"y": PARAMETERS}
    assert said == {"x": {}, "y": PARAMETERS}
    assert [o["parameters"]["binary_data_size"] for o in message["outputs"]] == [12, 11]
    assert np.array_equal(rest.outputs_of(reply)["x"], X)


def test_picked_in_another_order(http, grpc):
    """The parameters go with their output, not with its place."""
    names = ["z", "x"]
    inputs = {"x": (X, PARAMETERS), "y": (X, {"only": "y"}), "z": (X, OTHERS)}
    body = {"inputs": [rest.tensor(k, a, data=a.tolist(), parameters=p) for k, (a, p) in inputs.items()],
            "outputs": [{"name": n, "parameters": {"binary_data": n == "x"}} for n in names]}
    message, said = said_of(infer(http, json.dumps(body).encode()))
    assert said == {"z": OTHERS, "x": PARAMETERS} and list(said) == names
    answer = grpc.call("ModelInfer", request_of(inputs, outputs=names))
    assert output_parameters(answer) == {"z": OTHERS, "x": PARAMETERS}


def test_null_and_duplicates(http):
    """null is absent, what is no single value is passed over; a name that is given twice is refused in JSON."""
    body = '{"inputs": [{"name": "x", "datatype": "INT32", "shape": [1], "data": [1], "parameters": {%s}}]}'
    message, said = said_of(infer(http, (body % '"a": null, "b": 1, "c": [1], "d": {"e": 1}').encode()))
    assert seen(message) == {"x": {"b": 1}}
    reply = infer(http, (body % '"b": 2, "b": 1').encode())
    assert (reply.status, reply.error) == (400, "input 'x': parameter 'b' is given twice")


def test_the_servers_own(http, grpc):
    """What the server uses itself does not reach the handler, on inputs that have no use of it either."""
    own = {"classification": 2, "binary_data": False}
    body = {"inputs": [rest.tensor("x", X, data=X.tolist(), parameters={**own, "k": 1})]}
    message, said = said_of(infer(http, json.dumps(body).encode()))
    assert seen(message) == {"x": {"k": 1}}
    answer = grpc.call("ModelInfer", request_of({"x": (X, {**own, "binary_data_size": 12, "k": 1})}))
    assert output_parameters(answer) == {"x": {"k": 1}}


@pytest.mark.parametrize("extra", [0, 1])
def test_as_many_as_may_be(http, grpc, extra):
    """1,024 of a request, its own included."""
    many = {f"p{i}": i for i in range(1000 + extra)}
    inputs = [rest.tensor("x", X, data=X.tolist(), parameters=many), rest.tensor("y", X, data=X.tolist(), parameters={"k": 1})]
    own = {f"q{i}": i for i in range(23)}
    reply = infer(http, json.dumps({"inputs": inputs, "parameters": own}).encode())
    q = request_of({"x": (X, many), "y": (X, {"k": 1})}, parameters=own)
    if extra:
        why = "parameters: more than 1024 entries, those of inputs included"
        assert (reply.status, reply.error) == (400, why)
        assert grpc.refused(q, send=lambda q: grpc.call("ModelInfer", q)).details() == why
        return
    assert said_of(reply)[1] == {"x": many, "y": {"k": 1}}
    assert output_parameters(grpc.call("ModelInfer", q)) == {"x": many, "y": {"k": 1}}


@pytest.mark.parametrize("place", ["request", "input"])
def test_a_name_that_is_too_long(http, grpc, place):
    """It would not fit the frame for the worker: refused, and the server lives."""
    def ask(n):
        own, more = ({}, {"n" * n: 1}) if place == "request" else ({"n" * n: 1}, None)
        return request_of({"x": (X, own)}, parameters=more)

    grpc.call("ModelInfer", ask(65535))
    error = grpc.refused(ask(65536), send=lambda q: grpc.call("ModelInfer", q))
    assert (error.code().name, error.details()) == ("INVALID_ARGUMENT", f"parameter '{'n' * 64}…': the name is too long")
    body = {"inputs": [rest.tensor("x", X, data=X.tolist(), parameters={"n" * 65536: 1})]}
    reply = infer(http, json.dumps(body).encode())
    assert (reply.status, reply.error) == (400, f"input 'x': parameter '{'n' * 64}…': the name is too long")


def test_generate_has_none(http):
    reply = http.request("POST", "/v2/models/texts/generate", b'{"text": "a"}')
    assert (reply.status, reply.json()) == (200, {"model_name": "texts", "model_version": "1", "out": "a"})


def test_classification_leaves_them_out(http):
    """What was said of the numbers is not true of the names of the classes."""
    body = {"inputs": [rest.tensor("x", X, data=X.tolist())], "outputs": [{"name": "scores", "parameters": {"classification": 1}}]}
    message, said = said_of(infer(http, json.dumps(body).encode(), model="classes"))
    assert said == {"scores": {}} and message["outputs"][0]["data"][0].endswith(":1:b")
    del body["outputs"]
    assert said_of(infer(http, json.dumps(body).encode(), model="classes"))[1] == {"scores": {"content_type": "np"}}


@pytest.mark.parametrize("said, why", [
    ({"z": {"a": 1}}, "output_parameters of model 'wrong' name the output 'z', which it did not return; returned: 'y'"),
    ({"y": {"binary_data_size": 1}}, "parameter 'binary_data_size' of output 'y' is the server's own"),
    ({"y": {"shared_memory_region": "r"}}, "parameter 'shared_memory_region' of output 'y' is the server's own"),
    ({"y": {"a": [1]}}, "parameter 'a' of model 'wrong' is a list; it must be bool, int, float or str"),
    ({"y": 1}, "output_parameters of model 'wrong' must map names of outputs to dicts; 'y' has a int"),
    (3, "output_parameters of model 'wrong' must be a dict"),
    ({"y": {f"p{i}": i for i in range(1025)}}, "model 'wrong' returned 1025 parameters; the limit is 1024"),
])
def test_what_a_handler_may_not_say(grpc, said, why):
    error = grpc.refused("wrong", {"x": X}, parameters={"said": repr(said)})
    assert why in error.details()


def test_triton_client_reads_them(server):
    """Its output has the size of its bytes beside what the handler says."""
    with triton.InferenceServerClient(server.address) as client:
        x = triton.InferInput("x", [3], "INT32")
        x.set_data_from_numpy(X)
        x._parameters.update(OTHERS)
        answer = client.infer("codec", [x])
        assert np.array_equal(answer.as_numpy("x"), X)
        assert answer.get_output("x")["parameters"] == {"binary_data_size": 12, **OTHERS}


# --- gRPC ---

def test_grpc(grpc):
    answer = grpc.call("ModelInfer", request_of({"x": (X, PARAMETERS), "y": (Y, {}), "z": (X, OTHERS)}))
    assert json.loads(oip.parameters_of(answer.parameters)["seen"]) == {"x": PARAMETERS, "z": OTHERS}
    assert output_parameters(answer) == {"x": PARAMETERS, "y": {}, "z": OTHERS}


def test_stream(server):
    """Each response of a stream has its own."""
    with Stream(server.address) as s:
        s.send("stream")
        s.end()
        found = [output_parameters(r.infer_response) for r in s.rest()]
    assert found == [{"out": {"i": 0}}, {"out": {}}, {"out": {"i": 2}}]


def test_stream_of_requests(server):
    """Each message has its own."""
    with Stream(server.address) as s:
        for p in ({"k": 1}, {}, {"k": 2}):
            s._out.put(request_of({"x": (X, p)}, model="inputs"))
        s.end()
        found = [json.loads(oip.unpack_bytes(r.infer_response.raw_output_contents[0])[0]) for r in s.rest()]
    assert found == [{"x": {"k": 1}}, {}, {"x": {"k": 2}}]


# --- calls that are shared ---

def test_requests_that_share_a_call_have_the_same(grpc):
    """Only these: of different content a handler could not say which rows are whose."""
    x = np.zeros((1, 1), np.int32)
    calls = [grpc.method("ModelInfer").future(request_of({"x": (x, p)}, model="batched"))
             for p in [{"k": 1}, {"k": 2}, {}, {"k": 1.0}, {"k": "1"}] * 4]
    found = [output_parameters(c.result())["y"] for c in calls]
    assert found == [{"k": 1}, {"k": 2}, {}, {"k": 1.0}, {"k": "1"}] * 4
    assert [type(p.get("k")) for p in found[:5]] == [int, int, type(None), float, str]


# --- other workers ---

def test_simple_worker(serve):
    """As protobuf has them, both ways; the names that are the server's own are left out of its answer."""
    got = []

    def handle(q):
        got.append({t.name: oip.parameters_of(t.parameters) for t in q.inputs})
        r = echo(q)
        for tensor, output in zip(q.inputs, r.outputs):
            for key in tensor.parameters:
                output.parameters[key].CopyFrom(tensor.parameters[key])
            oip.set_parameter(output.parameters, "binary_data_size", 1)
        return r

    server = serve(None)
    with Simple(server, "m", handle=handle), oip.Client(server.address) as client:
        answer = client.call("ModelInfer", request_of({"x": (X, PARAMETERS), "y": (X, {})}, model="m"))
    assert got == [{"x": PARAMETERS, "y": {}}]
    assert output_parameters(answer) == {"x": PARAMETERS, "y": {}}


def test_a_worker_that_does_not_know_them(serve):
    """An older one gets the request without them, in the form that it knows."""
    server = serve(None)
    with link.Worker(server) as worker, oip.Client(server.address) as client:
        worker.serve("m")
        call = client.method("ModelInfer").future(request_of({"x": (X, PARAMETERS)}, model="m", parameters={"k": 1}))
        opened = worker.take()
        assert (list(opened.inputs), opened.parameters) == (["x"], {"k": 1})
        worker.answer(opened, opened.inputs)
        assert output_parameters(call.result()) == {"x": {}}


# --- copies and comparisons of requests ---

MIRRORED = '''
import json
from anyserve import AnyServe

app = AnyServe()

def version(number):
    @app.model("m", version=number, deployment="v" + number)
    def m(request):
        print("saw" + number, json.dumps(request.input_parameters), flush=True)
        return request.inputs

version("1")
version("2")
app.deployment("v2", canary_percent=0, mirror_percent=100)
'''


def test_a_mirror_gets_them(serve):
    server = serve("mirrored.py", source=MIRRORED)
    with oip.Client(server.address) as client:
        client.call("ModelInfer", request_of({"x": (X, PARAMETERS), "y": (X, {})}, model="m"))
    for number in "12":
        assert json.loads(server.log.wait(rf"saw{number} (\{{.*\}})").group(1)) == {"x": PARAMETERS}


FATAL = '''
import os
from anyserve import AnyServe

app = AnyServe()

@app.model("m", idempotent=True)
def m(request):
    if request.input_parameters["x"]["k"] == 666:
        os._exit(1)
    return request.inputs
'''


def test_a_request_that_ends_workers_is_told_by_them(serve):
    """The same inputs with other parameters are another request."""
    server = serve("fatal.py", "--workers", "3", "--restart-backoff", "1ms", "--restart-backoff-max", "20ms", source=FATAL)
    with oip.Client(server.address) as client:
        for _ in range(5):
            error = client.refused(request_of({"x": (X, {"k": 666})}, model="m"), send=lambda q: client.call("ModelInfer", q))
            assert "has ended workers" in error.details()
        client.call("ModelInfer", request_of({"x": (X, {"k": 667})}, model="m"))


def test_an_output_in_shared_memory(serve):
    """Over gRPC beside the region; over REST it has none, as Triton's has none."""
    server = serve("codec.py", "--allow-client-shm", source=SOURCE)
    name = f"as_{uuid.uuid4().hex}"
    handle = shm.create_shared_memory_region(name, f"/{name}", X.nbytes)
    try:
        with triton.InferenceServerClient(server.address) as client, oip.Client(server.address) as grpc:
            client.register_system_shared_memory(name, f"/{name}", X.nbytes)
            where = {"shared_memory_region": name, "shared_memory_byte_size": X.nbytes}
            q = request_of({"x": (X, OTHERS)}, outputs=["x"])
            for key, value in where.items():
                oip.set_parameter(q.outputs[0].parameters, key, value)
            assert output_parameters(grpc.call("ModelInfer", q)) == {"x": {**where, "shared_memory_offset": 0, **OTHERS}}
            http = rest.Http1(server.host, server.port)
            message, _ = said_of(infer(http, json.dumps({
                "inputs": [rest.tensor("x", X, data=X.tolist(), parameters=OTHERS), rest.tensor("y", X, data=X.tolist(), parameters=OTHERS)],
                "outputs": [{"name": "x", "parameters": where}, {"name": "y"}]}).encode()))
            http.close()
            assert ["parameters" in o for o in message["outputs"]] == [False, True]
            assert message["outputs"][1]["parameters"] == OTHERS
            client.unregister_system_shared_memory(name)
    finally:
        shm.destroy_shared_memory_region(handle)

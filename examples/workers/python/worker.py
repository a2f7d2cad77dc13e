"""A worker of the simple protocol in plain Python; docs/guide/workers.md explains it.

    protoc -I proto --python_out=. proto/open_inference.proto         # once: makes open_inference_pb2.py
    python worker.py MANAGEMENT SOCKET

MANAGEMENT is the server's management.sock, or HOST:PORT with the token in ANYSERVE_TOKEN. SOCKET is ours, below the
server's --worker-socket-dir.
"""

import contextlib, http.client, json, os, signal, socket, struct, sys, threading
from array import array

import open_inference_pb2 as oip

MANAGEMENT, SOCKET = sys.argv[1:3]
WORKER = os.path.splitext(os.path.basename(SOCKET))[0]
FLOATS = {"datatype": "FP32", "shape": [-1]}
OPTIONS = {"max_ongoing_requests": 4, "idempotent": True}
MODELS = [
    {"model_name": "echo", "options": OPTIONS},
    {"model_name": "add", "options": OPTIONS, "signature": {
        "inputs": [{"name": "a", **FLOATS}, {"name": "b", **FLOATS}], "outputs": [{"name": "sum", **FLOATS}]}},
]


def infer(request, answer):
    if request.model_name == "echo":
        for tensor, data in zip(request.inputs, request.raw_input_contents):
            answer.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
            answer.raw_output_contents.append(data)
    else:
        inputs = {t.name: array("f", data) for t, data in zip(request.inputs, request.raw_input_contents)}
        if len(inputs["a"]) != len(inputs["b"]):
            raise ValueError("a and b have different lengths")
        answer.outputs.add(name="sum", datatype="FP32", shape=[len(inputs["a"])])
        answer.raw_output_contents.append(array("f", map(float.__add__, inputs["a"], inputs["b"])).tobytes())


def reply(request):
    answer = oip.ModelInferResponse(model_name=request.model_name, id=request.id)  # the id: always
    try:
        infer(request, answer)
    except Exception as e:  # an answer without outputs that says what went wrong
        answer = oip.ModelInferResponse(model_name=request.model_name, id=request.id)
        code = "INVALID_ARGUMENT" if isinstance(e, ValueError) else "INTERNAL"
        answer.parameters["anyserve_error"].string_param = code
        answer.parameters["anyserve_error_message"].string_param = str(e)
    return answer.SerializeToString()


def serve(connection):
    """One request after the other, until the server closes the connection, which may be in the middle of one."""
    with connection, connection.makefile("rb") as stream, contextlib.suppress(OSError):
        while len(head := stream.read(4)) == 4:
            (length,) = struct.unpack("!I", head)
            if len(data := stream.read(length)) < length:
                return
            data = reply(oip.ModelInferRequest.FromString(data))
            connection.sendall(struct.pack("!I", len(data)) + data)


def accept(listener):
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=False).start()


def call(rpc, body):
    """One call of the management service; it is JSON over HTTP."""
    if MANAGEMENT.startswith("/"):
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(MANAGEMENT)
    else:
        connection = http.client.HTTPConnection(MANAGEMENT)
    connection.request("POST", "/anyserve.WorkerManagement/" + rpc, json.dumps(body),
                       {"Authorization": "Bearer " + os.environ.get("ANYSERVE_TOKEN", "")})
    response = connection.getresponse()
    answer = json.loads(response.read())
    if response.status != 200:
        raise ConnectionError(f"{rpc}: {answer['error']}")
    return answer


def stay():
    """Until SIGTERM: registers, says that we live, and registers again when the server does not know us (any more)."""
    known, interval, pause = False, 5, 0
    while not leaving.wait(pause):
        try:
            if not known:
                for model in MODELS:
                    answer = call("RegisterModel", {"worker_id": WORKER, "worker_address": "unix://" + SOCKET, **model})
                interval = (answer["heartbeatIntervalMs"] or 5000) / 1000
                print("registered", flush=True)
            known = call("Heartbeat", {"worker_id": WORKER})["healthy"]
            pause = interval if known else 0.1
        except OSError as e:  # the server is away, or says no
            print(e, file=sys.stderr, flush=True)
            pause = 1


leaving = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: leaving.set())
if os.path.exists(SOCKET):
    os.unlink(SOCKET)  # of a predecessor that was killed
threading.Thread(target=accept, args=(socket.create_server(SOCKET, family=socket.AF_UNIX),), daemon=True).start()
try:
    stay()
finally:  # what is under way is finished: Python waits for the threads of the connections
    for model in MODELS:
        call("UnregisterModel", {"worker_id": WORKER, "model_name": model["model_name"]})
    os.unlink(SOCKET)

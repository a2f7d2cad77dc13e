"""`anyserve infer` and `anyserve bench` as the tests run them; values, an application, and odd servers."""

import json
import socket
import subprocess
import threading
from contextlib import contextmanager, suppress

import numpy as np

from . import paths
from .protocol import oip

SLOW = """
import time
from anyserve import AnyServe, Error, Tensor
app = AnyServe()

@app.model("sometimes", inputs={"x": Tensor("INT32", [-1])}, outputs={"y": Tensor("INT32", [-1])})
def sometimes(x):
    sometimes.n += 1
    if sometimes.n > 1 and sometimes.n % 10 == 0:
        raise Error("FAILED_PRECONDITION", "every tenth")
    return x

sometimes.n = 0

@app.model("pauses", deployment="pauses", inputs={"x": Tensor("INT32", [-1])}, outputs={"y": Tensor("INT32", [-1])})
def pauses(x):
    pauses.n += 1
    if pauses.n == 100:
        time.sleep(0.4)
    return x

pauses.n = 0
"""


def run(server, command, *args, code=0, stdin=b"", runtime=True, **kwargs):
    where = ["--runtime-dir", server.runtime] if runtime else []
    done = subprocess.run([str(a) for a in (paths.BINARY, command, *args, *where)], input=stdin,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, **kwargs)
    done.out, done.err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == code, f"exit code {done.returncode}, not {code}:\n{done.out}\n{done.err}"
    assert "Sanitizer" not in done.err and "runtime error" not in done.err, done.err
    return done


def infer_json(tool, *args, **kwargs):
    return json.loads(tool("infer", *args, "--json", **kwargs).out)


def outputs(answer):
    return {o["name"]: o for o in answer["outputs"]}


def bounds(code):
    info = np.iinfo(code)
    return [int(info.min), 0, 7, int(info.max)]


VALUES = {
    "BOOL": [True, False, True, True],
    **{name: bounds(code) for name, code in oip.DTYPES.items() if code[0] in "iu"},
    "FP16": [0.1, -65504.0, 6e-8, 2.0],
    "FP32": [0.1, 3.4028235e38, 1e-45, -16777216.0],
    "FP64": [0.1, 1.7976931348623157e308, 5e-324, 0.30000000000000004],
    "BF16": [0.5, -3.0, 1e30, 0.0],
    "BYTES": ["plain, with commas", "", 'quotes " and \\', "grüße\n\t世界 \U0001f600"],
}


def bench(tool, *args, code=0):
    result = json.loads(tool("bench", *args, "--json", code=code).out)
    counts = sum(e["count"] for e in result["errors"].values())
    assert counts == result["failed"]
    assert result["due"] == result["ok"] + result["failed"] + result["unanswered"] + result["unsent"]
    assert sum(n for _, n in result["histogram_us"]) == result["ok"] + result["unanswered"] + result["unsent"]
    latency = [result["latency_us"][k] for k in ("min", "p50", "p90", "p99", "p999", "max")]
    assert latency[1:] == sorted(latency[1:]) and latency[0] <= latency[-1]
    return result


@contextmanager
def listening():
    """listen(handle): a port where `handle(socket)` is called with each connection."""
    servers = []

    def listen(handle):
        s = socket.create_server(("127.0.0.1", 0))
        servers.append(s)

        def serve():
            while True:
                try:
                    c, _ = s.accept()
                except OSError:
                    return
                with c, suppress(ConnectionError):
                    handle(c)

        threading.Thread(target=serve, daemon=True).start()
        return s.getsockname()[1]

    yield listen
    for s in servers:
        s.shutdown(socket.SHUT_RDWR)
        s.close()

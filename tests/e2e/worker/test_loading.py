"""While code is imported, which takes a library's time, the port is not silent; and code that never comes to an end."""

import json
import os
import signal
import socket
import sys
import time

import grpc
import numpy as np
import pytest

from support import paths, ports, wait
from support.protocol import http as rest
from support.protocol import oip

pytestmark = pytest.mark.core

# Waits for the test each time that it is imported: in the describing step, then in each worker.
SLOW = """
import os, numpy as np
from anyserve import AnyServe

print("importing", flush=True)
os.read(os.open(os.environ["GATE"], os.O_RDONLY), 1)  # a fifo
app = AnyServe()


@app.model("double")
def double(x):
    return {"y": 2 * x}
"""


class Gate:
    """A fifo: who opens it waits until it is opened for good; each reader takes one byte."""

    def __init__(self, folder):
        self.path = folder / "gate"
        os.mkfifo(self.path)
        self._fd = -1

    def open_for_good(self):
        self._fd = os.open(self.path, os.O_RDWR)  # waits for nobody
        os.write(self._fd, b"x" * 64)

    def close(self):
        if self._fd >= 0:
            os.close(self._fd)


@pytest.fixture
def gate(tmp_path):
    gate = Gate(tmp_path)
    yield gate
    gate.close()


def slow(serve, gate, *options):
    port = ports.free()
    server = serve("slow.py", "--port", port, *options, source=SLOW, env={"GATE": str(gate.path)}, wait_ready=False)
    server.host, server.port, server.address = "127.0.0.1", port, f"127.0.0.1:{port}"
    server.log.wait("^importing")
    return server


def infer(http):
    body = json.dumps({"inputs": [{"name": "x", "datatype": "INT32", "shape": [1], "data": [4]}]}).encode()
    return http.request("POST", "/v2/models/double/infer", body)


@pytest.mark.parametrize("threads", [1, 3])
def test_it_answers_from_the_first_moment_on(serve, gate, threads):
    server = slow(serve, gate, "--threads", threads)
    h1 = rest.Http1(server.host, server.port)
    with oip.Client(server.address) as client:
        assert h1.request("GET", "/v2/health/live").status == 200
        assert h1.request("GET", "/v2/health/ready").status == 503
        reply = infer(h1)
        assert reply.status == 503 and reply.headers["retry-after"] == "1", reply
        assert "not known yet" in reply.error
        error = client.refused("double", {"x": np.array([4])})
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        assert client.call("ServerLive").live and not client.call("ServerReady").ready
        assert server.get("/-/healthz")[0] == 503
        gate.open_for_good()
        server.wait_ready()

        def is_served():
            try:
                return client.infer("double", {"x": np.array([4])})["y"] == 8
            except grpc.RpcError as e:
                assert e.code() == grpc.StatusCode.UNAVAILABLE
        wait.until(is_served, "the model")
    h1.close()
    h1 = rest.Http1(server.host, server.port)
    assert infer(h1).status == 200
    h1.close()
    assert "event=drain" not in server.log.text() and "yields" not in server.log.text()
    server.settle()


def test_a_signal_ends_it_at_once(serve, gate):
    server = slow(serve, gate)
    assert server.get("/-/healthz")[0] == 503
    server.stop(code=128 + signal.SIGTERM)


def test_code_that_cannot_be_loaded(serve):
    server = serve("broken.py", source="raise RuntimeError('as the test said')", wait_ready=False)
    server.ended(70)


def test_nobody_is_refused_when_it_goes_over_to_the_server(serve, gate):
    """New connections all the time, while the code is loaded and behind it."""
    server = slow(serve, gate)
    seen, n = set(), 0
    end = time.monotonic() + wait.SECONDS
    while (n < 5 or 200 not in seen) and time.monotonic() < end:  # it is known a moment after Ready
        http = rest.Http1(server.host, server.port)
        before = len(seen)
        seen.add(infer(http).status)
        http.close()
        if not before:
            gate.open_for_good()
        n += "Ready" in server.log.text()
    assert seen == {503, 200}


# --- code that does not come to an end ---

THREADS = """
import threading, time
from anyserve import AnyServe

app = AnyServe()
app.model("echo")(lambda x: {"y": x})


def poll():
    while True:
        time.sleep(0.01)


threading.Thread(target=poll, name="poller").start()
threading.Thread(target=poll, name="quiet", daemon=True).start()
"""


def test_a_thread_that_lives_on_does_not_hang_the_start(serve):
    server = serve("threads.py", "--stop-timeout", "300ms", source=THREADS)
    said = server.log.wait(r"anyserve: .*not daemons?.*'poller' \(.*threads.py:\d+\)")
    assert "quiet" not in said[0], server.log.text()
    with oip.Client(server.address) as client:
        assert client.infer("echo", {"x": np.array([1])})["y"] == 1


def test_code_that_hangs_is_ended_with_its_stacks(serve):
    source = "import time\n\ndef wait_for_ever():\n    while True:\n        time.sleep(0.01)\n\n\nwait_for_ever()\n"
    began = time.monotonic()
    server = serve("hangs.py", "--start-timeout", "6s", source=source, wait_ready=False)
    server.ended(70)
    assert time.monotonic() - began < 60
    text = server.log.text()
    assert "had not described its code within 6 s (--start-timeout)" in text
    assert "in wait_for_ever" in text and "hangs.py" in text
    assert "Is the package installed there?" not in text


# --- what is said is what was seen ---

ECHO = "from anyserve import AnyServe\napp = AnyServe()\napp.model('echo')(lambda x: {'y': x})\n"


def test_code_that_clears_its_environment(serve):
    server = serve("clears.py", source="import os\nos.environ.clear()\n" + ECHO)
    with oip.Client(server.address) as client:
        assert client.infer("echo", {"x": np.array([1])})["y"] == 1


def test_code_that_closes_what_is_not_its_own(serve):
    server = serve("closes.py", source=ECHO + "import os\nos.closerange(3, 256)\n", wait_ready=False)
    server.ended(70)
    text = server.log.text()
    assert "the code has closed a descriptor that it did not open" in text, text
    assert "Traceback" not in text and "Is the package installed" not in text


@pytest.mark.parametrize("target", ["app.py", "app:app", "/app.py"])
def test_a_directory_that_was_deleted(serve, tmp_path, target):
    gone = tmp_path / "gone"
    gone.mkdir()
    if target.startswith("/"):
        (tmp_path / "app.py").write_text(ECHO)
        target = tmp_path / "app.py"
    server = serve(target, cwd=gone, wait_ready=False, binary=deleting(tmp_path, gone))
    server.ended(78)
    text = server.log.text()
    assert "the current directory does not exist any more" in text and "Traceback" not in text, text
    assert "Is the package installed" not in text


def script(tmp_path, line):
    path = tmp_path / "program"
    path.write_text(f'#!/bin/sh\n{line}\nexec {paths.BINARY} "$@"\n')
    path.chmod(0o755)
    return path


def deleting(tmp_path, folder):
    return script(tmp_path, f"rmdir {folder}")


def test_too_few_descriptors(serve, tmp_path):
    server = serve("echo.py", wait_ready=False, binary=script(tmp_path, "ulimit -n 127"))
    server.ended(71)
    assert "the limit of open files is 127 (ulimit -n); a server needs at least 128" in server.log.text()
    server = serve("echo.py", binary=script(tmp_path, "ulimit -n 128"))
    server.settle()


def test_an_interpreter_without_the_package(serve, tmp_path):
    """That is asked then only."""
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    (tmp_path / "python").chmod(0o755)
    server = serve("echo.py", "--python", tmp_path / "python", wait_ready=False)
    server.ended(69)
    assert "The package is not installed there:" in server.log.text(), server.log.text()


def test_an_address_in_brackets(serve):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    server = serve("echo.py", "--host", "[::1]")
    with oip.Client(f"[::1]:{server.port}") as client:
        assert client.infer("echo", {"x": np.array([1])})["x"] == 1
    assert "[::1]:" in server.log.text() and "[[" not in server.log.text()


def test_ctrl_c_says_what_it_waits_for(staged, stage):
    server = staged("--drain-timeout", "40s")
    with oip.Client(server.address) as client:
        call = client.begin("staged", {})
        stage.started(1)
        os.killpg(server.supervisor, signal.SIGINT)
        server.log.wait(r"^Ending: requests that are under way are answered first, for at most 40 s; "
                        r"Ctrl-C again ends at once\.$")
        server.log.wait("event=draining unanswered=1")
        server.stop(code=128 + signal.SIGINT, signum=signal.SIGINT)
        assert call.exception() is not None
    assert server.log.find(r"^Ending at once\.$")

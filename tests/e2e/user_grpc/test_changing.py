"""gRPC services of the user while applications come, change and go; limits; replicas that die."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from greeter_names import ADD
from support import paths, wait

pytestmark = pytest.mark.core

SLOW = """
import os, threading
import greeter_pb2 as pb
from anyserve import serve

@serve.deployment(max_ongoing_requests=1, max_queued_requests=1)
class Slow:
    def __init__(self):
        self.go = threading.Event()

    def Hello(self, request):
        with open(request.name, "w") as f:
            f.write(str(os.getpid()))
        self.go.wait(60)
        return pb.Greeting(text="slow")

app = Slow.bind()
"""


def hello(server, application, name="x", **options):
    return server.greeter.Hello(server.pb.Name(name=name), metadata=[("application", application)], timeout=60, **options).text


def start_slow(server, folder, application):
    (folder / "slow_greeter.py").write_text(SLOW)
    sys.path.insert(0, str(folder))
    try:
        import slow_greeter

        server.serve.run(slow_greeter.app, name=application, route_prefix=None)
    finally:
        sys.path.remove(str(folder))


def begin(server, application, file):
    """A call that has begun; its process."""
    call = server.greeter.Hello.future(server.pb.Name(name=str(file)), metadata=[("application", application)], timeout=60)
    wait.until(lambda: file.exists() and file.read_text(), "a call that runs")
    return call, int(file.read_text())


def test_a_full_queue_and_a_replica_that_dies(grpc_server, tmp_path):
    start_slow(grpc_server, tmp_path, "slow")
    running, pid = begin(grpc_server, "slow", tmp_path / "began")
    many = [grpc_server.greeter.Hello.future(grpc_server.pb.Name(name=str(tmp_path / "other")),
                                             metadata=[("application", "slow")], timeout=60) for _ in range(8)]  # fmt: skip
    refused = wait.until(lambda: [c for c in many if c.done()], "a refusal")
    assert {c.code().name for c in refused} == {"RESOURCE_EXHAUSTED"}
    assert "Request dropped due to backpressure (num_queued_requests=" in refused[0].details()
    for c in many:
        c.cancel()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(grpc_server.grpc.RpcError):
        running.result()
    assert running.code().name == "UNAVAILABLE"
    assert ("anyserve-may-have-executed", "1") in running.trailing_metadata()
    grpc_server.serve.delete("slow")


def test_an_update_loses_no_call(grpc_server):
    import greeter_app

    over, texts, errors = threading.Event(), [], []

    def call():
        while not over.is_set():
            try:
                texts.append(hello(grpc_server, "first", "you"))
            except grpc_server.grpc.RpcError as e:
                errors.append(e)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for t in threads:
        t.start()
    wait.until(lambda: len(texts) > 20, "calls")
    grpc_server.serve.run(greeter_app.Greeter.bind("again"), name="first", route_prefix=None)
    done = len(texts)
    wait.until(lambda: len(texts) > done + 20, "calls after the update")
    over.set()
    for t in threads:
        t.join()
    assert not errors
    assert texts[0] == "hello you" and texts[-1] == "again you"


def test_a_config_file(grpc_server, tmp_path):
    (tmp_path / "serve.yaml").write_text(f"""
grpc_options: {{grpc_servicer_functions: [{ADD}]}}
applications:
  - {{name: filed, import_path: "greeter_app:other", route_prefix: null}}
""")
    done = subprocess.run([sys.executable, "-m", "anyserve.serve.cli", "deploy", str(tmp_path / "serve.yaml")], text=True,
                          capture_output=True, cwd=paths.E2E / "user_grpc")  # fmt: skip
    assert done.returncode == 0, done.stderr
    wait.until(lambda: grpc_server.serve.status().applications["filed"].status.value == "RUNNING", "the application")
    assert hello(grpc_server, "filed") == "other x"


def test_a_service_that_one_application_has(grpc_server):
    from anyserve.serve._driver.current import driver

    import greeter_app

    before = driver.grpc_servicer_functions
    driver.grpc_servicer_functions = ["greeter_pb2_grpc.add_NumbersServicer_to_server"]
    try:
        @grpc_server.serve.deployment
        class Numbers:
            def Next(self, request):
                return greeter_app.pb.Greeting(number=request.number + 1)

        grpc_server.serve.run(Numbers.bind(), name="numbers", route_prefix=None)
    finally:
        driver.grpc_servicer_functions = before
    stub = grpc_server.stubs.NumbersStub(grpc_server.channel)
    assert stub.Next(grpc_server.pb.Name(number=1), timeout=60).number == 2  # no metadata is needed
    with pytest.raises(grpc_server.grpc.RpcError) as e:
        hello(grpc_server, "numbers")
    assert e.value.code().name == "UNIMPLEMENTED"
    grpc_server.serve.delete("numbers")
    with pytest.raises(grpc_server.grpc.RpcError) as e:
        stub.Next(grpc_server.pb.Name(number=1), timeout=60)
    assert e.value.code().name == "UNIMPLEMENTED"


@pytest.mark.parametrize("path, why", [
    ("no_such_module.add", "no_such_module.add can't be imported!"),
    ("greeter_pb2_grpc.nothing", "greeter_pb2_grpc.nothing is not a callable function!"),
    ("nothing", "is no import path of a function"),
])  # fmt: skip
def test_functions_that_are_none(grpc_server, path, why):
    from anyserve.serve._driver.current import driver

    import greeter_app

    before = driver.grpc_servicer_functions
    driver.grpc_servicer_functions = [path]
    try:
        with pytest.raises(RuntimeError) as e:
            grpc_server.serve.run(greeter_app.other, name="wrong", route_prefix=None)
    finally:
        driver.grpc_servicer_functions = before
    assert why in str(e.value)


def test_a_message_that_inflates_to_too_much(grpc_server):
    """64 MiB is the default of --max-inflated-bytes."""
    with pytest.raises(grpc_server.grpc.RpcError) as e:
        grpc_server.greeter.Hello(grpc_server.pb.Name(data=bytes(64 << 20)), metadata=[("application", "first")], timeout=60,
                                  compression=grpc_server.grpc.Compression.Gzip)  # fmt: skip
    assert e.value.code().name == "RESOURCE_EXHAUSTED" and "--max-inflated-bytes" in e.value.details()

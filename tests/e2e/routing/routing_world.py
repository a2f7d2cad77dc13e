"""A server with the applications of routing_app.py, and requests to them."""

import contextlib
import json
import os
import threading
import urllib.parse
from pathlib import Path

from support import deployments, paths, wait
from support.protocol import http

HERE = Path(__file__).parent


class Routing:
    def __init__(self, server, folder, protos):
        self.server, self.folder, self.protos = server, folder, protos
        self.more = ()  # further applications

    def spec(self, replicas, options):
        common = {"working_dir": str(HERE), "env": {"LOADS": str(self.folder / "loads"), "PYTHONPATH": os.pathsep.join(
            [str(self.protos), str(paths.SDK)])}}  # fmt: skip
        return {"applications": [
            {"name": "models", "import_path": "routing_app:models", "route_prefix": "/models",
             "grpc_servicer_functions": ["greeter_pb2_grpc.add_GreeterServicer_to_server"],
             "deployments": [{"name": "Models", "num_replicas": replicas, **options}], **common},
            {"name": "front", "import_path": "routing_app:front", "route_prefix": "/front",
             "deployments": [{"name": "Front", "max_ongoing_requests": 100}], **common},
            *[{"name": name, "import_path": f"routing_app:{name}", "route_prefix": f"/{name}", **common} for name in self.more]]}

    def put(self, replicas=3, **options):
        """The HTTP status and text, or the changes, of a deploy."""
        return deployments.api(self.server, "PUT", deployments.APPLICATIONS, self.spec(replicas, options))

    def deploy(self, replicas=3, **options):
        status, answer = self.put(replicas, **options)
        assert status == 200, answer
        deployments.healthy(self.server, "Models", replicas, "models")
        deployments.healthy(self.server, "Front", 1, "front")
        return answer

    def get(self, path="/models", version="h1", **headers):
        """The answer's JSON. headers: with '_' for '-'."""
        with contextlib.closing(http.CLIENTS[version](self.server.host, self.server.port)) as c:
            reply = c.request("GET", path, headers=[(k.replace("_", "-"), v) for k, v in headers.items()])
        assert reply.status == 200, (reply.status, reply.body)
        return reply.json()

    def model(self, model_id):
        return self.get(serve_multiplexed_model_id=model_id)

    def session(self, session):
        return self.get(x_session_id=session)

    def call(self, **options):
        """By a handle with these options."""
        return self.get("/front?" + urllib.parse.urlencode(options))

    def grpc(self, **metadata):
        import greeter_pb2 as pb
        import greeter_pb2_grpc as stubs
        import grpc

        with grpc.insecure_channel(self.server.address) as channel:
            reply = stubs.GreeterStub(channel).Hello(pb.Name(name="x"), timeout=wait.SECONDS, metadata=[
                ("application", "models"), *((k.replace("x_", "x-"), v) for k, v in metadata.items())])  # fmt: skip
        return json.loads(reply.text)

    def begin(self, **given):
        """A request that waits in its handler; (the FIFO that lets it go, the answer later)."""
        gate = str(self.folder / f"gate-{len(os.listdir(self.folder))}")
        os.mkfifo(gate)
        return gate, Later(lambda: self.get("/models?gate=" + urllib.parse.quote(gate, safe=""), **given))

    def loads(self):
        file = self.folder / "loads"
        return file.read_text().split() if file.exists() else []

    def router(self):
        return self.server.deployment("Models")["router"]

    def replicas(self):
        return {r["name"]: r for r in self.server.status()["replicas"] if r["deployment"] == "Models"}

    def wait_for(self, **fields):
        """Until the deployment has these numbers in its status."""
        def is_so():
            d = self.server.deployment("Models")
            return all(d.get(k, d["router"].get(k)) == v for k, v in fields.items())
        wait.until(is_so, lambda: self.server.deployment("Models"))


class Later:
    """The result of a function that runs in a thread."""

    def __init__(self, function):
        self._thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        self._thread.start()

    def _run(self, function):
        try:
            self.value, self.error = function(), None
        except BaseException as e:
            self.error = e

    def is_done(self):
        return not self._thread.is_alive()

    def result(self):
        self._thread.join(wait.SECONDS)
        assert self.is_done(), "no answer"
        if self.error:
            raise self.error
        return self.value


def open_gate(gate):
    """Lets the request go that waits at the FIFO, when it does."""
    with open(gate, "w") as f:
        f.write("go")

"""The management service as a worker sees it: gRPC by grpcio, JSON over HTTP/1.1, both over TCP or management.sock."""

import functools
import http.client
import json
import os
import tempfile
from pathlib import Path

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

from .. import paths, wait
from . import oip
from .http import Unix

PROTO = paths.ROOT / "proto/worker_management.proto"
SERVICE = "anyserve.WorkerManagement"
RPCS = ("RegisterModel", "UnregisterModel", "Heartbeat")


@functools.cache
def messages():
    """Name → message class."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "set")
        assert protoc.main(["", f"-I{PROTO.parent}", f"--descriptor_set_out={out}", PROTO.name]) == 0
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    pool = descriptor_pool.DescriptorPool()
    for f in files:
        pool.AddSerializedFile(f.SerializeToString())
    found = message_factory.GetMessageClassesForFiles([f.name for f in files], pool)
    return {name.removeprefix("anyserve."): cls for name, cls in found.items()}


def unix_path(server):
    return os.path.join(server.folder_of_port(), "management.sock")


class Grpc:
    """address: "127.0.0.1:9000", or a path."""

    def __init__(self, address, token=None):
        target = f"unix:{address}" if address.startswith("/") else address
        self.channel = grpc.insecure_channel(target, oip.UNLIMITED)
        self.metadata = [("authorization", f"Bearer {token}")] if token is not None else []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def send(self, rpc, request, metadata=None):
        """request: a message, or its bytes. An error is raised as grpc.RpcError."""
        call = self.channel.unary_unary(
            f"/{SERVICE}/{rpc}", lambda m: m if isinstance(m, bytes) else m.SerializeToString(),
            messages()[rpc + "Response"].FromString)
        return call(request, timeout=oip.SECONDS, metadata=self.metadata if metadata is None else metadata)

    def call(self, rpc, **fields):
        return self.send(rpc, messages()[rpc + "Request"](**fields))

    def refused(self, rpc, request=None, metadata=None, **fields):
        """(status code, text)."""
        try:
            got = self.send(rpc, messages()[rpc + "Request"](**fields) if request is None else request, metadata)
        except grpc.RpcError as e:
            return e.code(), e.details()
        raise AssertionError(f"{rpc} was answered: {got}")


class Refused(Exception):
    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status, self.text = status, text


class Json:
    """The JSON calls over management.sock, on one connection."""

    def __init__(self, server):
        self.folder = server.folder_of_port()
        self.connection = Unix(unix_path(server))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def call(self, rpc, **body):
        self.connection.request("POST", f"/{SERVICE}/{rpc}", json.dumps(body))
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise Refused(response.status, answer["error"])
        return answer

    def socket_of(self, worker):
        return os.path.join(self.folder, "workers", worker + ".sock")

    def register(self, worker, model, path=None, **options):
        return self.call("RegisterModel", worker_id=worker, model_name=model, options=options,
                         worker_address="unix://" + (path or self.socket_of(worker)))

    def unregister(self, worker, model):
        return self.call("UnregisterModel", worker_id=worker, model_name=model)

    def beat(self, worker):
        return self.call("Heartbeat", worker_id=worker)["healthy"]


def post(address, rpc, body, headers=None, method="POST", path=None):
    """(status, headers, JSON) of one call; body: an object, or bytes."""
    if address.startswith("/"):
        conn = Unix(address)
    else:
        conn = http.client.HTTPConnection(address, timeout=wait.SECONDS)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        conn.request(method, path or f"/{SERVICE}/{rpc}", data, headers or {})
        got = conn.getresponse()
        text = got.read()
        return got.status, {k.lower(): v for k, v in got.getheaders()}, json.loads(text) if text else None
    finally:
        conn.close()

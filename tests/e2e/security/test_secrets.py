"""Keys, tokens and private keys are where they belong, and nowhere else: not in logs, metrics, status, answers, files or the
process table, and not in the memory of processes that need none."""

import asyncio
import contextlib
import json
import re
import socket
import ssl
import subprocess
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from security.certificates import Authority
from support import paths, ports, wait
from support.protocol import oip

pytestmark = pytest.mark.core
HERE = Path(__file__).parent
FILE = f"""
applications:
  - {{name: models, import_path: "keyed:app", working_dir: "{HERE}"}}
  - {{name: shop, import_path: "keyed:shop", working_dir: "{HERE}", route_prefix: /shop}}
"""
KEYS = {"all": [], "limited": ["--models", "iris"], "rated": ["--rate", "1/h", "--burst", "1"], "old": ["--expires", "2001-01-01"],
        "revoked": []}  # fmt: skip
MANAGEMENT, CONTROL, WRONG = "management-" + "m" * 30, "control-" + "c" * 30, "as_" + "WrOnG-" * 7 + "A"
BODY = json.dumps({"inputs": [{"name": "x", "datatype": "INT64", "shape": [2], "data": [1, 2]}]})


def run(*args, code=0):
    done = subprocess.run([str(a) for a in args], capture_output=True, timeout=wait.SECONDS)
    assert code is None or done.returncode == code, done
    return done.stdout + done.stderr


class Secrets:
    def __init__(self, folder):
        self.folder, self.authority, self.file = folder, Authority(folder), folder / "keys"
        self.pair = self.authority.server()
        self.keys = {name: run(paths.BINARY, "keys", "add", name, "--file", self.file, *more).decode().strip()
                     for name, more in KEYS.items()}
        run(paths.BINARY, "keys", "revoke", "revoked", "--file", self.file)
        for name, token in ("management", MANAGEMENT), ("control", CONTROL):
            (folder / name).write_text(token + "\n")
            (folder / name).chmod(0o600)
        (folder / "mine").write_text(self.keys["all"] + "\n")

    def texts(self):
        """Name → what must not be found."""
        pem = self.pair.key.read_text().splitlines()[1:-1]
        return {"management": MANAGEMENT, "control": CONTROL, "wrong": WRONG, "wrong token": "x" + MANAGEMENT[1:], **self.keys,
                **{f"line {i} of the private key": line for i, line in enumerate(pem)}}

    def found(self, data):
        return [name for name, text in self.texts().items() if text.encode() in data]


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    return Secrets(tmp_path_factory.mktemp("secrets"))


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def server(serve_module, secrets, state):
    applications = secrets.folder / "applications.yaml"
    applications.write_text(FILE)
    port = ports.free()
    s = serve_module(applications, *secrets.pair.options, "--api-keys", secrets.file, "--management", "127.0.0.1:0",
                     "--management-token-file", secrets.folder / "management", "--control", "127.0.0.1:0", "--control-token-file",
                     secrets.folder / "control", "--status-tls", "--status-keys", "--status-port", port, "--metrics-on-client-port",
                     "--log-level", "debug", "--allow-client-control", "--state-dir", state, verb="start")  # fmt: skip
    s.status_port = port
    s.management, s.control = (re.search(rf"  {n} +(\S+)  ", s.log.text())[1] for n in ("management", "control"))
    wait.until(s.all_ready, s.log.text)
    return s


def ask_http(server, secrets):
    """Answers of all ports over HTTP/1.1 and HTTP/2, with every secret in every field where one may be."""
    tls = ["--cacert", secrets.authority.cert]
    client, status = f"https://localhost:{server.port}", f"https://localhost:{server.status_port}"
    out = run("curl", "-sSi", *tls, client + "/v2/models/iris")
    for version in "--http1.1", "--http2":
        for text in (*secrets.keys.values(), WRONG, MANAGEMENT, "short"):
            for header in "authorization: Bearer " + text, "x-api-key: " + text:
                def curl(url, *more, header=header, version=version, code=0):
                    return run("curl", "-sSi", version, "-H", header, *tls, url, *more, code=code)

                for path in "/shop/x", "/v2/models/fields/infer", "/v2/models/iris/infer", "/v2/models/iris/generate":
                    out += curl(client + path, "-d", BODY)
                for body in "{", '{"inputs": 1}', "x" * 100:
                    out += curl(client + "/v2/models/iris/infer", "-d", body)
                for path in "/none", "/openapi.json", "/-/routes", "/metrics", "/v2/repository/index", "/":
                    out += curl(client + path) + curl(client + path, "-X", "DELETE")
                out += curl(client + "/v2/logging", "-d", "{") + curl(status + "/metrics") + curl(status + "/none")
                out += curl(client + "/v2/models/iris", "-H", "x-api-key: " + WRONG)
                out += curl(client + "/v2/models/iris", "-H", "x-long: " + "y" * 100000, code=None)  # the connection ends
    for token in MANAGEMENT, CONTROL, WRONG, "x" + MANAGEMENT[1:]:
        for address in server.management, server.control:
            for path in "/v2/health/live", "/api/serve/applications/", "/none":
                out += run("curl", "-sSi", "-H", f"authorization: Bearer {token}", f"http://{address}{path}")
    return out


def ask_grpc(server, secrets):
    channel = grpc.secure_channel(f"localhost:{server.port}", grpc.ssl_channel_credentials(secrets.authority.cert.read_bytes()))
    infer = oip.infer_request("iris", {"x": np.array([5])})
    calls = [(channel.unary_unary, "/inference.GRPCInferenceService/ModelInfer", infer),
             (channel.unary_unary, "/inference.GRPCInferenceService/ModelInfer", oip.infer_request("fields", {})),
             (channel.unary_unary, "/inference.GRPCInferenceService/ModelInfer", oip.infer_request("none", {"x": np.array([5])})),
             (channel.unary_unary, "/inference.GRPCInferenceService/None", infer),
             (channel.unary_unary, "/grpc.health.v1.Health/Check", health_pb2.HealthCheckRequest(service="iris")),
             (channel.stream_stream, "/inference.GRPCInferenceService/ModelStreamInfer", [infer, infer])]
    out = b""
    with channel:
        for text in (*secrets.keys.values(), WRONG):
            for metadata in [("authorization", f"Bearer {text}")], [("x-api-key", text)], [("x-api-key", text), ("x-api-key", WRONG)]:
                for kind, path, request in calls:
                    call = kind(path, lambda m: m.SerializeToString(), bytes)
                    try:
                        if kind == channel.stream_stream:
                            out += b"".join(call(iter(request), metadata=metadata, timeout=wait.SECONDS))
                        else:
                            out += call(request, metadata=metadata, timeout=wait.SECONDS)
                    except grpc.RpcError as e:
                        out += repr((e.code(), e.details(), e.initial_metadata(), e.trailing_metadata())).encode()
    return out


async def talk(server, secrets, text):
    try:
        async with connect(f"wss://localhost:{server.port}/shop/ws", ssl=ssl.create_default_context(cafile=secrets.authority.cert),
                           additional_headers={"x-api-key": text}, open_timeout=wait.SECONDS) as ws:
            await ws.send("hello")
            return await ws.recv()
    except InvalidStatus as e:
        return repr(e.response)


def ask_websocket(server, secrets):
    """By one thread: two threads of a client of websockets.sync use one TLS session, which Python 3.11 does not guard."""
    return "".join(asyncio.run(talk(server, secrets, text)) for text in (*secrets.keys.values(), WRONG)).encode()


def ask_badly(server, secrets):
    """Requests that break off or are malformed, with a key in them, and clear text on the port of TLS."""
    out = b""
    context = ssl.create_default_context(cafile=secrets.authority.cert)
    head = f"GET /v2/models/iris HTTP/1.1\r\nHost: localhost\r\nx-api-key: {secrets.keys['all']}\r\n"
    for text in head + "bad header\r\n\r\n", head + "Content-Length: x\r\n\r\n", head + "Transfer-Encoding: chunked\r\n\r\nZ", head, \
            head.replace("x-api-key", "x api key") + "\r\n", head.replace("HTTP/1.1", "HTTP/7.1") + "\r\n":  # fmt: skip
        for secure in True, False:
            s = socket.create_connection(("127.0.0.1", server.port), wait.SECONDS)
            with context.wrap_socket(s, server_hostname="localhost") if secure else s as s, contextlib.suppress(OSError):
                s.sendall(text.encode())
                if text is head and secure:
                    continue
                s.shutdown(socket.SHUT_WR)
                while received := s.recv(65536):
                    out += received
    return out


def ask_by_commands(server, secrets):
    out = b""
    where = ["--url", f"https://localhost:{server.port}", "--ca", secrets.authority.cert, "--api-key-file", secrets.folder / "mine"]
    for command, more in ("infer", []), ("bench", ["--requests", 5, "--warmup", "off"]):
        for protocol in "grpc", "http":
            out += run(paths.BINARY, command, "iris", "--input", "x=1,2", "--protocol", protocol, *where, *more)
        out += run(paths.BINARY, command, "none", "--input", "x:INT64=1,2", *where, *more, code=None)
    return out


@pytest.fixture(scope="module")
def answers(server, secrets):
    """All that clients got; the secrets have been everywhere where clients can send them."""
    out = b"".join(ask(server, secrets) for ask in (ask_http, ask_grpc, ask_websocket, ask_badly, ask_by_commands))
    for said in (b'"outputs"', b"needs an API key", b"is not valid", b"has expired", b"may not be used", b"has reached its rate",
                 b"wrong token", b"anyserve_api_key_refusals_total"):
        assert said in out  # each kind of answer is there
    return out


def test_answers(answers, secrets):
    assert secrets.found(answers) == []
    assert secrets.found(answers + secrets.keys["limited"].encode()) == ["limited"]  # the test can fail


def test_what_the_server_writes_and_shows(answers, server, secrets):
    out = server.log.text().encode()
    for event in b"api_key_refused", b"management_refused", b"control_refused":
        assert event in out
    for path in "/metrics", "/status", "/status?format=text", "/workers", "/-/routes":
        out += server.get(path)[1].encode()
    at = ["--runtime-dir", server.runtime, "--port", server.port]
    for command in ["status"], ["status", "--json"], ["doctor"], ["doctor", "--json"], ["logs", "--lines", "100000"], ["workers"]:
        out += run(paths.BINARY, *command, *at, code=None)
    assert b"key=limited" in out
    assert secrets.found(out) == []


def test_the_process_table(answers, server, secrets):
    pids = server.family()
    assert {server.supervisor, server.dispatcher, server.controller, *server.worker_pids()} <= set(pids)
    out = b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for pid in pids for name in ("cmdline", "environ", "comm"))
    assert b"--api-keys" in out and secrets.found(out) == []


def test_files(answers, server, secrets, state):
    """Of the runtime folder, with its journals, and of the folder of the state."""
    files = [p for folder in (server.folder, state) for p in Path(folder).rglob("*") if p.is_file() and not p.is_symlink()]
    assert {"state.db", "join-token"} <= {p.name for p in files}
    for path in files:
        assert secrets.found(path.read_bytes()) == [], path
    assert secrets.found(secrets.file.read_bytes()) == []  # digests only


def memory(pid):
    """What it may write to, in pieces."""
    with open(f"/proc/{pid}/mem", "rb", 0) as f:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if found := re.match(r"(\w+)-(\w+) rw", line):
                start, end = (int(n, 16) for n in found.groups())
                if end - start > 1 << 30:  # AddressSanitizer's shadow: terabytes, and no bytes of the program
                    continue
                f.seek(start)
                with contextlib.suppress(OSError):  # it has been unmapped, or is a device
                    yield f.read(end - start)


@pytest.mark.skipif(paths.SANITIZED, reason="a sanitizer's shadow memory is too large to be read")
def test_memory_of_processes_that_need_no_key(answers, server, secrets):
    """Workers run the users' code, and may leave core files. The supervisor has checked the files at the start, and may have
    left-overs of them (docs/OPERATING.md)."""
    tokens = {"management", "control", "wrong", "wrong token"}  # those that were sent to the controller's port
    for pid in server.controller, *server.worker_pids():
        try:
            found = {name for piece in memory(pid) for name in secrets.found(piece)}
        except PermissionError:
            pytest.skip("the memory of another process cannot be read here")
        assert found - (tokens if pid == server.controller else set()) == set(), pid
        assert pid != server.controller or "control" in found  # it is looked at, and this one needs it


def test_core_files_are_forbidden_where_secrets_are(answers, server):
    for pid in server.supervisor, server.dispatcher, server.controller:
        assert re.search(r"^Max core file size +[01] ", Path(f"/proc/{pid}/limits").read_text(), re.M)

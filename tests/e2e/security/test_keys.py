"""API keys: --api-keys and `anyserve keys`, with curl, httpx, grpcio, tritonclient and websockets."""

import hashlib
import json
import os
import queue
import re
import signal
import stat
import subprocess
import threading
from pathlib import Path

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from grpc_health.v1 import health_pb2
from support import paths, wait
from support.process import procs
from support.protocol import oip
from support.protocol.websocket import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

pytestmark = pytest.mark.core
HERE = Path(__file__).parent
KEY = re.compile(r"as_[A-Za-z0-9_-]{43}\n")
WRONG = "as_" + "A" * 43
FILE = f"""
applications:
  - {{name: models, import_path: "keyed:app", working_dir: "{HERE}"}}
  - {{name: shop, import_path: "keyed:shop", working_dir: "{HERE}", route_prefix: /shop}}
  - {{name: blog, import_path: "keyed:blog", working_dir: "{HERE}", route_prefix: /blog}}
"""
LIMITED = ("--models", "iris,sl*", "--applications", "shop", "--tenant", "red")


def command(*args, code=0):
    r = subprocess.run([paths.BINARY, "keys", *map(str, args)], capture_output=True, text=True, timeout=wait.SECONDS)
    assert r.returncode == code, r
    return r


def add(file, name, *options):
    out = command("add", name, "--file", file, *options).stdout
    assert KEY.fullmatch(out)
    return out.strip()


class Keyed:
    """A server, its file of keys, and the keys by name."""

    def __init__(self, server, file, keys):
        self.server, self.file, self.keys = server, file, keys
        self.url = f"http://{server.address}"

    def ask(self, path, key=None, method="GET", headers=None, **more):
        fields = {**({"authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
        return httpx.request(method, self.url + path, headers=fields, timeout=wait.SECONDS, **more)

    def infer(self, model, key=None, values=(1, 2), **more):
        body = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [len(values)], "data": list(values)}]}
        return self.ask(f"/v2/models/{model}/infer", key, "POST", json=body, **more)

    def code(self, name, request, key=None, **more):
        """The status and the text of a call of GRPCInferenceService."""
        metadata = [("authorization", f"Bearer {key}")] if key else []
        with oip.Client(self.server.address) as c:
            try:
                c.call(name, request, metadata=metadata, **more)
            except grpc.RpcError as e:
                return e.code(), e.details()
        return grpc.StatusCode.OK, ""

    def health(self, service, key=None, method="Check"):
        metadata = [("x-api-key", key)] if key else []
        with grpc.insecure_channel(self.server.address) as channel:
            call = channel.unary_unary(f"/grpc.health.v1.Health/{method}", lambda m: m.SerializeToString(), bytes)
            try:
                return call(health_pb2.HealthCheckRequest(service=service), metadata=metadata, timeout=wait.SECONDS)
            except grpc.RpcError as e:
                return e.code()

    def stream(self, client, requests, key):
        call = client.channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer", lambda m: m if isinstance(m, bytes) else m.SerializeToString(),
                                            oip.messages()["ModelStreamInferResponse"].FromString)  # fmt: skip
        return call(requests, timeout=wait.SECONDS, metadata=[("x-api-key", key)])

    def refusals(self):
        return dict(re.findall(r'^anyserve_api_key_refusals_total\{reason="(\w+)"\} (\d+)', self.server.metrics(), re.M))

    def change(self, do):
        """Changes the file, and waits until the server has read it."""
        since = len(self.server.log.lines)
        result = do()
        self.server.log.wait("keys_reloaded", since)
        return result


@pytest.fixture(scope="module")
def keyed(serve_module, tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    file = folder / "keys"
    keys = {"all": add(file, "all"), "limited": add(file, "limited", *LIMITED),
            "old": add(file, "old", "--expires", "2001-01-01"), "slow": add(file, "slow", "--in-flight", "1"),
            "rated": add(file, "rated", "--rate", "2/h", "--burst", "2"),
            "streaming": add(file, "streaming", "--rate", "3/h", "--burst", "3"),
            "checking": add(file, "checking", "--rate", "2/h", "--burst", "2"),
            "trying": add(file, "trying", *LIMITED, "--rate", "4/h", "--burst", "4"),
            "inputs": add(file, "inputs", "--rate", "3/h", "--burst", "3", "--in-flight", "4")}  # fmt: skip
    applications = folder / "applications.yaml"
    applications.write_text(FILE)
    server = serve_module(applications, "--api-keys", file, "--threads", "2", "--metrics-on-client-port",
                          "--state-dir", folder / "state", verb="start")  # fmt: skip
    server.expected += ["keys_reload_failed"]
    k = Keyed(server, file, keys)
    wait.until(lambda: k.ask("/shop/x", keys["all"]).status_code == 200, lambda: server.log.text())
    wait.until(lambda: k.ask("/blog/x", keys["all"]).status_code == 200, lambda: server.log.text())
    return k


class TestWho:
    @pytest.mark.parametrize("path", ["/", "/v2", "/v2/models/iris", "/v2/models/none", "/shop/x", "/none", "/openapi.json",
                                      "/-/routes", "/metrics", "/v2/models/stats"])  # fmt: skip
    @pytest.mark.parametrize("key", [None, WRONG, "short", "old"])
    def test_nothing_without_a_valid_key(self, keyed, path, key):
        r = keyed.ask(path, keyed.keys.get(key, key))
        assert r.status_code == 401 and r.headers["www-authenticate"] == "Bearer"
        text = r.json()["error"]
        assert text == {None: "this server needs an API key: send one as 'authorization: Bearer KEY' or 'x-api-key: KEY'",
                        "old": "the API key has expired: ask for a new one"}.get(
            key, "the API key is not valid: ask for one, and send one as 'authorization: Bearer KEY' or 'x-api-key: KEY'")

    @pytest.mark.parametrize("headers", [{"authorization": "bearer  {}"}, {"x-api-key": "{}"}, {"X-API-Key": "{}"},
                                         {"x-api-key": "{}", "authorization": "Basic eDp5"}])  # fmt: skip
    def test_where_a_key_may_be(self, keyed, headers):
        headers = {k: v.format(keyed.keys["all"]) for k, v in headers.items()}
        assert keyed.infer("iris", headers=headers).json()["outputs"][0]["data"] == [1, 2]

    def test_two_different_keys_are_none(self, keyed):
        assert keyed.infer("iris", keyed.keys["all"], headers={"x-api-key": keyed.keys["limited"]}).status_code == 401
        assert keyed.infer("iris", keyed.keys["all"], headers={"x-api-key": keyed.keys["all"]}).status_code == 200

    @pytest.mark.parametrize("fields, status", [
        ("12", 401), ("122", 401), ("121", 401), ("1222", 401), ("1o2", 401), ("o12", 401), ("11", 200), ("1o1", 200), ("op1", 200),
        ("1op", 200), ("op", 401), ("opp", 401), ("o", 401)])  # fmt: skip
    def test_different_keys_are_none_however_often(self, keyed, fields, status):
        """Of two keys, and two texts that have not the form of one, which may be the application's."""
        texts = {"1": keyed.keys["all"], "2": keyed.keys["limited"], "o": "other", "p": "another"}
        for first in "x-api-key", "authorization":
            headers = [("x-api-key", texts[f]) for f in fields]
            if first == "authorization":
                headers[0] = (first, f"Bearer {texts[fields[0]]}")
            assert httpx.get(f"{keyed.url}/v2/models/iris", headers=headers, timeout=wait.SECONDS).status_code == status

    def test_curl(self, keyed):
        out = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"x-api-key: {keyed.keys['all']}",
                              keyed.url + "/v2/models/iris"], capture_output=True, text=True, timeout=wait.SECONDS)  # fmt: skip
        assert out.stdout == "200"

    def test_grpc(self, keyed):
        request = oip.infer_request("iris", {"x": np.array([5])})
        assert keyed.code("ModelInfer", request)[0] == grpc.StatusCode.UNAUTHENTICATED
        assert keyed.code("ModelInfer", request, WRONG)[0] == grpc.StatusCode.UNAUTHENTICATED
        assert keyed.code("ModelInfer", request, keyed.keys["old"])[0] == grpc.StatusCode.UNAUTHENTICATED
        assert keyed.code("ModelInfer", request, keyed.keys["all"])[0] == grpc.StatusCode.OK

    def test_tritonclient(self, keyed):
        headers = {"authorization": f"Bearer {keyed.keys['limited']}"}
        for module in tritonclient.grpc, tritonclient.http:
            c = module.InferenceServerClient(keyed.server.address)
            x = module.InferInput("x", [2], "INT64")
            x.set_data_from_numpy(np.array([3, 4]))
            assert c.infer("iris", [x], headers=headers).as_numpy("x").tolist() == [3, 4]
            with pytest.raises(Exception, match="may not be used"):
                c.infer("secret", [x], headers=headers)
            with pytest.raises(Exception, match="needs an API key"):
                c.infer("iris", [x])
            c.close()

    def test_probes_are_open(self, keyed):
        for path in "/v2/health/live", "/v2/health/ready", "/-/healthz":
            assert keyed.ask(path).status_code == 200
            assert keyed.ask(path, WRONG).status_code == 200
            assert keyed.ask(path, method="HEAD").status_code == 200
        for name in "ServerLive", "ServerReady":
            assert keyed.code(name, None)[0] == grpc.StatusCode.OK
        assert keyed.health("") == keyed.health("inference.GRPCInferenceService") == b"\x08\x01"
        assert keyed.health("iris") == keyed.health("none") == grpc.StatusCode.UNAUTHENTICATED
        assert keyed.health("iris", keyed.keys["old"]) == grpc.StatusCode.UNAUTHENTICATED
        assert keyed.health("iris", keyed.keys["limited"]) == b"\x08\x01"
        assert keyed.health("secret", keyed.keys["limited"]) == keyed.health("none", keyed.keys["limited"])
        assert keyed.health("secret", keyed.keys["limited"]) == grpc.StatusCode.PERMISSION_DENIED


class TestWhat:
    def test_the_same_text_whether_it_exists_or_not(self, keyed):
        key, answers = keyed.keys["limited"], set()
        for model in "secret", "none":
            for path in "", "/ready", "/config", "/stats", "/trace/setting":
                r = keyed.ask(f"/v2/models/{model}{path}", key)
                answers.add((r.status_code, r.text))
            answers.add((keyed.infer(model, key).status_code, keyed.infer(model, key).text))
            r = keyed.ask(f"/v2/repository/models/{model}/unload", key, "POST")
            answers.add((r.status_code, r.text))
        for path in "/blog/x", "/none", "/shopper":
            r = keyed.ask(path, key)
            answers.add((r.status_code, r.text))
        assert answers == {(403, '{"error":"this API key may not be used for that: ask for a key that may"}')}
        assert keyed.ask("/v2/models/slug", key).status_code == 404  # its pattern is the key's

    def test_the_same_over_grpc(self, keyed):
        key, answers = keyed.keys["limited"], set()
        for model in "secret", "none":
            answers.add(keyed.code("ModelInfer", oip.infer_request(model, {"x": np.array([5])}), key))
            for name in "ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics":
                answers.add(keyed.code(name, oip.message(f"{name}Request", name=model), key))
            answers.add(keyed.code("RepositoryModelUnload", oip.message("RepositoryModelUnloadRequest", model_name=model), key))
        assert answers == {(grpc.StatusCode.PERMISSION_DENIED, "this API key may not be used for that: ask for a key that may")}

    @pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "OPTIONS", "NONE"])
    @pytest.mark.parametrize("headers", [{}, {"content-type": "application/grpc"}, {"content-encoding": "none"}, {"grpc-timeout": "soon"},
                                         {"connection": "upgrade", "upgrade": "websocket"}, {"content-length": "1"}], ids=str)  # fmt: skip
    def test_an_application_looks_like_a_path_that_is_unknown(self, keyed, method, headers):
        answers = []
        for path in "/blog/x", "/none":
            r = keyed.ask(path, keyed.keys["limited"], method, headers, content=b"x" if "content-length" in headers else None)
            answers.append((r.status_code, r.text, {k: v for k, v in r.headers.items() if k not in ("date", "x-request-id")}))
        assert answers[0] == answers[1] and answers[0][0] == 403

    @pytest.mark.parametrize("verb", ["Load", "Unload"])
    def test_a_shared_model_is_changed_by_unrestricted_keys_only(self, keyed, verb):
        """Not even a model that the key may use: other clients use it, too."""
        allowed, denied = "the server runs without --allow-client-control", "this API key may not be used for that"
        for name, text in ("all", allowed), ("limited", denied):
            r = keyed.ask(f"/v2/repository/models/iris/{verb.lower()}", keyed.keys[name], "POST")
            assert r.status_code == 403 and text in r.json()["error"]
            request = oip.message(f"RepositoryModel{verb}Request", model_name="iris")
            code, details = keyed.code(f"RepositoryModel{verb}", request, keyed.keys[name])
            assert code == grpc.StatusCode.PERMISSION_DENIED and text in details

    def test_lists_have_only_what_may_be_used(self, keyed):
        def names(path, **more):
            return re.findall(r"\b(iris|secret|fields|slow|shop|blog)\b", keyed.ask(path, keyed.keys["limited"], **more).text)

        assert set(names("/v2/repository/index", method="POST")) == {"iris", "slow"}
        assert set(names("/v2/models/stats")) == {"iris", "slow"}
        assert set(names("/openapi.json")) == {"iris", "slow"}
        assert set(names("/")) == {"iris", "slow"} and "serves 2 models" in keyed.ask("/", keyed.keys["limited"]).text
        assert set(names("/-/routes")) == {"shop"}
        assert "serves 5 models" in keyed.ask("/", keyed.keys["all"]).text
        assert json.loads(keyed.ask("/-/routes", keyed.keys["all"]).text) == {"/shop": "shop", "/blog": "blog"}

    def test_lists_over_grpc(self, keyed):
        listed = keyed.health("", keyed.keys["limited"], "List")
        assert b"iris" in listed and b"slow" in listed and b"secret" not in listed
        assert b"secret" in keyed.health("", keyed.keys["all"], "List")
        assert keyed.health("", method="List") == grpc.StatusCode.UNAUTHENTICATED
        with oip.Client(keyed.server.address) as c:
            index = c.call("RepositoryIndex", metadata=[("x-api-key", keyed.keys["limited"])])
        assert {m.name for m in index.models} == {"iris", "slow"}

    @pytest.mark.parametrize("path", ["/metrics", "/v2/logging", "/v2/trace/setting", "/v2/systemsharedmemory/status"])
    def test_what_concerns_the_server_is_for_unrestricted_keys(self, keyed, path):
        assert keyed.ask(path, keyed.keys["limited"]).status_code == 403
        assert keyed.ask(path, keyed.keys["all"]).status_code == 200

    def test_the_same_of_grpc(self, keyed):
        for name in "LogSettings", "TraceSetting", "SystemSharedMemoryStatus":
            request = oip.message(f"{name}Request")
            assert keyed.code(name, request, keyed.keys["limited"])[0] == grpc.StatusCode.PERMISSION_DENIED
            assert keyed.code(name, request, keyed.keys["all"])[0] == grpc.StatusCode.OK

    def test_websockets(self, keyed):
        def open_with(path, key):
            return connect(keyed.server, path, additional_headers={"authorization": f"Bearer {key}"})

        with open_with("/shop/ws", keyed.keys["limited"]) as ws:
            ws.send("hello")
            assert ws.recv(wait.SECONDS) == "hello"
        for path, key, status in ("/shop/ws", WRONG, 401), ("/blog/ws", keyed.keys["limited"], 403):
            with pytest.raises(InvalidStatus) as e:
                open_with(path, key)
            assert e.value.response.status_code == status


class TestDocument:
    def test_openapi_says_how_to_send_a_key(self, keyed):
        document = keyed.ask("/openapi.json", keyed.keys["all"]).json()
        schemes = document["components"]["securitySchemes"]
        assert document["security"] == [{name: []} for name in schemes]
        assert [(s["type"], s.get("scheme"), s.get("in"), s.get("name")) for s in schemes.values()] == [
            ("http", "bearer", None, None), ("apiKey", None, "header", "x-api-key")]
        for path, methods in document["paths"].items():
            is_probe = path in ("/v2/health/live", "/v2/health/ready", "/-/healthz")
            assert all(("security" in operation) == is_probe for operation in methods.values()), path
            assert not is_probe or methods["get"]["security"] == []
            assert not is_probe or keyed.ask(path).status_code == 200

    def test_without_keys_it_says_nothing(self, serve):
        document = httpx.get(f"http://{serve('echo.py').address}/openapi.json", timeout=wait.SECONDS).json()
        assert "security" not in document and "securitySchemes" not in document["components"]


class TestHowMuch:
    def test_a_rate(self, keyed):
        key = keyed.keys["rated"]
        assert [keyed.infer("iris", key).status_code for _ in range(2)] == [200, 200]
        r = keyed.infer("iris", key)
        assert r.status_code == 429 and "has reached its rate" in r.json()["error"]
        assert 1700 < int(r.headers["retry-after"]) <= 1800
        assert keyed.ask("/shop/x", key).status_code == 429
        assert keyed.code("ModelInfer", oip.infer_request("iris", {"x": np.array([5])}), key)[0] == \
            grpc.StatusCode.RESOURCE_EXHAUSTED  # fmt: skip
        assert keyed.ask("/v2/health/ready", key).status_code == 200

    def test_in_flight(self, keyed, tmp_path):
        key, file = keyed.keys["slow"], tmp_path / "go"
        request = oip.infer_request("slow", {"x": oip.bytes_array([str(file).encode()])})
        with oip.Client(keyed.server.address) as c:
            first = c.method("ModelInfer").future(request, metadata=[("x-api-key", key)], timeout=wait.SECONDS)
            wait.until(lambda: keyed.infer("iris", key).status_code == 429, lambda: "the first is not there")
            r = keyed.infer("iris", key)
            assert r.status_code == 429 and r.headers["retry-after"] == "1"
            file.touch()
            first.result()
        wait.until(lambda: keyed.infer("iris", key).status_code == 200, lambda: "the first has not ended")

    def test_each_message_of_a_stream_counts(self, keyed):
        request = oip.infer_request("iris", {"x": np.array([5])})
        with oip.Client(keyed.server.address) as c:
            answers = list(keyed.stream(c, iter([request] * 5), keyed.keys["streaming"]))
        assert [bool(a.error_message) for a in answers] == [False] * 3 + [True] * 2
        assert "has reached its rate" in answers[3].error_message

    def test_a_check_of_a_model_is_a_request(self, keyed):
        key = keyed.keys["checking"]
        assert [keyed.health("", key) for _ in range(3)] == [b"\x08\x01"] * 3
        assert [keyed.health("iris", key) for _ in range(3)] == [b"\x08\x01"] * 2 + [grpc.StatusCode.RESOURCE_EXHAUSTED]
        assert keyed.health("", key) == b"\x08\x01"

    @pytest.mark.parametrize("key, reason", [(None, "missing"), (WRONG, "wrong"), ("old", "expired"), ("limited", "not_allowed")])
    def test_a_refusal_of_grpc_is_counted_once(self, keyed, key, reason):
        def differences(do):
            before = keyed.refusals()
            do()
            return {r: int(n) - int(before[r]) for r, n in keyed.refusals().items() if n != before[r]}

        key = keyed.keys.get(key, key)
        assert differences(lambda: keyed.health("secret", key)) == {reason: 1}
        assert differences(lambda: keyed.health("none", key, "Unknown")) == {reason: 1}

    def test_messages_of_a_stream_that_fail_count(self, keyed):
        x = {"x": np.array([5])}
        fail = [oip.infer_request("secret", x), oip.infer_request("none", x), oip.infer_request("slug", x), b"\xff"]
        with oip.Client(keyed.server.address) as c:
            answers = list(keyed.stream(c, iter([*fail, *fail[:3], oip.infer_request("iris", x, id="i")]), keyed.keys["trying"]))
        errors = [a.error_message for a in answers]
        assert errors[0] == errors[1] == "this API key may not be used for that: ask for a key that may"
        assert errors[2:4] == ["unknown model 'slug'", "malformed protobuf"]
        assert len(errors) == 8 and all("has reached its rate" in e for e in errors[4:])
        assert answers[7].infer_response.id == "i"

    def test_inputs_of_one_request_count_once(self, keyed):
        with oip.Client(keyed.server.address) as c:
            requests = [oip.infer_request("total", {"x": np.array([n])}) for n in range(1, 11)]
            (answer,) = keyed.stream(c, iter(requests), keyed.keys["inputs"])
            assert not answer.error_message
            requests = [*requests, *[oip.infer_request("iris", {"x": np.array([5])})] * 3]
            answers = [a.error_message for a in keyed.stream(c, iter(requests), keyed.keys["inputs"])]
        assert sorted(bool(e) for e in answers) == [False, False, True, True]  # 1 of total, and 1 of 3 of iris
        assert all("has reached its rate" in e for e in answers if e)

    def test_refusals_are_counted(self, keyed):
        before = keyed.refusals()
        for key in None, WRONG, keyed.keys["old"], keyed.keys["limited"], keyed.keys["rated"]:
            keyed.ask("/blog/x", key)
        after = keyed.refusals()
        assert set(after) == {"missing", "wrong", "expired", "not_allowed", "rate", "in_flight"}
        assert {r for r in after if int(after[r]) > int(before[r])} >= {"missing", "wrong", "expired", "not_allowed"}


class TestHeaders:
    def test_a_handler_does_not_get_the_key(self, keyed):
        key, other = keyed.keys["all"], {"x-other": "stays", "authorization": "Basic eDp5"}
        for headers in {"authorization": f"Bearer {key}", "x-other": "stays"}, {"x-api-key": key, **other}:
            got = keyed.ask("/shop/x", headers=headers).json()
            assert key not in json.dumps(got) and got["x-other"] == "stays"
            assert got.get("authorization") == (other["authorization"] if "x-api-key" in headers else None)
            assert "x-api-key" not in got
            body = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [1]}]}
            got = keyed.ask("/v2/models/fields/infer", method="POST", headers=headers, json=body)
            assert got.status_code == 200 and key not in got.text and "x-other" in got.text

    def test_an_application_may_have_keys_of_its_own(self, keyed):
        got = keyed.ask("/shop/x", keyed.keys["all"], headers={"x-api-key": "for-the-application"}).json()
        assert got["x-api-key"] == "for-the-application" and "authorization" not in got


class TestReload:
    def test_add_and_revoke_take_effect(self, keyed):
        key = keyed.change(lambda: add(keyed.file, "new"))
        assert keyed.infer("iris", key).status_code == 200
        requests = oip.infer_request("iris", {"x": np.array([5])})
        with oip.Client(keyed.server.address) as c:
            sent = queue.Queue()
            stream = keyed.stream(c, iter(sent.get, None), key)
            sent.put(requests)
            assert not next(stream).error_message
            keyed.change(lambda: command("revoke", "new", "--file", keyed.file))
            wait.until(lambda: keyed.infer("iris", key).status_code == 401, lambda: "still valid")
            sent.put(requests)
            assert "not valid" in next(stream).error_message
            sent.put(None)
            assert list(stream) == []
        assert keyed.infer("iris", keyed.keys["all"]).status_code == 200

    @pytest.mark.parametrize("how", ["revoked", "expired"])
    def test_a_websocket_ends_with_its_key(self, keyed, how):
        def closes():
            return keyed.ask("/shop/closes", keyed.keys["all"]).json()

        def change_line():
            """Gives the key's line another expiry, and another key's a tenant."""
            text = re.sub(r"(name=ends .*) expires=\S+", r"\1 expires=2001-01-01T00:00:00Z", keyed.file.read_text())
            new = keyed.file.with_name("new")  # renamed: nobody reads a half of it, in which "stays" is missing
            new.touch(0o600)
            new.write_text(re.sub("(name=stays .*)", r"\1 tenant=blue", text))
            new.replace(keyed.file)

        keys = [keyed.change(lambda n=n: add(keyed.file, n, "--expires", "2100-01-01")) for n in ("ends", "stays")]
        before, reason = closes(), "the API key is no longer valid"
        fields = [{"authorization": f"Bearer {k}"} for k in keys]
        with connect(keyed.server, "/shop/ws", additional_headers=fields[0]) as ends, \
                connect(keyed.server, "/shop/ws", additional_headers=fields[1]) as stays:  # fmt: skip
            for ws in ends, stays:
                ws.send("hello")
                assert ws.recv(wait.SECONDS) == "hello"
            keyed.change(change_line if how == "expired" else lambda: command("revoke", "ends", "--file", keyed.file))
            with pytest.raises(ConnectionClosed) as e:
                ends.recv(wait.SECONDS)
            assert (e.value.rcvd.code, e.value.rcvd.reason) == (1008, reason)
            wait.until(lambda: closes() == [*before, [1008, reason]], closes)
            stays.send("again")
            assert stays.recv(wait.SECONDS) == "again"
        wait.until(lambda: len(closes()) == len(before) + 2, closes)
        for name in ("ends", "stays")[how == "revoked":]:
            keyed.change(lambda n=name: command("revoke", n, "--file", keyed.file))

    def test_a_bad_line_changes_nothing(self, keyed):
        good, since = keyed.file.read_text(), len(keyed.server.log.lines)
        keyed.file.write_text(good + "name=x sha256=1\n")
        line = good.count("\n") + 1
        keyed.server.log.wait(rf"keys_reload_failed.*keys:{line}: 'sha256' must be 64 hex.*the former keys stay valid", since)
        assert keyed.infer("iris", keyed.keys["all"]).status_code == 200
        assert keyed.infer("iris", WRONG).status_code == 401
        keyed.change(lambda: keyed.file.write_text(good))

    def test_a_file_that_others_may_read_changes_nothing(self, keyed):
        since = len(keyed.server.log.lines)
        keyed.file.chmod(0o644)
        keyed.server.log.wait("keys_reload_failed.*may be used by others", since)
        assert keyed.infer("iris", keyed.keys["all"]).status_code == 200
        keyed.change(lambda: keyed.file.chmod(0o600))

    def test_counters_survive(self, keyed):
        key = keyed.keys["rated"]
        wait.until(lambda: keyed.infer("iris", key).status_code == 429, lambda: "it has no quota")
        keyed.change(lambda: keyed.file.write_text(keyed.file.read_text() + "# a comment\n"))
        assert keyed.infer("iris", key).status_code == 429

    def test_a_new_dispatcher_reads_the_file(self, keyed):
        keyed.server.replace_dispatcher()
        wait.until(lambda: keyed.infer("iris", keyed.keys["all"]).status_code == 200, lambda: keyed.server.log.text())
        assert keyed.infer("iris", WRONG).status_code == 401


class TestFile:
    """Servers of their own."""

    @pytest.fixture
    def start(self, serve):
        def begin(file, keys, *options):
            server = serve("echo.py", "--api-keys", file, "--threads", "2", *options)
            server.expected += ["keys_reload_failed", "no_api_keys", "dispatcher"]
            return Keyed(server, file, keys)

        return begin

    def test_a_link(self, start, tmp_path):
        """`keys` changes what it leads to; the link may be replaced by another one, as Kubernetes does."""
        folders = [tmp_path / name for name in ("here", "first", "second")]
        for f in folders:
            f.mkdir()
        link, files = folders[0] / "keys", [f / "keys" for f in folders[1:]]
        link.symlink_to(files[0])
        old, new = (add(f, "a") for f in files)
        k = start(link, {})
        assert (k.ask("/v2", old).status_code, k.ask("/v2", new).status_code) == (200, 401)
        added = k.change(lambda: add(link, "b"))
        assert link.is_symlink() and k.ask("/v2", added).status_code == 200
        k.change(lambda: command("revoke", "a", "--file", link))
        wait.until(lambda: k.ask("/v2", old).status_code == 401, "it is revoked")

        def lead_elsewhere():
            (folders[0] / "fresh").symlink_to(files[1])
            (folders[0] / "fresh").rename(link)

        k.change(lead_elsewhere)
        wait.until(lambda: k.ask("/v2", new).status_code == 200, "the second file is used")
        k.change(lambda: command("revoke", "a", "--file", files[1]))
        wait.until(lambda: k.ask("/v2", new).status_code == 401, "it is revoked")

    def test_a_new_dispatcher_without_a_valid_file(self, start, tmp_path):
        """The keys may be good: nobody is told to ask for another one, and the server gets no requests."""
        file = tmp_path / "keys"
        key = add(file, "a")
        k = start(file, {})
        good, text = file.read_text(), "the server has no valid file of API keys: see its log"
        file.write_text(good + 'name="x" sha256=1\n')
        k.server.log.wait("keys_reload_failed")
        k.server.replace_dispatcher()
        k.server.log.wait(r'event=no_api_keys reason="[^"]*keys:\d+: .name. must be[^"]*" action="requests are refused')
        wait.until(lambda: k.server.status()["replicas"][0]["state"] == "ready", "the replica is back")
        assert not k.server.status()["server"]["ready"]
        for sent in key, WRONG, None:
            r = k.ask("/v2/models/echo", sent)
            assert (r.status_code, r.json()["error"]) == (503, text)
            assert k.code("ModelInfer", oip.infer_request("echo", {"x": np.array([5])}), sent) == (grpc.StatusCode.UNAVAILABLE, text)
            assert k.health("echo", sent) == grpc.StatusCode.UNAVAILABLE
        assert k.refusals()["wrong"] == k.refusals()["missing"] == "0"
        for _ in range(4):  # both threads
            assert k.ask("/v2/health/ready").status_code == 503
            assert k.ask("/v2/health/live").status_code == k.ask("/-/healthz").status_code == 200
            with oip.Client(k.server.address) as c:
                assert c.call("ServerLive").live and not c.call("ServerReady").ready
            assert k.health("") == k.health("inference.GRPCInferenceService") == b"\x08\x02"
        k.change(lambda: file.write_text(good))
        wait.until(lambda: k.ask("/v2/health/ready").status_code == 200 and k.health("") == b"\x08\x01", "it is ready")
        assert k.ask("/v2/models/echo", key).status_code == 200
        assert k.ask("/v2/models/echo", WRONG).status_code == 401

    def test_changes_that_come_faster_than_they_are_read(self, start, tmp_path):
        file = tmp_path / "keys"
        key = add(file, "a")
        with open(file, "a") as f:
            f.writelines(f"name=k{i} sha256={hashlib.sha256(b'%d' % i).hexdigest()}\n" for i in range(50_000))
        k = start(file, {})
        added = add(file, "b")

        supervisor, done = k.server.supervisor, threading.Event()

        def ask_again():
            while not done.is_set():
                os.kill(supervisor, signal.SIGHUP)  # many in the time of one reading

        thread = threading.Thread(target=ask_again)
        thread.start()
        try:
            wait.until(lambda: k.ask("/v2", added).status_code == 200, "what was read is used")
        finally:
            done.set()
            thread.join()
        assert k.ask("/v2", key).status_code == 200


class TestCanary:
    def test_keys_are_nowhere(self, keyed):
        """After all of the above."""
        server = keyed.server
        keyed.ask("/shop/x", keyed.keys["all"])
        text = server.log.text() + server.metrics() + json.dumps(server.status()) + keyed.file.read_text()
        text += subprocess.run([paths.BINARY, "logs", "--runtime-dir", server.runtime], capture_output=True, text=True).stdout
        for pid in procs._pids():
            try:
                text += Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            except OSError:
                pass
        assert "api_key_refused" in text
        for name, key in keyed.keys.items():
            assert key not in text, name


def test_a_key_may_not_take_a_model_away(serve, tmp_path):
    file = tmp_path / "keys"
    keys = {"all": add(file, "all"), "iris": add(file, "iris", "--models", "iris")}
    server = serve(HERE / "keyed.py", "--api-keys", file, "--allow-client-control")
    k = Keyed(server, file, keys)
    assert k.ask("/v2/repository/models/iris/unload", keys["iris"], "POST").status_code == 403
    assert k.infer("iris", keys["iris"]).status_code == 200
    assert k.ask("/v2/repository/models/iris/unload", keys["all"], "POST").status_code == 200
    wait.until(lambda: k.infer("iris", keys["iris"]).status_code == 404, lambda: "it is not unloaded")
    assert k.ask("/v2/repository/models/iris/load", keys["iris"], "POST").status_code == 403
    assert k.ask("/v2/repository/models/iris/load", keys["all"], "POST").status_code == 200


class TestCommand:
    def test_add_prints_the_key_alone(self, tmp_path):
        file = tmp_path / "keys"
        r = command("add", "a", "--file", file, *LIMITED, "--rate", "10/s", "--in-flight", "4", "--expires", "2030-01-01")
        assert KEY.fullmatch(r.stdout) and r.stderr == ""
        assert stat.S_IMODE(file.stat().st_mode) == 0o600 and os.listdir(tmp_path) == ["keys"]
        listed = command("list", "--file", file).stdout.splitlines()
        assert listed[1].split() == ["a", "red", "10/s", "4", "2030-01-01T00:00:00Z", "iris,sl*", "shop"]
        assert not re.search("[0-9a-f]{16}", listed[1]) and r.stdout.strip() not in file.read_text()

    @pytest.mark.parametrize("args, code, text", [
        ("add x", 2, "--file FILE is missing"), ("add --file {}", 2, "the name of the key is missing"),
        ("list x --file {}", 2, "list takes no name"), ("drop x --file {}", 2, "add, list or revoke"),
        ("revoke x --file {} --rate 1/s", 2, "only add takes options"), ("add x=y --file {}", 2, "the name of a key must be"),
        ("add x --file {} --rate 1", 2, "--rate must be N/s"), ("add x --file {} --burst 2", 2, "--burst needs --rate"),
        ("add x --file {} --models a,,b", 2, "--models must be"), ("add x --file {} --models=", 2, "--models must be"),
        ("add x --file {} --expires soon", 2, "--expires must be"), ("add x --file {} --tenant a,b", 2, "--tenant must be"),
        ("list --file {}", 66, "cannot open"), ("revoke x --file {}", 66, "cannot open")])  # fmt: skip
    def test_errors(self, tmp_path, args, code, text):
        r = command(*args.format(tmp_path / "keys").split(), code=code)
        assert text in r.stderr and r.stdout == ""

    @pytest.mark.parametrize("output", [">/dev/full", ">&-", "pipe"])
    @pytest.mark.parametrize("there", [True, False])
    def test_a_key_that_nobody_gets_is_taken_back(self, tmp_path, output, there):
        file = tmp_path / "keys"
        if there:
            add(file, "a")
        reader, writer = os.pipe()
        os.close(reader)
        line = f'exec "$0" keys add b --file "$1" {"" if output == "pipe" else output}'
        with open(writer, "wb") as nobody:
            r = subprocess.run(["sh", "-c", line, paths.BINARY, file], stdout=nobody, stderr=subprocess.PIPE, text=True,
                               timeout=wait.SECONDS)  # fmt: skip
        assert "cannot print the new key: " in r.stderr and f"It was taken out of {file} again" in r.stderr
        assert r.returncode == 1
        assert [row.split()[0] for row in command("list", "--file", file).stdout.splitlines()[1:]] == ["a"] * there
        assert os.listdir(tmp_path) == ["keys"]
        add(file, "b")

    def test_changes_at_the_same_time(self, tmp_path):
        file, names = tmp_path / "keys", [f"k{i}" for i in range(12)]
        threads = [threading.Thread(target=add, args=(file, name)) for name in names]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert {row.split()[0] for row in command("list", "--file", file).stdout.splitlines()[1:]} == set(names)
        assert os.listdir(tmp_path) == ["keys"]

    def test_the_longest_line(self, tmp_path):
        file = tmp_path / "keys"
        rest = len("name=a sha256= models=") + 64
        r = command("add", "a", "--file", file, "--models", "m" * (4097 - rest), code=2)
        assert "a key has at most 4096 bytes of text" in r.stderr and not file.exists()
        add(file, "a", "--models", "m" * (4096 - rest))
        assert max(map(len, file.read_text().splitlines())) == 4096
        assert command("list", "--file", file).stdout.count("\n") == 2

    def test_a_link_to_nothing(self, tmp_path):
        link = tmp_path / "link"
        link.symlink_to("nowhere")
        for verb in "add", "revoke":
            r = command(verb, "a", "--file", link, code=66)
            assert f"{link} is a symbolic link to a file that does not exist" in r.stderr and r.stdout == ""
        assert os.listdir(tmp_path) == ["link"] and link.is_symlink()

    @pytest.mark.parametrize("content, mode, text", [
        ("name=a\n", 0o600, ":1: 'sha256' is missing"), ("", 0o640, "may be used by others"), (None, 0, "cannot open")])  # fmt: skip
    def test_a_server_does_not_start_with_a_bad_file(self, tmp_path, content, mode, text):
        file = tmp_path / "keys"
        if content is not None:
            file.write_text(content)
            file.chmod(mode)
        r = subprocess.run([paths.BINARY, "run", "--port", "0", "--status-port", "off", "--runtime-dir", tmp_path / "run",
                            "--api-keys", file], capture_output=True, text=True, timeout=wait.SECONDS)  # fmt: skip
        assert r.returncode == 78 and text in r.stderr and str(file) in r.stderr, r
        assert "Ready" not in r.stderr

    def test_too_many_keys(self, tmp_path):
        file = tmp_path / "keys"
        add(file, "a"), add(file, "b")
        r = subprocess.run([paths.BINARY, "run", "--port", "0", "--status-port", "off", "--runtime-dir", tmp_path / "run",
                            "--api-keys", file, "--max-api-keys", "1"], capture_output=True, text=True, timeout=wait.SECONDS)
        assert r.returncode == 78 and "there are more than 1 keys" in r.stderr

"""--cors-origin: web pages of the sites that are listed may call, and read what they get; for others nothing changes."""

import http.client
import json
import subprocess

import httpx
import pytest

from support import paths, wait
from support.protocol import oip
from support.protocol.h2client import H2

pytestmark = pytest.mark.core

LISTED, ALSO, OTHER = "https://app.example", "http://localhost:3000", "https://evil.example"
ORIGINS = ("--cors-origin", f"{LISTED},{ALSO}")
ALLOW = "access-control-allow-origin"
FIELDS = [ALLOW, "access-control-allow-methods", "access-control-allow-headers", "access-control-max-age",
          "access-control-expose-headers", "access-control-allow-credentials"]


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("cross_origin.py", *ORIGINS, "--metrics-on-client-port")


@pytest.fixture(scope="module")
def models(serve_module):
    return serve_module("generating.py", *ORIGINS, "--allow-client-control")


@pytest.fixture(params=[1, 2], ids=["h1", "h2"])
def version(request):
    return request.param


def ask(server, version, method, path, origin=None, headers=(), body=None):
    fields = [*headers, *([("origin", origin)] if origin else [])]
    with httpx.Client(http1=version == 1, http2=version == 2, timeout=wait.SECONDS) as client:
        answer = client.request(method, f"http://{server.address}{path}", headers=fields, content=body)
    assert answer.http_version == ("HTTP/1.1" if version == 1 else "HTTP/2")
    for name in FIELDS:
        assert len(answer.headers.get_list(name)) <= 1, answer.headers
    assert "access-control-allow-credentials" not in answer.headers
    return answer


def preflight(server, version, path, origin, method="PUT", names="content-type,x-b", **more):
    asked = [("access-control-request-method", method), *([("access-control-request-headers", names)] if names else [])]
    return ask(server, version, "OPTIONS", path, origin, asked, **more)


def is_readable(answer, origin=LISTED):
    """A browser gives it to a page of this origin."""
    return answer.headers.get(ALLOW) == origin and "origin" in answer.headers.get_list("vary", split_commas=True)


def is_silent(answer):
    return not any(name in answer.headers for name in FIELDS)


class TestPreflight:
    @pytest.mark.parametrize("path", ["/v2/health/ready", "/v2/models/words/infer", "/v2/nothing", "/nothing", "/", "*"])
    @pytest.mark.parametrize("origin", [LISTED, ALSO])
    def test_of_models(self, models, version, path, origin):
        if path == "*":
            path = "/v2"
        answer = preflight(models, version, path, origin)
        assert answer.status_code == 204 and not answer.content and is_readable(answer, origin)
        assert answer.headers["access-control-allow-methods"] == "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
        assert answer.headers["access-control-allow-headers"] == "content-type,x-b"
        assert answer.headers["access-control-max-age"] == "600"

    @pytest.mark.parametrize("path", ["/", "/own", "/error", "/metrics"])
    def test_of_applications(self, server, version, path):
        """It is answered ahead of the application, which would not know the method."""
        answer = preflight(server, version, path, LISTED)
        assert answer.status_code == 204 and is_readable(answer)

    def test_other_origins_reach_the_application(self, server, version):
        answer = preflight(server, version, "/", OTHER)
        assert answer.status_code == 200 and answer.text == "OPTIONS /" and is_silent(answer)

    @pytest.mark.parametrize("origin", [OTHER, "null", "*", "http://app.example", LISTED + ":443", LISTED + ".evil.example", None])
    def test_other_origins_get_no_field(self, models, version, origin):
        answer = preflight(models, version, "/v2/models/words/infer", origin)
        assert answer.status_code == 204 and "POST" in answer.headers["allow"] and is_silent(answer)

    def test_without_a_method_it_is_no_preflight(self, server, version):
        answer = ask(server, version, "OPTIONS", "/", LISTED)
        assert answer.text == "OPTIONS /" and is_readable(answer)

    @pytest.mark.parametrize("names", ["a b", ",", "x-a,", "x:y"])
    def test_names_that_are_none(self, models, version, names):
        answer = preflight(models, version, "/v2", LISTED, names=names)
        assert answer.status_code == 204 and is_readable(answer) and "access-control-allow-headers" not in answer.headers

    def test_names_up_to_the_limit_of_header_bytes(self, serve, version):
        """The answer repeats as much as a request may have, and no more can be asked for."""
        server = serve("echo.py", *ORIGINS, "--max-header-bytes", "4K")
        names = ",".join(f"x-{i:04}" for i in range(400))
        answer = preflight(server, version, "/v2", LISTED, names=names)
        assert answer.status_code == 204 and answer.headers["access-control-allow-headers"] == names
        answer = preflight(server, version, "/v2", LISTED, names=names + "," + "y" * 4096)
        assert answer.status_code == 431

    def test_with_a_body(self, server, version):
        assert preflight(server, version, "/", LISTED, body=b"x" * 10000).status_code == 204


class TestAnswers:
    def test_of_the_server(self, models, version):
        for method, path, code in [("GET", "/v2", 200), ("HEAD", "/v2", 200), ("GET", "/v2/models/none", 404), ("PUT", "/v2", 405),
                                   ("GET", "/nothing", 404), ("GET", "/", 200)]:
            answer = ask(models, version, method, path, LISTED)
            assert answer.status_code == code and is_readable(answer), (method, path, answer.headers)
            assert answer.headers["access-control-expose-headers"] == "*"
            other = ask(models, version, method, path, OTHER)
            # a cache is not to give one page what it has kept for another
            assert other.status_code == code and is_silent(other) and "origin" in other.headers.get_list("vary", split_commas=True)

    def test_bad_body(self, models, version):
        answer = ask(models, version, "POST", "/v2/models/words/generate", LISTED, body=b"{")
        assert answer.status_code == 400 and is_readable(answer)

    def test_events(self, models, version):
        body = json.dumps({"prompt": "a", "n": 2}).encode()
        answer = ask(models, version, "POST", "/v2/models/words/generate_stream", LISTED, body=body)
        assert answer.status_code == 200 and answer.text.count("data: ") == 2 and is_readable(answer)

    @pytest.mark.parametrize("path, code, text", [("/", 200, "GET /"), ("/stream", 200, "0\n1\n2\n"), ("/error", 500, None)])
    def test_of_applications(self, server, version, path, code, text):
        answer = ask(server, version, "GET", path, LISTED)
        assert answer.status_code == code and is_readable(answer) and (text is None or answer.text == text)
        assert is_silent(ask(server, version, "GET", path, OTHER))

    def test_an_application_that_answers_itself(self, server, version):
        answer = ask(server, version, "GET", "/own", LISTED)
        assert answer.headers[ALLOW] == "https://own.example" and answer.headers["vary"] == "accept"
        assert "access-control-expose-headers" not in answer.headers

    def test_an_origin_given_twice(self, models):
        connection = http.client.HTTPConnection(models.host, models.port, timeout=wait.SECONDS)
        connection.putrequest("GET", "/v2")
        connection.putheader("Origin", LISTED)
        connection.putheader("Origin", LISTED)
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status == 200 and not answer.headers.get(ALLOW)
        connection.close()

    @pytest.mark.parametrize("over", [0, 1])
    def test_over_a_limit(self, serve, version, over):
        """The number of fields: at the limit an answer, above it 431. A page may read both; over HTTP/1.1 only the former, since the
        parser itself refuses the head."""
        server = serve("echo.py", *ORIGINS, "--max-headers", "20")
        with H2(server.host, server.port) as http2:
            if version == 2:
                extra = [("origin", LISTED), *((f"x-{i}", "v") for i in range(30))]
                low, high = 0, 30
                while low < high:  # the most further fields with which it is answered
                    middle = (low + high + 1) // 2
                    status = http2.request("GET", "/v2", headers=extra[:1 + middle]).headers[":status"]
                    low, high = (middle, high) if status == "200" else (low, middle - 1)
                reply = http2.request("GET", "/v2", headers=extra[:1 + low + over])
                assert 0 < low < 20 and reply.headers[":status"] == ("431" if over else "200")
                assert reply.headers[ALLOW] == LISTED and reply.headers["vary"] == "origin"
                return
        n = 18 + over  # beside host and origin
        fields = "".join(f"x-{i}: v\r\n" for i in range(n))
        done = subprocess.run(["curl", "-sS", "-i", "--http1.1", "-H", "User-Agent:", "-H", "Accept:", "-H", f"Origin: {LISTED}",
                               *(w for line in fields.splitlines() for w in ("-H", line)), f"http://{server.address}/v2"],
                              capture_output=True, text=True, check=True, timeout=wait.SECONDS)
        assert done.stdout.startswith("HTTP/1.1 431" if over else "HTTP/1.1 200"), done.stdout
        assert (f"{ALLOW}: {LISTED}\n" in done.stdout) == (not over)


class TestWhatStaysForbidden:
    """The server is not changed by pages that may only call (--allow-origin)."""

    def test_changes(self, models, version):
        for path in "/v2/repository/models/words/unload", "/v2/logging":
            answer = ask(models, version, "POST", path, LISTED, body=b"{}")
            assert answer.status_code == 403 and is_readable(answer) and "--allow-origin" in answer.text

    @pytest.mark.parametrize("method", ["RepositoryModelUnload", "ServerLive", "ModelInfer"])
    def test_grpc(self, models, method):
        """A preflight lets a page send application/grpc, too: such a call is a change of another site."""
        for origin, status in (LISTED, 7), (OTHER, 7), (None, None):
            with H2(models.host, models.port) as http2:
                extra = [("origin", origin)] if origin else []
                reply = http2.grpc(b"\0\0\0\0\0", method, extra=extra)
                if status:
                    assert reply.grpc_status == status and "--allow-origin" in reply.grpc_message
                    assert ALLOW not in reply.headers
                else:
                    assert reply.grpc_status != 7

    def test_one_that_may_change_the_server(self, serve):
        server = serve("echo.py", *ORIGINS, "--allow-origin", LISTED)
        with H2(server.host, server.port) as http2:
            assert http2.grpc(b"\0\0\0\0\0", "ServerLive", extra=[("origin", LISTED)]).grpc_status == 0
            assert http2.grpc(b"\0\0\0\0\0", "ServerLive", extra=[("origin", ALSO)]).grpc_status == 7


def test_off_by_default(serve, version):
    server = serve("echo.py")
    for answer in ask(server, version, "GET", "/v2", LISTED), preflight(server, version, "/v2", LISTED):
        assert answer.status_code in (200, 204) and is_silent(answer) and "vary" not in answer.headers


def test_age(serve, version):
    server = serve("echo.py", *ORIGINS, "--cors-max-age", "24h")
    assert preflight(server, version, "/v2", LISTED).headers["access-control-max-age"] == "86400"
    done = subprocess.run([paths.BINARY, "run", "x.py", *ORIGINS, "--cors-max-age", "86401s"], capture_output=True, text=True,
                          timeout=oip.SECONDS)
    assert done.returncode == 2 and "--cors-max-age" in done.stderr


@pytest.mark.parametrize("wrong, why", [("*", "every origin is to be named"), ("https://*.example", "is not like"),
                                        ("https://app.example/", "is not like"), ("app.example", "is not like"),
                                        (f"{LISTED},,{ALSO}", "is not like"), ("https://a.example:123456", "is not like")])
def test_what_is_no_origin(wrong, why):
    done = subprocess.run([paths.BINARY, "run", "x.py", "--cors-origin", wrong], capture_output=True, text=True, timeout=oip.SECONDS)
    assert done.returncode == 2 and "--cors-origin" in done.stderr and why in done.stderr


@pytest.mark.parametrize("over", [0, 1])
def test_longest_list(over):
    """4,095 bytes: at the limit the next thing is missed, the file."""
    listed = ",".join([LISTED] * 300)[:4000].rpartition(",")[0]
    listed += "," + "https://" + "a" * (4095 + over - len(listed) - 9)
    done = subprocess.run([paths.BINARY, "run", "/nowhere/x.py", "--port", "0", "--cors-origin", listed], capture_output=True, text=True,
                          timeout=oip.SECONDS)
    assert len(listed) == 4095 + over and (done.returncode == 2) == bool(over)

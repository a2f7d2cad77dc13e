"""Metrics and probes for whoever is not on this machine: --status-host, --metrics-on-client-port, any Host or none."""

import http.client
import socket
import subprocess
import sys

import pytest

from support import paths, ports, wait
from support.protocol import oip, prometheus

pytestmark = pytest.mark.core
ANOTHER = "127.0.0.2"  # an address that only a listener on all addresses, or on this one, has
FOREIGN = "anyserve.models.svc.cluster.local:8002"
NOT_HERE = "198.51.100.7"  # TEST-NET-2, RFC 5737: no machine has it
APPLICATION = """
from anyserve import serve


@serve.deployment
class Echo:
    async def __call__(self, request):
        return "the application answers " + request.url.path


app = Echo.bind()
"""


def ask(address, method, path, host=None):
    connection = http.client.HTTPConnection(*address, timeout=oip.SECONDS)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, body


def talk(address, head):
    with socket.create_connection(address, oip.SECONDS) as s:
        s.sendall(head)
        received = b""
        while chunk := s.recv(65536):
            received += chunk
    return received


class TestStatusHost:
    @pytest.fixture(scope="class")
    def port(self):
        return ports.free()

    @pytest.fixture(scope="class")
    def server(self, serve_module, port):
        return serve_module("echo.py", "--status-host", "0.0.0.0", "--status-port", str(port))

    @pytest.mark.parametrize("path", ["/metrics", "/status", "/workers", "/-/healthz", "/-/routes"])
    @pytest.mark.parametrize("host", [FOREIGN, ANOTHER, "localhost"])
    def test_any_host_on_another_address(self, server, port, path, host):
        status, headers, body = ask((ANOTHER, port), "GET", path, host)
        assert status == 200 and body
        status, head, nothing = ask((ANOTHER, port), "HEAD", path, host)
        assert status == 200 and not nothing and head["content-type"] == headers["content-type"]

    def test_metrics_can_be_read(self, server, port):
        metrics = prometheus.parse(ask((ANOTHER, port), "GET", "/metrics", FOREIGN)[2])
        assert prometheus.total(metrics, "anyserve_replicas_ready") >= 1

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
    def test_nothing_can_be_changed(self, server, port, method):
        status, headers, _ = ask((ANOTHER, port), method, "/status", FOREIGN)
        assert status == 405 and headers["allow"] == "GET, HEAD, OPTIONS"

    def test_no_path_of_the_control_api(self, server, port):
        assert ask((ANOTHER, port), "GET", "/api/serve/applications/", FOREIGN)[0] == 404

    def test_landing_page_names_it(self, server, port):
        # the wildcard is no address that a client can use
        assert f"http://127.0.0.1:{port}/metrics" in ask((server.host, server.port), "GET", "/metrics")[2]


def test_status_host_of_one_address(serve):
    port = ports.free()
    server = serve("echo.py", "--status-host", ANOTHER, "--status-port", str(port))
    assert ask((ANOTHER, port), "GET", "/status", "localhost")[0] == 200
    # an address of the loopback: only names of the loopback, or a web page could ask (DNS rebinding)
    assert ask((ANOTHER, port), "GET", "/status", FOREIGN)[0] == 403
    with pytest.raises(ConnectionRefusedError):
        ask(("127.0.0.1", port), "GET", "/status")
    assert f"http://{ANOTHER}:{port}/metrics" in ask((server.host, server.port), "GET", "/")[2]


@pytest.mark.parametrize("given", ["::1", "[::1]", "::"])
def test_status_host_of_ipv6(serve, given):
    port = ports.free()
    server = serve("echo.py", "--status-host", given, "--status-port", str(port))
    assert ask(("::1", port), "GET", "/metrics", "localhost")[0] == 200
    shown = "127.0.0.1" if given == "::" else "[::1]"
    assert f"http://{shown}:{port}/status" in server.log.text()


def test_status_host_that_is_not_ours(tmp_path):
    done = subprocess.run([paths.BINARY, "run", paths.APPS / "echo.py", "--port", "0", "--status-host", NOT_HERE, "--python",
                           sys.executable, "--runtime-dir", tmp_path], capture_output=True, text=True, timeout=oip.SECONDS)
    assert done.returncode == 78, done.stderr
    assert f"'{NOT_HERE}' is not an address of this machine" in done.stderr and "--status-host" in done.stderr


class TestProbesWithoutHost:
    @pytest.fixture(scope="class")
    def server(self, serve_module):
        port = ports.free()
        server = serve_module("echo.py", "--status-port", str(port))
        server.status_address = ("127.0.0.1", port)
        return server

    @pytest.mark.parametrize("method", [b"GET", b"HEAD"])
    @pytest.mark.parametrize("path", [b"/-/healthz", b"/v2/health/live", b"/v2/health/ready"])
    def test_clients_port(self, server, method, path):
        """HTTP/1.0 needs none; a server must refuse HTTP/1.1 without one (RFC 9112 §3.2)."""
        address = (server.host, server.port)
        assert talk(address, method + b" " + path + b" HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        assert talk(address, method + b" " + path + b" HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400 ")
        assert ask(address, method.decode(), path.decode(), FOREIGN)[0] == 200

    def test_status_port(self, server):
        address = server.status_address
        assert talk(address, b"GET /-/healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        for path in ("/-/healthz", "/-/healthz?verbose=1"):
            assert ask(address, "GET", path, FOREIGN)[0] == 200
        for path in ("/metrics", "/status", "/workers", "/-/routes"):
            assert talk(address, f"GET {path} HTTP/1.0\r\n\r\n".encode()).startswith(b"HTTP/1.1 403 ")
            status, _, body = ask(address, "GET", path, FOREIGN)
            assert status == 403 and "--status-host" in body


class TestMetricsOnClientPort:
    @pytest.fixture(scope="class")
    def server(self, serve_module):
        return serve_module("echo.py", "--metrics-on-client-port", "--threads", "2")

    def metrics(self, server):
        status, headers, body = ask((server.host, server.port), "GET", "/metrics", FOREIGN)
        assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        return prometheus.parse(body)

    def test_every_loop_answers(self, server):
        """Loop 0 owns what is counted; loop 1 has clients only, and reads from its sockets only when one of them asks."""
        reads = "anyserve_syscalls_total", frozenset({("kind", "read"), ("loop", "1")})
        before = self.metrics(server)[reads]
        wait.until(lambda: self.metrics(server)[reads] > before + 10, "loop 1 to answer")

    def test_they_are_counted(self, server):
        of_metrics = "anyserve_http_requests_total", frozenset({("resource", "metrics"), ("status", "200")})
        self.metrics(server)
        before = self.metrics(server)[of_metrics]
        assert self.metrics(server)[of_metrics] == before + 1

    def test_http2(self, server):
        out = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", f"http://{server.address}/metrics"],
                             capture_output=True, text=True, timeout=oip.SECONDS, check=True).stdout
        assert prometheus.total(prometheus.parse(out), "anyserve_replicas_ready") >= 1

    def test_head_and_other_methods(self, server):
        address = (server.host, server.port)
        status, headers, body = ask(address, "HEAD", "/metrics")
        assert status == 200 and not body and int(headers["content-length"]) > 1000
        status, headers, _ = ask(address, "POST", "/metrics")
        assert status == 405 and headers["allow"] == "GET, HEAD, OPTIONS"
        assert ask(address, "OPTIONS", "/metrics")[0] == 204

    def test_nothing_else_of_the_status_port(self, server):
        for path in ("/status", "/workers", "/metrics/"):
            assert ask((server.host, server.port), "GET", path)[0] == 404

    def test_landing_page_links_to_it(self, server):
        assert '"/metrics"' in ask((server.host, server.port), "GET", "/")[2]


@pytest.mark.parametrize("is_on", [False, True])
def test_application_that_has_all_paths(serve, is_on):
    server = serve("at_root.py", *["--metrics-on-client-port"] * is_on, source=APPLICATION)
    address = (server.host, server.port)
    assert ask(address, "GET", "/metric")[2] == "the application answers /metric"
    body = ask(address, "GET", "/metrics")[2]
    if is_on:
        prometheus.parse(body)
    else:
        assert body == "the application answers /metrics"

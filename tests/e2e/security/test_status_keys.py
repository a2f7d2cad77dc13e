"""--status-keys: the status port asks for an API key that may use everything; probes and the socket of its owner do not."""

import subprocess

import pytest

from security.certificates import Authority
from support import paths, ports, wait

pytestmark = pytest.mark.core
WRONG = "as_" + "A" * 43
PATHS = ["/metrics", "/status", "/status?format=text", "/workers", "/-/routes", "/none"]


def add(file, name, *options):
    done = subprocess.run([paths.BINARY, "keys", "add", name, "--file", file, *options], capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout.strip()


def ask(url, *headers, method="GET", options=()):
    """The status, the fields and the body that curl gets."""
    fields = [a for h in headers for a in ("-H", h)]
    done = subprocess.run([str(a) for a in ("curl", "-sS", "-i", "--http1.1", *(["-I"] if method == "HEAD" else ["-X", method]),
                                            *fields, *options, url)], capture_output=True, text=True, timeout=wait.SECONDS)
    assert done.returncode == 0, done
    head, _, body = done.stdout.partition("\n\n")
    lines = head.splitlines()
    return int(lines[0].split()[1]), {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}, body


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "keys"
    return file, {"all": add(file, "all"), "limited": add(file, "limited", "--models", "add*"),
                  "no_applications": add(file, "no_applications", "--applications", "-"),
                  "old": add(file, "old", "--expires", "2001-01-01"), "rated": add(file, "rated", "--rate", "1/h", "--burst", "1")}


@pytest.fixture(scope="module")
def port():
    return ports.free()


@pytest.fixture(scope="module")
def server(serve_module, keys, port):
    return serve_module("echo.py", "--api-keys", keys[0], "--status-keys", "--status-port", port)


@pytest.fixture
def url(server, port):
    return f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("path", PATHS)
def test_nothing_without_a_valid_key(url, keys, path):
    for headers in [], [f"authorization: Bearer {WRONG}"], [f"x-api-key: {keys[1]['old']}"], ["authorization: Basic eDp5"]:
        status, fields, body = ask(url + path, *headers)
        assert status == 401 and fields["www-authenticate"] == "Bearer" and "API key" in body
        assert ask(url + path, *headers, method="HEAD")[::2] == (401, "")
    for name in "limited", "no_applications":
        status, _, body = ask(url + path, f"x-api-key: {keys[1][name]}")
        assert status == 403 and "ask for a key that may" in body


@pytest.mark.parametrize("header", ["authorization: Bearer {}", "Authorization: bearer {}", "x-api-key: {}"])  # the first: Prometheus
def test_with_a_key(url, keys, header):
    header = header.format(keys[1]["all"])
    for path in PATHS[:-1]:
        status, fields, body = ask(url + path, header)
        assert status == 200 and body
        assert ask(url + path, header, method="HEAD")[::2] == (200, "")
        assert ask(url + path, header, method="HEAD")[1]["content-type"] == fields["content-type"]
    assert ask(url + "/none", header)[0] == 404
    assert ask(url + "/status", header, method="POST")[0] == 405
    assert ask(url + "/status", method="POST")[0] == 401


def test_the_probe_is_open(url, keys):
    for headers in [], [f"authorization: Bearer {WRONG}"], [f"x-api-key: {keys[1]['limited']}"], ["Host: any.example"]:
        for method in "GET", "HEAD":
            assert ask(url + "/-/healthz", *headers, method=method)[0] == 200
    assert ask(url + "/-/healthz?x")[0] == 200
    assert ask(url + "/-/healthz/")[0] == ask(url + "/-/Healthz")[0] == 401


def test_the_rate_of_a_key_counts(url, keys):
    header = f"x-api-key: {keys[1]['rated']}"
    assert ask(url + "/metrics", header)[0] == 200
    status, fields, body = ask(url + "/metrics", header)
    assert status == 429 and 3500 < int(fields["retry-after"]) <= 3600 and "has reached its rate" in body


def test_another_host_needs_more_than_a_key(url, keys):
    assert ask(url + "/metrics", f"x-api-key: {keys[1]['all']}", "Host: evil.example")[0] == 403


def test_http2(url, keys):
    options = ["--http2-prior-knowledge"]
    assert ask(url + "/metrics", options=options)[0] == 401
    assert ask(url + "/metrics", f"x-api-key: {keys[1]['all']}", options=options)[0] == 200


def test_the_socket_of_the_owner_is_open(server):
    assert server.get("/metrics")[0] == server.get("/status")[0] == server.get("/workers")[0] == 200
    assert server.get("/none")[0] == 404


def test_refusals_are_logged_without_the_key(server, url, keys):
    since = len(server.log.lines)
    ask(url + "/metrics", f"x-api-key: {WRONG}")
    wait.until(lambda: ask(url + "/metrics", f"x-api-key: {keys[1]['limited']}")[0] == 403 and
               server.log.find("event=api_key_refused .*reason=not_allowed key=limited", since), server.log.text)
    assert not [key for key in (WRONG, *keys[1].values()) if key in server.log.text()]


def test_keys_that_are_added_and_revoked(server, url, keys):
    def change(command, *args):
        since = len(server.log.lines)
        done = subprocess.run([paths.BINARY, "keys", command, "new", "--file", keys[0], *args], capture_output=True, text=True)
        server.log.wait("keys_reloaded", since)
        return f"x-api-key: {done.stdout.strip()}"

    header = change("add")
    assert ask(url + "/metrics", header)[0] == 200
    change("revoke")
    assert ask(url + "/metrics", header)[0] == 401


def test_a_new_dispatcher_asks_for_it_too(server, url, keys):
    server.replace_dispatcher()
    assert ask(url + "/metrics")[0] == 401
    assert ask(url + "/metrics", f"x-api-key: {keys[1]['all']}")[0] == 200


def test_with_tls(serve, keys, tmp_path):
    authority, port = Authority(tmp_path), ports.free()
    serve("echo.py", *authority.server().options, "--status-tls", "--api-keys", keys[0], "--status-keys", "--status-port", port)
    url, options = f"https://localhost:{port}", ["--cacert", authority.cert]
    assert ask(url + "/metrics", options=options)[0] == 401
    assert ask(url + "/-/healthz", options=options)[0] == 200
    status, _, body = ask(url + "/metrics", f"authorization: Bearer {keys[1]['all']}", options=options)
    assert status == 200 and "anyserve_" in body


def test_without_the_option_it_is_open(serve, keys):
    port = ports.free()
    serve("echo.py", "--api-keys", keys[0], "--status-port", port)
    assert ask(f"http://127.0.0.1:{port}/metrics")[0] == 200


def test_it_needs_keys(tmp_path):
    done = subprocess.run([paths.BINARY, "run", paths.APPS / "echo.py", "--port", "0", "--status-port", "off", "--status-keys",
                           "--runtime-dir", tmp_path], capture_output=True, text=True, timeout=wait.SECONDS)
    assert done.returncode == 2 and "--status-keys needs a file of keys: --api-keys FILE" in done.stderr

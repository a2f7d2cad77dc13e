"""A server that listens beyond the loopback says once whom it lets in: in the log, on the status page, by the doctor."""

import json
import re
import subprocess

import pytest

from support import paths, wait

pytestmark = pytest.mark.core
CLEAR, OPEN = "come in clear text", "need no key"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "keys"
    done = subprocess.run([paths.BINARY, "keys", "add", "someone", "--file", file], capture_output=True, text=True)
    assert done.returncode == 0, done
    return ["--api-keys", file]


def doctor(server):
    done = subprocess.run([str(a) for a in (paths.BINARY, "doctor", "--json", "--runtime-dir", server.runtime, "--port", server.port)],
                          capture_output=True, text=True, timeout=wait.SECONDS)
    checks = json.loads(done.stdout)
    return next(c for c in checks if c["check"] == "exposure")


@pytest.mark.parametrize("host, tls, certificates, with_keys, said", [
    ("127.0.0.1", False, False, False, []),
    ("0.0.0.0", False, False, False, [CLEAR, OPEN]),
    ("0.0.0.0", True, False, False, [OPEN]),
    ("0.0.0.0", True, True, False, []),
    ("0.0.0.0", False, False, True, [CLEAR]),
    ("0.0.0.0", True, False, True, []),
])
def test_what_is_said(serve, authority, keys, host, tls, certificates, with_keys, said):
    options = [*(authority.server().options if tls else []), *(["--tls-client-ca", authority.cert] if certificates else []),
               *(keys if with_keys else [])]
    server = serve("echo.py", "--host", host, *options)
    lines = re.findall(r"event=open_to_others .*", server.log.text())
    assert len(lines) == bool(said)
    for text in CLEAR, OPEN:
        assert (text in "".join(lines)) == (text in said)
    assert server.status()["exposure"] == {"beyond_loopback": host == "0.0.0.0", "clear_text": CLEAR in said, "anybody": OPEN in said}
    assert doctor(server)["verdict"] == ("warn" if said else "ok")


def test_a_further_listener_counts(serve):
    server = serve("echo.py", "--listen", "0.0.0.0:0")
    assert len(re.findall("event=open_to_others", server.log.text())) == 1

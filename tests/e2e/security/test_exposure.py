"""A server that listens beyond the loopback says once whom it lets in: in the log, on the status page, by the doctor."""

import json
import re
import subprocess

import pytest

from support import paths, ports, wait

pytestmark = pytest.mark.core
CLEAR, OPEN = "come in clear text (--tls-cert)", "need neither a key nor a certificate (--api-keys, --tls-client-ca)"
STATUS = "whoever reaches the status port reads what is there (--status-keys)"


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
    assert server.status()["exposure"] == {"beyond_loopback": host == "0.0.0.0", "clear_text": CLEAR in said, "anybody": OPEN in said,
                                           "status_anybody": False}
    checked = doctor(server)
    assert checked["verdict"] == ("warn" if said else "ok")
    if said:  # the same sentence
        assert f'reason="{checked["text"]}"' in lines[0]


@pytest.mark.parametrize("tls, certificates, with_keys, is_open", [
    (False, False, False, True),
    (False, False, True, False),
    (True, False, False, True),
    (True, True, False, False),
])
def test_the_status_port(serve, authority, keys, tls, certificates, with_keys, is_open):
    options = [*([*authority.server().options, "--status-tls"] if tls else []),
               *(["--tls-client-ca", authority.cert] if certificates else []), *([*keys, "--status-keys"] if with_keys else [])]
    server = serve("echo.py", "--status-host", "0.0.0.0", "--status-port", ports.free(), *options)
    lines = re.findall(r"event=open_to_others .*", server.log.text())
    assert (f'reason="{STATUS}"' in "".join(lines)) == is_open and len(lines) == is_open
    assert server.status()["exposure"] == {"beyond_loopback": False, "clear_text": False, "anybody": False, "status_anybody": is_open}
    assert doctor(server)["verdict"] == ("warn" if is_open else "ok")


def test_a_further_listener_counts(serve):
    server = serve("echo.py", "--listen", "0.0.0.0:0")
    assert len(re.findall("event=open_to_others", server.log.text())) == 1

"""grpcurl as a worker: it knows the management service by reflection, and only where it is served."""

import json

import pytest

from support.process.server import Server
from support.protocol.management import SERVICE, unix_path

TOKEN = "secret"
UNAUTHENTICATED, INVALID_ARGUMENT = 16, 3


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    """A server whose management service listens on TCP too: (server, its address)."""
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    s = Server(None, "--management", "127.0.0.1:0", "--management-token-file", token)
    yield s, s.log.wait(r"management  (\S+)")[1]
    try:
        s.settle()
        s.stop()
    finally:
        s.kill()


def test_over_the_unix_socket(manager, tools):
    server, _ = manager
    where = ["-plaintext", "-unix", unix_path(server)]
    done = tools.run("grpcurl", *where, "list")
    assert SERVICE in done.stdout.split() and "inference" not in done.stdout, done
    done = tools.run("grpcurl", *where, "describe", f"{SERVICE}.RegisterModel")
    assert "RegisterModelRequest" in done.stdout, done
    done = tools.run("grpcurl", "-d", json.dumps({"workerId": "w"}), "-emit-defaults", *where, f"{SERVICE}/Heartbeat")
    assert json.loads(done.stdout) == {"healthy": False}, done
    done = tools.run("grpcurl", "-d", json.dumps({"workerId": "a b"}), *where, f"{SERVICE}/Heartbeat")
    assert done.returncode == 64 + INVALID_ARGUMENT and "worker_id: 'a b'" in done.stderr, done


def test_over_tcp(manager, tools):
    _, address = manager
    done = tools.run("grpcurl", "-plaintext", address, "list")
    assert done.returncode and "authorization: Bearer TOKEN" in done.stderr, done
    done = tools.run("grpcurl", "-plaintext", "-H", f"authorization: Bearer {TOKEN}", address, "list")
    assert SERVICE in done.stdout.split(), done


def test_not_on_the_port_of_clients(manager, tools):
    server, _ = manager
    done = tools.run("grpcurl", "-plaintext", server.address, "list")
    assert "inference.GRPCInferenceService" in done.stdout and SERVICE not in done.stdout, done
    assert tools.run("grpcurl", "-plaintext", server.address, f"{SERVICE}/Heartbeat").returncode

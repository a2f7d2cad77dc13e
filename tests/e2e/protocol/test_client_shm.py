"""Who may lend shared memory: a client of this machine, of a user who could open the object himself, and a region is
for the clients of that user only. The tests need root: they are clients of two users."""

import contextlib
import http.client
import json
import os
import socket
import uuid

import pytest

from support import wait
from support.process import users
from support.process.server import Server

pytestmark = pytest.mark.core

SIZE = 64
DENIED = 403


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py", "--allow-client-shm")


@contextlib.contextmanager
def shared_object(mode=0o600, uid=0, name=None):
    """The name of an object in /dev/shm with SIZE bytes."""
    name = name or f"as_{uuid.uuid4().hex}"
    path = f"/dev/shm/{name}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(fd, b"secret" + bytes(SIZE - 6))
        os.fchmod(fd, mode)
        os.fchown(fd, uid, uid)
        yield name
    finally:
        os.close(fd)
        os.unlink(path)


def ask(address, method, path, body=None):
    """(status, what it says) over plain HTTP, in a connection of its own."""
    connection = http.client.HTTPConnection(*address, timeout=wait.SECONDS)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None)
        answer = connection.getresponse()
        said = json.loads(answer.read() or b"{}")
        return answer.status, said["error"] if "error" in said else said
    finally:
        connection.close()


def register(address, name, key, size=SIZE):
    return ask(address, "POST", f"/v2/systemsharedmemory/region/{name}/register",
               {"key": f"/{key}", "offset": 0, "byte_size": size})


def infer(address, region, where="inputs"):
    """Of echo: a UINT8 tensor of 8 bytes that is read from the region, or written to it."""
    lent = {"shared_memory_region": region, "shared_memory_byte_size": 8}
    x = {"name": "x", "datatype": "UINT8", "shape": [8]}
    body = ({"inputs": [{**x, "parameters": lent}]} if where == "inputs" else
            {"inputs": [{**x, "data": [7] * 8}], "outputs": [{"name": "x", "parameters": lent}]})
    return ask(address, "POST", "/v2/models/echo/infer", body)


def status(address):
    return [r["name"] for r in ask(address, "GET", "/v2/systemsharedmemory/status")[1]]


def unregister(address, name=None):
    return ask(address, "POST", f"/v2/systemsharedmemory{f'/region/{name}' if name else ''}/unregister")


@pytest.fixture
def address(server):
    """Every region is gone after the test, of both users."""
    where = (server.host, server.port)
    yield where
    unregister(where)
    users.as_user(unregister, where)


def test_another_users_object_cannot_be_lent(address):
    """The server could open it, and this client could not."""
    with shared_object(0o600) as key:
        code, why = users.as_user(register, address, "r", key)
        assert code == DENIED and why == (f"failed to register: shared memory region 'r': user {users.OTHER} may not read "
                                          f"and write '{key}' (mode 0600, of user 0)")
        assert users.as_user(status, address) == []
        assert register(address, "r", key)[0] == 200  # and its owner may


@pytest.mark.parametrize("mode, code", [(0o600, DENIED), (0o644, DENIED), (0o646, DENIED), (0o664, DENIED), (0o666, 200)])
def test_modes(address, mode, code):
    """Which groups a client is in nobody says, so what a group may not do nobody else may, either."""
    with shared_object(mode) as key:
        assert users.as_user(register, address, "r", key)[0] == code


def test_own_object(address):
    with shared_object(0o600, users.OTHER) as key:
        assert users.as_user(register, address, "r", key) == (200, {})
        code, said = users.as_user(infer, address, "r")
        assert code == 200 and bytes(said["outputs"][0]["data"]) == b"secret\0\0"
        assert users.as_user(infer, address, "r", "outputs")[0] == 200
        with open(f"/dev/shm/{key}", "rb") as f:
            assert f.read(8) == b"\7" * 8


def test_an_owner_who_may_not_write(address):
    with shared_object(0o466, users.OTHER) as key:
        assert users.as_user(register, address, "r", key)[0] == DENIED


def test_a_region_is_its_users(address):
    """Another user neither reads, writes, sees nor takes away a region, and has names of his own."""
    with shared_object(0o600) as key, shared_object(0o600, users.OTHER) as other:
        assert register(address, "r", key)[0] == 200
        for where in ("inputs", "outputs"):
            code, why = users.as_user(infer, address, "r", where)
            assert code == 400 and "there is no shared memory region 'r'" in why
        assert users.as_user(status, address) == []
        assert users.as_user(unregister, address)[0] == users.as_user(unregister, address, "r")[0] == 200
        assert status(address) == ["r"]
        assert users.as_user(register, address, "r", other)[0] == 200
        assert status(address) == users.as_user(status, address) == ["r"]
        assert infer(address, "r")[0] == 200


def test_a_client_that_closes_its_socket_is_nobody(server, address):
    """The kernel calls a socket without a process root's."""
    def leave():
        with socket.create_connection(address) as s:
            body = json.dumps({"key": f"/{key}", "offset": 0, "byte_size": SIZE})
            s.sendall(f"POST /v2/systemsharedmemory/region/r/register HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}"
                      f"\r\n\r\n{body}".encode())

    with shared_object(0o600) as key:
        for _ in range(20):
            users.as_user(leave)
        server.settle()
        assert status(address) == users.as_user(status, address) == []


def test_prefix(serve):
    server = serve("echo.py", "--allow-client-shm", "--client-shm-prefix", "as_lent_")
    address = (server.host, server.port)
    with shared_object(name=f"as_lent_{uuid.uuid4().hex}") as good, shared_object() as bad:
        assert register(address, "good", good)[0] == 200
        code, why = register(address, "bad", bad)
        assert code == DENIED and why == (f"failed to register: shared memory region 'bad': '{bad}' does not begin with "
                                          "'as_lent_' (--client-shm-prefix)")
        assert unregister(address)[0] == 200


def test_own_names(address):
    with shared_object(name=f"anyserve.{uuid.uuid4().hex}") as key:
        code, why = register(address, "r", key)
        assert code == DENIED and "names that begin with 'anyserve.' are the server's" in why


def from_elsewhere(name):
    """In a network of its own a server whose client comes by another address than loopback's."""
    server = Server("echo.py", "--allow-client-shm", "--host", "0.0.0.0")
    try:
        near, far = ("127.0.0.1", server.port), ("10.9.8.7", server.port)
        said = [register(far, "r", name), register(near, "r", name), infer(far, "r"), infer(far, "r", "outputs"),
                status(far), unregister(far), status(near), infer(near, "r")[0], unregister(near)]
        server.settle()
        server.stop()
        return said
    finally:
        server.kill()


def test_only_this_machine():
    why = "shared memory is for clients of this machine, over a loopback address or a unix socket"
    with shared_object() as key:
        said = users.in_child(lambda: users.enter_network("10.9.8.7"), from_elsewhere, key)
    assert said == [(DENIED, why), (200, {}), (DENIED, why), (DENIED, why), [], (200, {}), ["r"], 200, (200, {})]

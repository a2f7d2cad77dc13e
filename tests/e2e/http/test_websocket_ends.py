"""How websockets end when a process does: a replica, the server, the former dispatcher of an upgrade; and silent clients."""

import os
import resource
import signal
import socket

import pytest
from support import paths, wait
from support.deployments import APPLICATIONS, api
from support.process import procs
from support.process.upgrading import Upgrade, wait_next
from support.protocol.websocket import PING, PONG, TEXT, Raw, connect, frame, log, start, wait_log
from websockets.exceptions import ConnectionClosed

pytestmark = pytest.mark.core


@pytest.fixture
def serve(tmp_path):
    servers = []

    def make(*options):
        servers.append(start(tmp_path, *options))
        return servers[-1]

    yield make
    for server in servers:
        if server.exit_code is None:
            server.stop()


def closed(ws):
    with pytest.raises(ConnectionClosed) as end:
        ws.recv(timeout=wait.SECONDS)
    return end.value.rcvd.code


def replica(server):
    """The pid of the one that serves the websockets, if it is ready."""
    return next((pid for name, pid in server.workers().items() if "Sockets" in name), None)


def test_a_replica_that_dies_is_1011(serve):
    server = serve()
    server.expected += ["worker_exit"]
    server.wait_all_ready()
    with connect(server, "/echo") as ws:
        ws.send("x")
        assert ws.recv(timeout=wait.SECONDS) == "x"
        procs.kill(replica(server))
        assert closed(ws) == 1011
    wait.until(lambda: replica(server), server.log.text)
    with connect(server, "/echo") as ws:
        ws.send("again")
        assert ws.recv(timeout=wait.SECONDS) == "again"


def test_a_server_that_shuts_down_is_1012(serve):
    server = serve()
    with connect(server, "/echo") as ws, connect(server, "/slow") as deaf:
        ws.send("x")
        assert ws.recv(timeout=wait.SECONDS) == "x"
        os.kill(server.supervisor, signal.SIGTERM)
        assert closed(ws) == 1012
        assert closed(deaf) == 1012
    server.ended(0)


def test_a_replica_that_is_to_end_is_1012(serve):
    """And its handler is told, so that it ends at once."""
    server = serve()
    with connect(server, "/echo") as ws:
        ws.send("x")
        assert ws.recv(timeout=wait.SECONDS) == "x"
        assert api(server, "DELETE", APPLICATIONS + "ws")[0] == 200
        assert closed(ws) == 1012
    wait.until(lambda: replica(server) is None, server.log.text)


def test_a_replica_that_is_asked_to_end_is_1012(serve, tmp_path):
    """By a signal to its process: the websocket that is open, and one whose handshake it has in hand. Else it would never end."""
    server = serve()
    file = tmp_path / "accept"
    with connect(server, "/echo") as ws, Raw(server, f"/late?{file}", accept=False) as raw:
        wait_log(server, "late began")
        ended = replica(server)
        os.kill(ended, signal.SIGTERM)
        assert closed(ws) == 1012
        file.touch()
        assert raw.read_head().startswith(b"HTTP/1.1 101 ")
        assert raw.read_close()[0] == 1012
    wait.until(lambda: replica(server) not in (None, ended), server.log.text)
    with connect(server, "/echo") as ws:
        ws.send("again")
        assert ws.recv(timeout=wait.SECONDS) == "again"


def open_at_next(server):
    """A websocket at the dispatcher that answers for the status. The former one takes clients until the next one does."""
    def look():
        ws = connect(server, "/echo")
        if "\nanyserve_websockets 1\n" in server.metrics():
            return ws
        ws.close()
        return None

    return wait.until(look, server.log.text)


def test_in_an_upgrade_they_stay(serve):
    """With the former dispatcher, until they end; new ones are the next dispatcher's."""
    server = serve("--drain-timeout", "60s")
    former = server.dispatcher
    with connect(server, "/echo") as ws:
        with Upgrade(server) as upgrade:
            wait_next(server, former)
            with open_at_next(server) as young:
                for text in ("one", "two"):
                    ws.send(text)
                    young.send(text)
                    assert (ws.recv(timeout=wait.SECONDS), young.recv(timeout=wait.SECONDS)) == (text, text)
                assert procs.alive(former)
                ws.close()
                upgrade.finish()
                young.send("three")
                assert young.recv(timeout=wait.SECONDS) == "three"


def test_in_an_upgrade_the_drain_timeout_ends_them_with_1012(serve):
    server = serve("--drain-timeout", "2s")
    server.expected += ["drain_timeout"]
    former = server.dispatcher
    with connect(server, "/echo") as ws, Upgrade(server) as upgrade:
        wait_next(server, former)
        ws.send("x")
        assert ws.recv(timeout=wait.SECONDS) == "x"
        assert closed(ws) == 1012
        upgrade.finish()


def test_silent_clients(serve):
    """One answers pings and stays; one does not, and is closed with 1011; one does not answer a close."""
    server = serve("--websocket-ping-interval", "200ms", "--websocket-ping-timeout", "400ms")
    with Raw(server) as well, Raw(server) as dead:
        assert well.read_frame() == (PING, b"")
        well.send(frame(PONG))
        assert dead.read_frame() == (PING, b"")
        assert dead.read_close() == (1011, "a ping was not answered")
        assert dead.at_end()
        for _ in range(3):
            assert well.read_frame() == (PING, b"")
            well.send(frame(PONG))
    with Raw(server, "/close") as stubborn:
        stubborn.send(frame(TEXT, b"1000 bye"))
        assert stubborn.read_close() == (1000, "bye")
        assert stubborn.at_end()
    wait_log(server, ["disconnect", 1006, ""])


def test_a_client_that_ends_its_side_only(serve):
    server = serve()
    with Raw(server) as raw:
        raw.sock.shutdown(socket.SHUT_WR)
        wait_log(server, ["disconnect", 1006, ""])
        assert raw.at_end()


def test_five_thousand_at_once(serve):
    """Each answers; what they cost in the dispatcher is bounded, and is given back."""
    most = 5000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < most + 200:
        pytest.skip(f"ulimit -n is {hard}")
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        server = serve("--max-connections", "6000", "--max-requests", "6000")
        before = rss(server.dispatcher)
        raws = [Raw(server, accept=False) for _ in range(most)]
        for raw in raws:
            assert raw.read_head().startswith(b"HTTP/1.1 101 ")
        for i, raw in enumerate(raws):
            raw.send(frame(TEXT, b"%d" % i))
        for i, raw in enumerate(raws):
            assert raw.read_frame() == (TEXT, b"%d" % i)
        assert f"\nanyserve_websockets {most}\n" in server.metrics()
        each = (rss(server.dispatcher) - before) / most
        print(f"{each / 1024:.1f} KiB of the dispatcher for each websocket")
        assert each < (32 << 10) or paths.SANITIZED  # its allocator adds to each block
        for raw in raws:
            raw.close()
        wait.until(lambda: "\nanyserve_websockets 0\n" in server.metrics(), server.metrics)
        wait.until(lambda: len([e for e in log(server) if e[0] == "disconnect"]) == most, "the handlers' end")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def rss(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()

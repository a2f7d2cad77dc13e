"""Connections over an upgrade: those without a request pass to the next dispatcher as they are, none is closed under a client."""

import contextlib
import resource
import threading

import numpy as np
import pytest

from support.process import procs
from support.process.upgrading import Upgrade, wait_next
from support.protocol import http as rest
from support.protocol import prometheus
from support.protocol.raw import HOST, Raw

LIVE = b"GET /v2/health/live HTTP/1.1\r\n" + HOST + b"\r\n"
HELLO_H2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # the preface, and empty SETTINGS


def infer(model, n=1, id=""):
    body = rest.infer_json({"x": np.float64([n])}, **({"id": id} if id else {}))
    return (b"POST /v2/models/%s/infer HTTP/1.1\r\n" % model.encode() + HOST + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def ask(client, data=LIVE, n=1):
    """n answers to what is sent, on this connection; none says that it ends."""
    client.seen = b""
    client.sock.sendall(data)
    client.until(rb"(HTTP/1\.1 200.*?\r\n\r\n\{.*\}){%d}$" % n)
    assert client.statuses() == [200] * n and b"connection: close" not in client.seen, client.seen


def test_idle_connections_go_on(serve):
    """Many that asked before, some that never did, one that turns out to be HTTP/2; two upgrades."""
    server = serve("echo.py", "--threads", "3")
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Raw(server)) for _ in range(150)]
        for client in clients[:100]:
            ask(client)
        for turn in range(2):
            with Upgrade(server) as upgrade:
                upgrade.finish()
            for client in clients[turn:-1]:
                ask(client)
        clients[-1].send(HELLO_H2)
        assert clients[-1].until(rb"^...\x04\x00")  # its SETTINGS
        assert prometheus.total(prometheus.parse(server.metrics()), "anyserve_connections") == len(clients)
    assert not server.log.find("adopt_failed|relay_lost|client_refused")
    server.note_fds()


@pytest.mark.core
def test_a_request_at_any_moment(serve):
    """Each client asks again as soon as it is answered, on one connection, through upgrades; and none is told to leave."""
    server = serve("echo.py", "--threads", "2", "--workers", "2")
    server.wait_all_ready()
    stop, counts, failed = threading.Event(), [0] * 4, []

    def hammer(i):
        with Raw(server) as client:
            try:
                while not stop.is_set():
                    ask(client, infer("echo", i) if i % 2 else LIVE)
                    counts[i] += 1
            except (AssertionError, OSError) as e:
                failed.append(f"{i}: after {counts[i]}: {e!r}")

    threads = [threading.Thread(target=hammer, args=(i,)) for i in range(len(counts))]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            with Upgrade(server) as upgrade:
                upgrade.finish()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failed and min(counts) > 20, (failed, counts)
    server.note_fds()


@pytest.mark.core
def test_who_waits_for_an_answer_goes_on_behind_it(staged, stage):
    """The former dispatcher answers, and what was pipelined too; then the connection is the next one's."""
    server = staged("--workers", "1", "--goaway-grace", "20s", app="staged_async.py")
    former = server.dispatcher
    with Raw(server) as busy, Raw(server) as pipelines, Raw(server) as rests:
        for client in (busy, pipelines, rests):
            ask(client)
            client.seen = b""
        busy.send(infer("staged"))
        pipelines.send(infer("staged") + LIVE + LIVE)
        scenes = stage.started(2)
        with Upgrade(server) as upgrade:
            wait_next(server, former)
            ask(rests, infer("fast"))
            for scene in scenes:
                scene.go()
            upgrade.finish()
        assert busy.until(rb"\}$") and pipelines.until(rb"(live.*){2}\}$")
        for client, n in ((busy, 1), (pipelines, 3)):
            assert client.statuses() == [200] * n and b"connection: close" not in client.seen, client.seen
            ask(client, infer("fast"))
    server.note_fds()


def test_who_never_rests_is_told_to_leave(staged, stage):
    """A request that is read already behind another when the grace is over: the answer before it says so."""
    server = staged("--workers", "1", "--goaway-grace", "50ms", app="staged_async.py")
    former = server.dispatcher
    with Raw(server) as client, Raw(server) as http2:
        http2.send(HELLO_H2)
        client.send(infer("staged") + LIVE)
        (scene,) = stage.started(1)
        with Upgrade(server) as upgrade:
            wait_next(server, former)
            http2.rest()  # it has heard the second GOAWAY: the grace is over
            scene.go()
            client.rest()
            assert client.statuses() == [200] and b"connection: close" in client.seen
            upgrade.finish()
    server.note_fds()


def test_the_next_dispatcher_has_no_descriptors_left(staged, stage):
    """What it cannot take ends as an idle connection ends anywhere; the upgrade goes on."""
    server = staged("--workers", "1", app="staged_async.py")
    former = server.dispatcher
    server.expect_error("adopt_failed")
    with Raw(server) as client:
        client.send(infer("staged"))
        (scene,) = stage.started(1)
        with Upgrade(server) as upgrade:
            wait_next(server, former)
            server.log.wait("event=draining")
            pid = server.dispatcher
            limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
            scene.go()
            server.log.wait('event=adopt_failed reason="no descriptors left" sent=1 adopted=0')
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            upgrade.finish()
        client.rest()
        assert client.statuses() == [200]
    with Raw(server) as client:
        ask(client, infer("fast"))
    server.note_fds()


def test_the_next_dispatcher_dies(staged, stage):
    """The former one answers what it has, and ends its connections itself; another next one serves."""
    server = staged("--workers", "1", app="staged_async.py")
    former = server.dispatcher
    with Raw(server) as client:
        client.send(infer("staged"))
        (scene,) = stage.started(1)
        with Upgrade(server) as upgrade:
            wait_next(server, former)
            server.log.wait("event=draining")
            pid = server.dispatcher
            procs.kill(pid)
            server.log.wait("event=dispatcher_exit")
            scene.go()
            client.rest()
            assert client.statuses() == [200]
            server.log.wait("event=relay_lost")
            upgrade.finish()
    wait_next(server, pid)
    with Raw(server) as client:
        ask(client, infer("fast"))
    server.note_fds()

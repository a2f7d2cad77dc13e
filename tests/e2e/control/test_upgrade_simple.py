"""Workers of the management service over an upgrade: the next dispatcher is told of them by the former one."""

import contextlib
import json
import threading

import numpy as np
import pytest

from support import wait
from support.process import procs
from support.process.upgrading import Upgrade
from support.protocol import oip
from support.protocol.http import Unix
from support.protocol.management import SERVICE, unix_path
from support.protocol.simple import Simple, echo

CALL = {"x": np.arange(3)}


def replica(server, name):
    return next((r for r in server.status()["replicas"] if r["name"] == name), None)


@pytest.mark.core
def test_they_are_known_at_once(serve):
    """Signature, slots and epoch are as before; heartbeats and the last word go on."""
    server = serve(None)
    tensors = [{"name": "x", "datatype": "INT64", "shape": [-1]}]
    typed = Simple(server, "typed", signature={"inputs": tensors, "outputs": tensors}, slots=3)
    with typed as worker, Simple(server, "plain", "v"):
        epoch, before = replica(server, "w")["epoch"], server.dispatcher
        with oip.Client(server.address) as client:
            client.infer("typed", CALL)
        for _ in range(2):
            with Upgrade(server) as upgrade:
                upgrade.finish()
            with oip.Client(server.address) as client:
                assert np.array_equal(client.infer("typed", CALL)["x"], CALL["x"])
                assert np.array_equal(client.infer("plain", CALL)["x"], CALL["x"])
                said = client.call("ModelMetadata", oip.message("ModelMetadataRequest", name="typed"))
                assert [t.datatype for t in said.inputs] == ["INT64"]
        found = replica(server, "w")
        assert (server.dispatcher != before, found["epoch"], found["slots"]) == (True, epoch, 3)
        assert worker.call("Heartbeat", model_names=["typed"]) == (200, {"healthy": True})
        assert worker.call("UnregisterModel", model_name="typed", model_version="1", epoch=epoch)[0] == 200
        wait.until(lambda: replica(server, "w") is None, server.status)
        worker.register()
    server.note_fds()


def queued(server):
    return any(d["queued"] for d in server.status()["deployments"])


def say(connection, rpc, **fields):
    connection.request("POST", f"/{SERVICE}/{rpc}", json.dumps(fields))
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def in_an_upgrade(server, kept, worker, calls, running, go):
    """Two requests are the former dispatcher's, of which one runs; a third comes to the next one."""
    former = server.dispatcher
    wait.until(lambda: running and queued(server), server.status)
    with Upgrade(server) as upgrade:
        server.log.wait("event=draining unanswered=2")
        assert server.dispatcher != former
        # the former one takes no word that the other would not hear of
        status, answer = say(kept, "UnregisterModel", worker_id="w", model_name="slow")
        assert (status, answer["error"]) == (503, "another dispatcher takes over: try again")
        with oip.Client(server.address) as other:
            calls.append(other.begin("slow", CALL))
            wait.until(lambda: queued(server), server.status)
            go.release()
            assert calls[0].exception() is None
            wait.until(lambda: worker.taken == 2, server.status)
            assert procs.alive(former) and not calls[2].done()
            go.release()
            assert calls[1].exception() is None
            go.release()
            assert calls[2].exception() is None
        upgrade.finish()


@pytest.mark.core
def test_never_more_requests_than_slots(serve):
    """The next dispatcher's wait until the former one has had its answer; those that were queued there come first."""
    go, lock, running, most = threading.Semaphore(0), threading.Lock(), [], []

    def handle(q):
        with lock:
            running.append(q.id)
            most.append(len(running))
        go.acquire()
        with lock:
            running.remove(q.id)
        return echo(q)

    server = serve(None, "--worker-heartbeat-timeout", "off", "--goaway-grace", "20s")
    with Simple(server, "slow", handle=handle) as worker, oip.Client(server.address) as client:
        calls = [client.begin("slow", CALL)]
        wait.until(lambda: running, server.status)  # calls that begin at once may come in any order
        calls.append(client.begin("slow", CALL))
        with contextlib.closing(Unix(unix_path(server))) as kept:
            assert say(kept, "Heartbeat", worker_id="w") == (200, {"healthy": True})
            in_an_upgrade(server, kept, worker, calls, running, go)
        assert max(most) == 1
    server.note_fds()

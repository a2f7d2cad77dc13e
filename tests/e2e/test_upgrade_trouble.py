"""`anyserve upgrade` when a part of the next version does not start, and beside other things that are under way."""

import json
import queue
import resource
import shutil
import stat

import grpc
import numpy as np
import pytest

from support import oip, paths, procs, wait
from support.load import Load
from support.raw import HOST, Raw
from support.upgrading import Upgrade, wait_next

STORY = """
import cue
import numpy as np
from anyserve import AnyServe, Tensor

app = AnyServe()


@app.model("story", inputs={"n": Tensor("INT32", [1])}, outputs={"part": Tensor("INT32", [1])}, max_ongoing_requests=4)
async def story(n, request):
    for i in range(int(n[0])):
        await cue.wait_async(f"{request.id}{i}")
        yield np.array([i], np.int32)
"""


# --- parts that do not start ---

def test_the_next_dispatcher_does_not_start(serve, connect, tmp_path):
    """It has no memory for its threads: given up, and the former one serves on."""
    path = tmp_path / "anyserve"
    shutil.copy2(paths.BINARY, path)
    server = serve("echo.py", "--threads", "64", "--max-start-failures", "1", "--restart-backoff", "10ms", binary=path)
    server.wait_all_ready()
    client, former, workers = connect(server), server.dispatcher, server.workers()
    for line in ("dispatcher_failed", "dispatcher_exit", "upgrade_failed"):
        server.expect_error(line)
    limited = tmp_path / "limited"
    limited.write_text(f"#!/bin/sh\nulimit -S -v 400000\nexec {paths.BINARY} \"$@\"\n")
    limited.chmod(limited.stat().st_mode | stat.S_IXUSR)
    limited.rename(path)
    with Upgrade(server) as upgrade:
        assert upgrade.fail() == "the new dispatcher does not start; its log lines are above"
    server.log.wait('event=dispatcher_failed reason="no thread"')
    server.log.wait('event=upgrade_failed .*action="the former dispatcher serves on"')
    assert (server.dispatcher, server.workers()) == (former, workers)
    assert client.infer("echo", {"x": np.float32([3])})["x"] == 3
    # what there was is still whole: one that fits takes over
    shutil.copy2(paths.BINARY, limited)
    limited.rename(path)
    resource.prlimit(server.supervisor, resource.RLIMIT_AS, (-1, -1))
    with Upgrade(server) as upgrade:
        upgrade.finish()
    assert (server.dispatcher != former, server.workers()) == (True, workers)
    server.note_fds()


def test_the_next_controller_does_not_start(serve, connect, tmp_path):
    """It cannot read its state. Dispatcher and workers go on without one, until it can."""
    file = tmp_path / "anyserve.yaml"
    file.write_text(json.dumps({"applications": [{"name": "shop", "import_path": "echo:app", "working_dir": str(paths.APPS)}]}))
    server = serve(file, "--state-dir", tmp_path / "state", "--start-timeout", "3s", "--restart-backoff", "10ms",
                   "--restart-backoff-max", "50ms", verb="start")
    server.wait_all_ready()
    client, former, workers = connect(server), server.dispatcher, server.workers()
    for line in ("state_unreadable", "controller_exit", "upgrade_failed"):
        server.expect_error(line)
    (database,) = (tmp_path / "state").rglob("state.db")
    kept = database.with_suffix(".kept")
    database.rename(kept)
    database.mkdir()
    with Upgrade(server) as upgrade:
        assert upgrade.fail() == "the new controller does not start; its log lines are above"
    assert (server.dispatcher, server.workers()) == (former, workers)
    assert client.infer("echo", {"x": np.float32([3])})["x"] == 3
    database.rmdir()
    kept.rename(database)
    wait.until(lambda: server.controller, server.log.text)
    wait.until(lambda: server.log.find("controller_ready replicas=1 started=0"), server.log.text)
    with Upgrade(server) as upgrade:
        upgrade.finish()
    assert (server.dispatcher != former, server.workers()) == (True, workers)
    server.note_fds()


# --- what is under way ---

@pytest.mark.core
def test_streams_are_finished_by_the_former_dispatcher(serve, stage, tmp_path):
    stage.reset()
    server = serve("story.py", "--workers", "1", source=STORY, env={"ANYSERVE_TEST_STAGE": stage.path})
    former, messages = server.dispatcher, queue.SimpleQueue()
    body = json.dumps({"n": 3, "id": "h"}).encode()
    with grpc.insecure_channel(server.address, oip.UNLIMITED) as channel, Raw(server) as http:
        http.send(b"POST /v2/models/story/generate_stream HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        call = channel.stream_stream(f"/{oip.SERVICE}/ModelStreamInfer", lambda q: q.SerializeToString(),
                                     oip.messages()["ModelStreamInferResponse"].FromString)(iter(messages.get, None))
        messages.put(oip.infer_request("story", {"n": np.array([3], np.int32)}, id="g"))

        def scenes(i):
            wait.until(lambda: {f"h{i}", f"g{i}"} <= set(stage.tags()), stage.tags)
            return [s for s in stage.scenes if s.tag in (f"h{i}", f"g{i}")]

        def part(i):
            for scene in scenes(i):
                scene.go()
            assert oip.Answer(next(call).infer_response)["part"] == i
            assert http.until(rb'"part":%d' % i)

        part(0)
        with Upgrade(server) as upgrade:
            wait_next(server, former)
            part(1)
            # a request that comes on a stream which the former dispatcher has is its own as well
            messages.put(oip.infer_request("story", {"n": np.array([1], np.int32)}, id="later"))
            wait.until(lambda: "later0" in stage.tags(), stage.tags)
            stage.scenes[stage.tags().index("later0")].go()
            assert oip.Answer(next(call).infer_response)["part"] == 0
            part(2)
            messages.put(None)
            assert list(call) == []
            assert http.until(rb"\r\n0\r\n\r\n$")
            upgrade.finish()
        # the connection of the stream by HTTP is the next dispatcher's
        http.seen = b""
        http.send(b"GET /v2/health/ready HTTP/1.1\r\n" + HOST + b"\r\n")
        assert http.until(rb'"ready":true')
    server.note_fds()


def test_a_second_one_meanwhile(staged, stage):
    """It is the same upgrade: both commands end when the former dispatcher has."""
    server = staged("--workers", "1", app="staged_async.py")
    former = server.dispatcher
    with oip.Client(server.address) as client:
        call = client.begin("staged", {})
        (scene,) = stage.started(1)
        with Upgrade(server) as first:
            wait_next(server, former)
            next_one = server.dispatcher
            with Upgrade(server) as second:
                server.log.wait('event=upgrade_ignored reason="one is under way"')
                assert first.process.poll() is None and second.process.poll() is None
                scene.go()
                assert call.exception() is None
                first.finish()
                second.finish()
    assert server.dispatcher == next_one and not procs.alive(former)
    server.note_fds()


def test_while_an_update_rolls(serve, tmp_path):
    """The update goes on under the next controller; no call fails."""
    import test_deploy as deploy
    file = tmp_path / "anyserve.yaml"
    file.write_text(json.dumps(deploy.spec(version="1")))
    server = serve(file, "--state-dir", tmp_path / "state", *deploy.QUICK, verb="start")
    deploy.healthy(server)
    before = deploy.pids(server, "main")
    with Load(server.address, deploy.called, threads=4, options=oip.TRANSPARENT) as load:
        load.wait_more(20)
        assert deploy.put(server, deploy.spec(version="2"))["shop/main"] == ("changed", "restart")
        wait.until(lambda: len(deploy.pids(server, "main")) > 2, server.status)  # a surge: it rolls
        with Upgrade(server) as upgrade:
            upgrade.finish()
        deploy.healthy(server, generation=2)
        load.wait_more(20)
    assert set(load.outcomes) == {"OK"}, (load.outcomes, load.errors[-1])
    assert not before & deploy.pids(server, "main")
    with oip.Client(server.address) as client:
        assert {deploy.ask(client)["version"] for _ in range(8)} == {"2"}
    server.note_fds()

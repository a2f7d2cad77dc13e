"""logging_config: what it changes in Python's logging in a worker, and what it leaves unchanged."""

import json
import re

import pytest
from fake import RECONFIGURE

APP = """
import asyncio, logging
import numpy as np
from anyserve import AnyServe, Batching
app = AnyServe()
own, serving = logging.getLogger("shop.models"), logging.getLogger("anyserve")

@app.model("say")
def say(request):
    own.debug("a %s", "detail")
    own.info("said %d, é\\n\\"two\\"", 7)
    serving.warning("careful")
    return ()

@app.model("fail")
def fail(request):
    try:
        1 / 0
    except ZeroDivisionError:
        own.exception("it failed", extra={"shard": 3, "name_of": ["x"]})
    return ()

@app.model("threads", threads=2)
def threads(request):
    own.info("in a thread")
    return ()

@app.model("stream")
def stream(request):
    own.info("before")
    yield 1.0
    own.info("behind")

@app.model("batch", batching=Batching(4))
def batch(x):
    own.info("of several")
    return x
"""
ASYNC = """
async def child():
    own.info("in a task of its own")

@app.model("later")
async def later(request):
    own.info("first")
    await asyncio.sleep(0)
    own.info("second")
    await asyncio.gather(child(), asyncio.to_thread(own.info, "in a thread"))
    return ()

@app.model("eager", eager=True)
async def eager(request):
    own.info("first")
    await asyncio.sleep(0)
    own.info("second")
    return ()

@app.model("pair")
async def pair(request):
    for i in range(3):
        own.info("turn of %s", request.id)
        await asyncio.sleep(0)
    return ()

@app.model("astream")
async def astream(request):
    own.info("before")
    yield 1.0
    own.info("behind")
"""
TIME = r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "


def config(**said):
    return f"\napp.deployment(logging_config={said!r})\n"


def context(**said):
    return {"ANYSERVE_CONTEXT": json.dumps({"replica": "shop-3", "deployment": "shop", "application": "mall", **said})}


def infer(worker, model, rid="", **more):
    for _ in worker.parts(worker.ask(model, rid=rid, **more)):
        pass


def lines(worker, n):
    """All that was printed, once it is n lines."""
    with worker.printed:
        assert worker.printed.wait_for(lambda: len(worker.log) >= n, 30), worker.output
    return [line.rstrip("\n") for line in worker.log]


def parsed(worker, n):
    return [json.loads(line) for line in lines(worker, n)]


def test_without_it_nothing_is_touched(start):
    worker = start(APP)
    infer(worker, "say")
    assert lines(worker, 1) == ["careful"]  # Python's last resort


def test_text(start):
    worker = start(APP + config(), env=context())
    infer(worker, "say", rid="r 1")
    a, b = lines(worker, 2)
    where = r"replica=shop-3 request=\"r 1\" message="
    assert re.fullmatch(TIME + "level=info logger=shop.models " + where + r'"said 7, é\\n\\"two\\""', a), a
    assert re.fullmatch(TIME + "level=warn logger=anyserve " + where + "careful", b), b
    infer(worker, "fail")
    more = lines(worker, 7)[2:]
    assert re.fullmatch(TIME + r"level=error logger=shop.models replica=shop-3 message=\"it failed\" shard=3"
                        r" name_of=\['x'\]", more[0]), more
    assert more[1] == "Traceback (most recent call last):" and more[-1] == "ZeroDivisionError: division by zero"


def test_json(start):
    worker = start(APP + config(encoding="JSON", log_level="DEBUG"), env=context())
    infer(worker, "say", rid="r 1")
    rows = parsed(worker, 3)
    assert [r["level"] for r in rows] == ["debug", "info", "warn"]
    assert rows[1]["message"] == 'said 7, é\n"two"'
    assert {k: v for k, v in rows[0].items() if k != "time"} == {
        "level": "debug", "logger": "shop.models", "replica": "shop-3", "deployment": "shop", "application": "mall",
        "request": "r 1", "message": "a detail"}
    infer(worker, "fail")
    row = parsed(worker, 4)[-1]
    assert (row["shard"], row["name_of"], "request" in row) == (3, ["x"], False)
    assert row["traceback"].startswith("Traceback") and row["traceback"].endswith("ZeroDivisionError: division by zero")


def test_what_the_worker_says_is_json_too(start):
    source = APP + "\n@app.model('raise')\ndef r(request):\n    raise ValueError('no')\n"
    worker = start(source + config(encoding="JSON"), env=context())
    with pytest.raises(Exception, match="raised ValueError: no"):
        worker.infer("raise")
    (row,) = parsed(worker, 1)
    assert (row["event"], row["level"], row["model"], row["replica"]) == ("handler_raised", "warn", "raise", "shop-3")
    assert row["traceback"].endswith("ValueError: no")


@pytest.mark.parametrize("model, texts", [
    ("threads", ["in a thread"]), ("stream", ["before", "behind"]),
    ("later", ["first", "second", "in a task of its own", "in a thread"]),
    ("eager", ["first", "second"]), ("astream", ["before", "behind"]),
])
def test_requests_are_told_from_each_other(start, model, texts):
    worker = start(APP + ASYNC + config(encoding="JSON"))
    infer(worker, model, rid="one")
    infer(worker, model)
    infer(worker, model, meta=[("x-request-id", "two")])
    rows = parsed(worker, 3 * len(texts))
    found = [(r.get("request"), r["message"]) for r in rows]
    assert sorted(found, key=str) == sorted([(i, t) for i in ("one", None, "two") for t in texts], key=str)


def test_requests_that_run_beside_each_other(start):
    worker = start(APP + ASYNC + config(encoding="JSON"))
    streams = [worker.ask("pair", rid=rid) for rid in ("a", "b", "c")]
    for s in streams:
        worker.answer(s)
    rows = parsed(worker, 9)
    assert all(r["message"] == f"turn of {r['request']}" for r in rows)


def test_a_batch_has_no_id(start):
    x = {"name": "x", "datatype": "INT8", "shape": [1], "data": [1]}
    warm = [{"model": "batch", "request": {"id": "w", "inputs": [x]}}]
    worker = start(APP + f"\napp.deployment(logging_config={{'encoding': 'JSON'}}, warmup_requests={warm!r})\n")
    rows = parsed(worker, 2)
    assert [(r.get("message"), r.get("event"), r.get("request")) for r in rows] == [
        ("of several", None, None), (None, "warmed_up", None)]


def test_it_changes_while_requests_execute(start):
    worker = start(APP + config(log_level="ERROR"))

    def change(**said):
        assert worker.control(RECONFIGURE, json.dumps({"options": said})) == ("OK", "")
    infer(worker, "say")
    change(logging_config={"encoding": "JSON", "log_level": "WARNING"})
    infer(worker, "say", rid="x")
    rows = parsed(worker, 2)
    assert [(r.get("event"), r.get("message"), r.get("request")) for r in rows] == [
        ("reconfigured", None, None), (None, "careful", "x")]
    change()  # what the code says
    infer(worker, "say")
    infer(worker, "fail")
    assert "level=info event=reconfigured" in lines(worker, 4)[2]
    assert "it failed" in lines(worker, 4)[3]


def test_what_the_code_has_set_up_is_its_own(start):
    """Its handler of the root logger and that one's level stay; only "anyserve" is ours."""
    worker = start("import logging\nlogging.basicConfig(format='MINE %(message)s', level='INFO')\n" + APP
                   + config(log_level="ERROR"))
    infer(worker, "say")
    assert lines(worker, 2) == ["MINE said 7, é", '"two"']
    infer(worker, "fail")
    assert lines(worker, 3)[2] == "MINE it failed"


def test_it_goes_as_it_came(start):
    """The file had it, and has it no more: Python's own way of things is back."""
    worker = start(APP, env=context(options={"logging_config": {}}))
    infer(worker, "say")
    assert len(lines(worker, 2)) == 2
    assert worker.control(RECONFIGURE, '{"options": {}}') == ("OK", "")
    infer(worker, "say")
    assert lines(worker, 4)[3] == "careful"


@pytest.mark.parametrize("said", [{"log_level": "LOUD"}, {"encoding": "XML"}, {"logs": "/tmp"}, {"logs_dir": ""},
                                  {"enable_access_log": 1}, {"additional_log_standard_attrs": "name"}, 7])
def test_what_there_is_not(start_module, said):
    worker = start_module(APP)
    status, why = worker.control(RECONFIGURE, json.dumps({"options": {"logging_config": said}}))
    assert status == "INVALID_ARGUMENT" and "logging_config" in why

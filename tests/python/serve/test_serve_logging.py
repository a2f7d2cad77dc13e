"""The logs of a replica: Ray's lines in text and JSON, files, access lines, and the id of the current request."""

import asyncio
import json
import logging
import re
import sys
import types

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve import replica  # noqa: E402
from anyserve.replica import ReplicaContext  # noqa: E402
from anyserve.runtime import log, logging_config  # noqa: E402
from anyserve.serve import context  # noqa: E402
from anyserve.serve._calls.transport import CallMeta  # noqa: E402
from anyserve.serve._replica import log as _logging  # noqa: E402
from anyserve.serve._replica.core import ReplicaCore  # noqa: E402

WHERE = ReplicaContext("Talker-0", "Talker", "talk")
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"
ours = logging.getLogger("ray.serve")
users = logging.getLogger("shop.models")


@pytest.fixture(autouse=True)
def no_handlers(monkeypatch):
    """pytest's own handlers of the root logger, which it adds before the test, are no user's."""
    root = logging.getLogger()
    add = root.addHandler
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "addHandler", lambda h: None if type(h).__module__.startswith("_pytest") else add(h))
    yield
    logging_config.configure(None, WHERE)
    context.set_process_core(None)
    replica._current = None
    assert log.json_fields is None and ours.handlers == [] and ours.propagate


def lines(capfd):
    return capfd.readouterr().err.splitlines()


def rows(capfd):
    return [json.loads(line) for line in lines(capfd)]


async def in_call(act, request_id="r-1", **more):
    """Runs act as the code of a call."""
    core = ReplicaCore(act, (), {}, config=types.SimpleNamespace(max_ongoing_requests=2, user_config=None), context=WHERE,
                       shared=True)  # fmt: skip
    await core.start()
    return await asyncio.ensure_future(core.call(CallMeta("talk", "Talker", "__call__", False, request_id, **more)))


def test_text_is_rays(capfd):
    _logging.configure({}, WHERE)
    ours.info("up %d", 1)
    asyncio.run(in_call(lambda: ours.warning("in a call")))
    logging.getLogger("anyserve").error("ours")
    users.debug("no")
    users.info("users")
    a, b, c, d = lines(capfd)
    assert re.fullmatch("INFO %s talk_Talker Talker-0 -- up 1" % TIME, a)
    assert re.fullmatch("WARNING %s talk_Talker Talker-0 r-1 -- in a call" % TIME, b)
    assert re.fullmatch("ERROR %s talk_Talker Talker-0 -- ours" % TIME, c)
    assert re.fullmatch("INFO %s talk_Talker Talker-0 -- users" % TIME, d)


def test_without_a_logging_config_only_the_serving_loggers_are_set_up(capfd):
    _logging.configure(None, WHERE)
    ours.debug("no")
    ours.info("yes")
    users.info("no")
    assert [line.split("-- ")[1] for line in lines(capfd)] == ["yes"]
    assert logging.getLogger().handlers == []


def test_json_has_rays_keys(capfd):
    _logging.configure({"encoding": "JSON", "log_level": "DEBUG"}, WHERE)

    def act():
        ours.debug("a %s", 'text "é"\n', extra={"shard": 3, "what": {1}, "ray_serve_extra_fields": {"flat": True},
                                              "log_to_stderr": False})  # fmt: skip
        try:
            1 / 0
        except ZeroDivisionError:
            ours.exception("it failed")

    asyncio.run(in_call(act))
    ours.info("outside")
    row, failed, outside = (r for r in rows(capfd) if r["filename"] == "test_serve_logging.py")  # not asyncio's
    line = row.pop("lineno")
    assert re.fullmatch(TIME, row.pop("asctime")) and row.pop("timestamp_ns") > 1e18 and row.pop("process") > 1
    assert row == {"levelname": "DEBUG", "message": 'a text "é"\n', "filename": "test_serve_logging.py", "request_id": "r-1",
                   "application": "talk", "deployment": "talk_Talker", "replica": "Talker-0", "component_name": "replica",
                   "shard": 3, "what": "{1}", "flat": True}  # fmt: skip
    assert failed["exc_text"].endswith("ZeroDivisionError: division by zero") and failed["lineno"] > line
    assert "request_id" not in outside and "component_id" not in outside


def test_more_attributes(capfd):
    _logging.configure({"encoding": "JSON", "additional_log_standard_attrs": ["name", "funcName", "nothing"]}, WHERE)
    users.info("x")
    (row,) = rows(capfd)
    assert (row["name"], row["funcName"], row["nothing"]) == ("shop.models", "test_more_attributes", None)
    _logging.configure({"additional_log_standard_attrs": ["name", "nothing"]}, WHERE)
    users.info("x")
    assert re.fullmatch("INFO %s talk_Talker Talker-0 shop.models None -- x" % TIME, lines(capfd)[0])


def test_files(capfd, tmp_path):
    folder = tmp_path / "a" / "b"
    _logging.configure({"logs_dir": str(folder)}, ReplicaContext("my app#D/x-0", "D/x", "my app"))
    users.info("to both")
    (file,) = folder.iterdir()
    assert file.name == "replica_my_app_D_x_my_app_D_x-0.log"
    assert file.read_text().splitlines() == lines(capfd) != []
    _logging.configure({}, WHERE)
    users.info("no longer")
    assert "no longer" not in file.read_text()


def test_a_folder_that_cannot_be_made(capfd, tmp_path):
    (tmp_path / "file").write_text("")
    _logging.configure({"logs_dir": str(tmp_path / "file" / "x")}, WHERE)
    ours.info("on stderr still")
    said, line = lines(capfd)
    assert "event=logs_dir_failed" in said and "Not a directory" in said and line.endswith("-- on stderr still")


def test_request_ids_in_tasks_and_threads(capfd):
    _logging.configure({"encoding": "JSON"}, WHERE)

    async def act():
        ours.info("call")
        await asyncio.gather(asyncio.to_thread(ours.info, "thread"), asyncio.create_task(child()))

    async def child():
        ours.info("task")

    async def main():
        await asyncio.gather(*(in_call(act, "r-%d" % i) for i in range(3)))

    asyncio.run(main())
    found = sorted((r["request_id"], r["message"]) for r in rows(capfd))
    assert found == sorted(("r-%d" % i, m) for i in range(3) for m in ("call", "thread", "task"))
    token = logging_config.request_id.set("of a tensor request")
    ours.info("x")
    logging_config.request_id.reset(token)
    assert rows(capfd)[0]["request_id"] == "of a tensor request"


def replica_process(logging_config, act):
    """What a replica logs of three calls: one that ends well, one that fails, one that is cancelled."""

    class Deployed:
        async def __call__(self):
            return act()

        async def fail(self):
            raise ValueError("no")

        async def wait(self):
            await asyncio.Event().wait()

    async def main():
        core = ReplicaCore(Deployed, (), {}, context=WHERE, config=types.SimpleNamespace(
            max_ongoing_requests=2, user_config=None, logging_config=logging_config))  # fmt: skip
        await core.start()
        calls = [asyncio.ensure_future(core.call(CallMeta("talk", "Talker", m, False, "r-" + m)))
                 for m in ("__call__", "fail", "wait")]  # fmt: skip
        await asyncio.sleep(0)
        calls[2].cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await core.stop()

    asyncio.run(main())


def test_access_lines(capfd):
    replica_process({"encoding": "JSON"}, lambda: None)
    access = [r for r in rows(capfd) if r.get("message", "").startswith("CALL")]
    assert [(re.sub(r"[\d.]+ms", "Nms", r["message"]), r["request_id"], r["levelname"]) for r in access] == [
        ("CALL __call__ OK Nms", "r-__call__", "INFO"), ("CALL fail ERROR Nms", "r-fail", "INFO"),
        ("CALL wait CANCELLED Nms", "r-wait", "INFO")]  # fmt: skip
    assert not any("serve_access_log" in r for r in access)


@pytest.mark.parametrize("config", [None, {"enable_access_log": False}])
def test_no_access_lines(capfd, config):
    def act():
        ours.info("mine", extra={"serve_access_log": True})
        ours.info("other")

    replica_process(config, act)
    said = [line for line in lines(capfd) if " -- " in line]
    assert [line.split(" -- ")[1] for line in said] == (["mine", "other"] if config is None else ["other"])


def test_events_of_the_replica_are_json_too(capfd):
    replica_process({"encoding": "JSON", "enable_access_log": False}, lambda: None)
    (row,) = rows(capfd)
    assert (row["event"], row["request"], row["method"], row["replica"]) == ("handler_raised", "r-fail", "fail", "Talker-0")
    assert row["traceback"].endswith("ValueError: no")

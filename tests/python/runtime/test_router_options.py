"""How a worker tells the server how replicas are to be chosen."""

import json
import sys

import pytest
from fake import PACKAGE, RECONFIGURE

sys.path.insert(0, str(PACKAGE))
from anyserve.runtime import options  # noqa: E402

NONE = (None, None, 0, 0, 0, 0, 0, 0, False, 0, 0, 0)
SECOND = 10**9


def sent(config, refuse=()):
    seen = []

    def set_router(*args):
        seen.append(args)
        if args in refuse:
            raise ValueError("out of range")

    options.send_router(set_router, {} if config is None else {"request_router_config": config})
    return seen


def test_a_built_in_policy_has_arguments():
    assert sent({"request_router_class": "session", "initial_backoff_s": 0.5, "backoff_multiplier": 1.5, "max_backoff_s": 2,
                 "request_router_kwargs": {"session_header": "x-user", "max_wait_s": 0, "virtual_nodes": 7, "fallbacks": 0,
                                           "bound": 1.25, "session_ttl_s": 60, "max_sessions": 9, "prefer_local": True}}) == [
        ("session", "x-user", -1, 7, -1, 125, 60 * SECOND, 9, True, SECOND // 2, 150, 2 * SECOND)]  # fmt: skip


@pytest.mark.parametrize("config", [None, {}, {"request_router_class": options._RAYS_DEFAULT}, {"request_router_kwargs": {}}])
def test_no_wish_is_sent_too_so_that_a_former_one_ends(config):
    assert sent(config) == [NONE]


@pytest.mark.parametrize("path", ["a.b:C", "a.b.C"])
def test_a_class_of_the_program_has_arguments_of_its_own(path):
    assert sent({"request_router_class": path, "request_router_kwargs": {"bound": "any"}, "max_backoff_s": 1}) == [
        (*NONE[:-1], SECOND)]  # fmt: skip


def test_what_an_earlier_version_has_stored_ends_no_worker(capfd):
    low = (*NONE[:9], 10**5, 0, 0)
    assert sent({"initial_backoff_s": 0.0001}, refuse=[low]) == [low, NONE]
    assert sent({"request_router_kwargs": {"bound": "x"}}) == [NONE]
    assert capfd.readouterr().err.count("event=router_refused") == 2


BARE = "import numpy as np\nfrom anyserve import AnyServe\napp = AnyServe()\n@app.model('m')\ndef m(x):\n    return x\n"


def context(**config):
    return {"ANYSERVE_CONTEXT": json.dumps({"options": {"request_router_config": config}})}


def test_it_is_told_with_the_greeting_and_changes_while_it_serves(start):
    worker = start(BARE, env=context(request_router_class="session", request_router_kwargs={"max_wait_s": 0.5}))
    assert worker.router == ("session", "", {1: SECOND // 2})
    said = {"request_router_class": "round_robin", "request_router_kwargs": {"session_header": "X_User"}}
    assert worker.control(RECONFIGURE, json.dumps({"options": {"request_router_config": said}})) == ("OK", "")
    assert worker.router == ("round_robin", "x-user", {})
    assert worker.control(RECONFIGURE, '{"options": {}}') == ("OK", "")
    assert worker.router == ("", "", {})

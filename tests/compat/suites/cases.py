"""A plugin of pytest: the cases of a suite go through the server, and what became of each is written down, a line of JSON each."""

import inspect
import json
import os

import exchange
import pytest
from exchange import Exchange

if os.environ["SUITE_NAME"] == "websockets":
    import websocket_cases as replaced
else:
    import clients as replaced

replaced.install()
_before = 0
_out = open(os.environ["SUITE_RESULTS"], "w", buffering=1)  # noqa: SIM115


def write(**what):
    _out.write(json.dumps(what) + "\n")


def pytest_collection_modifyitems(items):
    for module in {item.module for item in items}:
        replaced.adapt(module)
    kept = []
    for item in items:
        why = replaced.is_left_out(item)
        if why:
            write(case=item.nodeid, how="left out", requests=0, why=why)
        else:
            if inspect.iscoroutinefunction(item.obj) and item.cls is None:
                item.obj = on_replica(item.obj)
            kept.append(item)
    items[:] = kept


def on_replica(case):
    """A case that is a coroutine runs on the event loop of the replica: it shares events with its application."""
    return lambda **arguments: exchange.run_on_loop(case(**arguments), 3 * exchange.SECONDS)


def pytest_collectreport(report):
    if report.failed:
        write(case=report.nodeid, how="failed", requests=0, why=report.longreprtext[-2000:])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    global _before
    _before = Exchange.count
    yield


def pytest_runtest_logreport(report):
    how = None
    if hasattr(report, "wasxfail"):
        how = "xfailed" if report.when == "call" else None
    elif report.failed:
        how = "failed"
    elif report.skipped:
        how = "skipped"
    elif report.when == "call":
        how = "passed"
    if how:
        write(case=report.nodeid, how=how, when=report.when, requests=Exchange.count - _before,
              why="" if how == "passed" else report.longreprtext[-3000:])

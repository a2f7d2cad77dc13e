"""Fixtures that start workers; the output of a worker is shown when its test fails."""

import signal
import textwrap

import pytest
from fake import PACKAGE, Worker

_alive = []


def pytest_configure():
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # `&` in a script; workers would be started so, too
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not (PACKAGE / "anyserve" / "__init__.py").exists():
        pytest.exit(f"{PACKAGE} holds no package: build first (ANYSERVE_BUILD names the build)", 2)


def _factory(tmp_path_factory):
    started = []

    def start(source=None, *args, name="app.py", greet=True, kind=Worker, **kwargs):
        """A worker for this source."""
        folder = tmp_path_factory.mktemp("app")
        if source is not None:
            (folder / name).write_text(textwrap.dedent(source))
        worker = kind(*(args or (name,)), cwd=folder, **kwargs)
        worker.app_folder = folder
        started.append(worker)
        _alive.append(worker)
        return worker.greet() if greet else worker

    return start, started


def _close(started):
    for worker in started:
        _alive.remove(worker)
        worker.close()


@pytest.fixture
def start(tmp_path_factory):
    start, started = _factory(tmp_path_factory)
    yield start
    _close(started)


@pytest.fixture(scope="module")
def start_module(tmp_path_factory):
    start, started = _factory(tmp_path_factory)
    yield start
    _close(started)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for worker in _alive:
            report.sections.append(("output of the worker", worker.output[-5000:]))

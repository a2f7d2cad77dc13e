"""Fixtures: servers that are checked when they end, and after each test that used them."""

import compileall
import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from support import paths, stage as stages  # noqa: E402
from support.process.server import Server  # noqa: E402
from support.protocol import oip  # noqa: E402

_alive = []  # servers, in the order of their start


def pytest_configure():
    for ignored in signal.SIGHUP, signal.SIGINT:  # nohup, `&` in a script; servers would be started so, too
        if signal.getsignal(ignored) is signal.SIG_IGN:
            signal.signal(ignored, lambda *_: None)
    # Python would take the compiled code of an earlier app.py that has the same size and modification second.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for needed in (paths.BINARY, paths.SDK / "anyserve", paths.PROTO):
        if not needed.exists():
            pytest.exit(f"{needed} does not exist: build first (ANYSERVE_BUILD names the build)", 2)
    compileall.compile_dir(paths.SDK, quiet=2)  # else each of some thousand workers compiles it again


def _factory(tmp_path_factory):
    started = []

    def serve(target, *options, source=None, **kwargs):
        """Starts a server for a file in apps/, for any path, or for `source`, saved as `target`."""
        if source is not None:
            target = tmp_path_factory.mktemp("app") / target
            target.write_text(source)
        server = Server(target, *options, **kwargs)
        started.append(server)
        _alive.append(server)
        return server

    def finish(is_failed):
        errors = []
        for server in reversed(started):
            _alive.remove(server)
            try:
                if is_failed or server.exit_code is not None:
                    server.kill()
                else:
                    if not server.is_spoiled:
                        server.settle()
                    server.stop()
            except AssertionError as e:
                errors.append(str(e))
                server.kill()  # one that is not at rest was not stopped
        assert not errors, "\n".join(errors)

    return serve, finish


@pytest.fixture(scope="module")
def serve_module(tmp_path_factory):
    """serve(target, *options): a server for all tests of the file."""
    serve, finish = _factory(tmp_path_factory)
    yield serve
    finish(False)


@pytest.fixture
def serve(tmp_path_factory, request):
    """serve(target, *options): a server for this test alone."""
    serve, finish = _factory(tmp_path_factory)
    yield serve
    finish(getattr(request.node, "has_failed", False))


@pytest.fixture
def connect(serve):
    """connect(server) → a client that is closed before any server is checked."""
    clients = []

    def connect(server, **kwargs):
        clients.append(oip.Client(server if isinstance(server, str) else server.address, **kwargs))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def client(server, connect):
    """A client of the file's `server`."""
    return connect(server)


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """Where handlers wait for their cue; give its path to the server as ANYSERVE_TEST_STAGE."""
    import tempfile
    with tempfile.TemporaryDirectory(prefix="as-", dir="/tmp") as folder:
        stage = stages.Stage(folder)
        yield stage
        stage.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        item.has_failed = True
        for server in _alive:
            report.sections.append((f"output of the server {server.process.pid}", server.log.text()[-20000:]))


@pytest.fixture
def staged(serve, stage):
    """staged(*options, app=…) → a server whose handlers wait for cues."""
    def start(*options, app="staged.py", env=None, **kwargs):
        stage.reset()
        return serve(app, *options, env={"ANYSERVE_TEST_STAGE": stage.path, **(env or {})}, **kwargs)
    return start


@pytest.fixture(autouse=True)
def settled(request):
    """After each test every server is at rest again."""
    yield
    if getattr(request.node, "has_failed", False):
        return
    for server in _alive:
        if not server.is_spoiled:  # the test that spoilt it has failed; those after it say nothing new
            server.is_spoiled = True
            server.settle()
            server.is_spoiled = False

"""`make chaos` in short, part three: the dispatcher dies under load from clients that call again."""

import pytest

import chaos
from security.certificates import Authority
from support import paths
from support.process import procs

from scenarios import dispatcher  # noqa: E402, of tests/chaos

pytestmark = pytest.mark.core

MODEL = paths.ROOT / "tests/chaos/apps/model.py"


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_clients_that_call_again_are_answered(serve, tmp_path, protocol, tls):
    authority = Authority(tmp_path) if tls else None
    server = serve(MODEL, "--workers", "2", "--log-level", "warn", *(authority.server().options if tls else ()))
    server.wait_all_ready()
    before = dispatcher.places(server)
    with chaos.loaded(server, protocol, "nap", rate=50, retry=30, ca=tls and authority.cert) as load:
        for _ in range(3):
            old = server.dispatcher
            procs.kill(old)
            dispatcher.new_dispatcher(server, old)
    assert not load.outcome.errors, load.outcome.examples()
    assert load.outcome.refused == 0
    assert dispatcher.places(server) == before
    server.note_fds()

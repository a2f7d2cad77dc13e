"""Clients that have gone while the server still has their requests."""

import contextlib

import pytest
from http_site import site
from support import wait
from support.protocol import http as clients

pytestmark = pytest.mark.core


def leave(site, version, path):
    """A request whose client goes when its handler has begun."""
    name = f"alone-{version}"
    if version == "h1":
        with contextlib.closing(site.begin("GET", f"{path}?name={name}", [("x-request-id", "left")])):
            site.wait_logged(f"{name} began")
    else:
        with contextlib.closing(clients.Http2(site.host, site.port)) as c:
            c.conn.conn.send_headers(c.conn.conn.get_next_available_stream_id(), [
                (":method", "GET"), (":path", f"{path}?name={name}"), (":scheme", "http"), (":authority", "h")], end_stream=True)  # fmt: skip
            c.conn.flush()
            site.wait_logged(f"{name} began")


@pytest.mark.parametrize("threads", [1, 3])
def test_a_replica_that_dies_when_the_client_has_gone(threads):
    """What the server compares of requests that may have ended a replica outlives their connections."""
    with site(f"--threads={threads}", "--restart-backoff=10ms") as s:
        import http_app

        s.api.run(http_app.web, name="web", route_prefix="/web")
        def served_by():
            got = s.get("/web/info")
            return got.json()["pid"] if got.status == 200 else None

        for version in ("h1", "h2") * 2:
            former = served_by()
            leave(s, version, "/web/die_alone")
            wait.until(lambda: served_by() not in (former, None), lambda: s.log)

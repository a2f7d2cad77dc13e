"""Requests to an application that take too long, and a server that ends."""

import contextlib

import pytest
from http_site import site

from support import wait

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def hasty():
    with site("--request-timeout=1", "--body-timeout=1") as s:
        import http_app

        s.api.run(http_app.web, name="web", route_prefix="/web")
        yield s


def test_a_request_over_its_time(hasty, version):
    got = hasty.get("/web/hold?name=late", headers=[("x-request-id", "r-1")], version=version)
    assert (got.status, got.data) == (408, b"Request r-1 timed out after 1.0s.")
    hasty.wait_logged("late lost its client")


@pytest.mark.parametrize("sent", [0, 10, 70_000])
def test_an_upload_that_stands_still(hasty, sent):
    with contextlib.closing(hasty.begin("POST", "/web/count", [("content-length", "100000")])) as c:
        c.send(b"x" * sent)
        got = c.getresponse()
        assert got.status == 408 and got.headers["x-request-id"]


def test_a_handler_that_never_ends_its_answer(hasty, version):
    assert hasty.get("/web/forever", version=version).status == 408
    assert wait.until(lambda: hasty.get("/web/info").status == 200, "others are served")

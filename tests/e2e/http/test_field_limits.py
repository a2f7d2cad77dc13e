"""Requests with more header fields than a replica can be sent, whatever --max-headers and --max-header-bytes allow."""

import pytest
from http_site import site

pytestmark = pytest.mark.core

FIELDS, ADDED = 1024, 2  # of a request; host and x-request-id


@pytest.fixture(scope="module")
def roomy():
    with site("--max-headers=2000", "--max-header-bytes=1M") as s:
        import http_app

        s.api.run(http_app.web, name="web", route_prefix="/web")
        yield s


def test_as_many_fields_as_a_request_may_have(roomy):
    def status(n):
        return roomy.get("/web/info", headers=[(f"x-{i}", "y") for i in range(n)]).status

    most = next(n for n in range(FIELDS - 10, FIELDS + 10) if status(n) != 200) - 1
    assert FIELDS - 10 < most <= FIELDS - ADDED
    assert (status(most), status(most + 1)) == (200, 431)


def test_as_many_bytes_as_a_request_may_have(roomy):
    """All of them are in one table of 512 KiB, with the texts of the request."""
    def status(n):
        return roomy.get("/web/info", headers=[("x-large", "y" * n)]).status

    assert (status(512 * 1024 - 2000), status(512 * 1024)) == (200, 431)
    assert status(10) == 200

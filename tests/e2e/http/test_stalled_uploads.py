"""Uploads that stand still after their handler has begun: each holds a slot."""

import contextlib

import pytest
from http_site import site

pytestmark = pytest.mark.core


@pytest.fixture(scope="module", params=["64K", "0"])
def patient(request):
    """No deadline ends a request, only --body-timeout does."""
    with site("--body-timeout=1", f"--ingress-buffer={request.param}") as s:
        import http_app

        s.api.run(http_app.web, name="web", route_prefix="/web")
        s.buffer = {"64K": 65536, "0": 0}[request.param]
        yield s


@pytest.mark.parametrize("beyond", [0, 1])
def test_an_upload_that_stands_still(patient, beyond):
    """With 0, all that has come is inside the first frame, or nothing has come."""
    name = f"still-{beyond}"
    with contextlib.closing(patient.begin("POST", f"/web/count?name={name}", [("content-length", "100000")])) as c:
        c.send(b"x" * (patient.buffer + beyond))
        assert c.getresponse().status == 408
    patient.wait_logged(f"{name} began")

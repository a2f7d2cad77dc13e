"""`web`: a server with the applications of apps/asgi/http_app.py, each below its prefix, for the tests of a file."""

import pytest
from http_site import site


@pytest.fixture(scope="module")
def web():
    with site("--ingress-buffer=1000") as s:
        import http_app

        s.api.run(http_app.web, name="web", route_prefix="/web")
        s.api.run(http_app.pair, name="pair", route_prefix="/web/pair")
        s.api.run(http_app.narrow, name="narrow", route_prefix="/narrow")
        s.api.run(http_app.deaf, name="deaf", route_prefix="/deaf")
        s.api.run(http_app.plain, name="plain", route_prefix="/plain")
        s.api.run(http_app.chain, name="chain", route_prefix="/chain")
        yield s


@pytest.fixture(params=["h1", "h2"])
def version(request):
    return request.param



"""What a newcomer looks for on the port of clients and does not find there: the answer says where it is instead."""

import html.parser
import http.client
import json

import pytest

from support import ports
from support.protocol import oip

pytestmark = pytest.mark.core
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ELSEWHERE = {"/docs": "/openapi.json", "/metrics": "/metrics", "/v2/models": "/v2/models/stats"}


@pytest.fixture(scope="module")
def status_port():
    return ports.free()


@pytest.fixture(scope="module")
def server(serve_module, status_port):
    return serve_module("echo.py", "--status-port", str(status_port))


def ask(server, path, accept=None, method="GET"):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=oip.SECONDS)
    connection.request(method, path, headers={"Accept": accept} if accept else {})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer, body


class Page(html.parser.HTMLParser):
    """Well formed, and its links."""

    def __init__(self, text):
        super().__init__()
        self.links, self._open = [], []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "link"):
            self._open.append(tag)
        if tag == "a":
            self.links.append(dict(attributes)["href"])

    def handle_endtag(self, tag):
        assert self._open.pop() == tag


def works(server, status_port, href):
    if href.startswith("/"):
        return ask(server, href)[0].status == 200
    assert href.startswith(f"http://127.0.0.1:{status_port}/")
    connection = http.client.HTTPConnection("127.0.0.1", status_port, timeout=oip.SECONDS)
    connection.request("GET", href.removeprefix(f"http://127.0.0.1:{status_port}"))
    return connection.getresponse().status == 200


@pytest.mark.parametrize("path", ["/", *ELSEWHERE])
@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "text/plain;version=0.0.4", "application/json, text/html;q=0.5",
                                    BROWSER])
def test_says_what_is_there_instead(server, status_port, path, accept):
    answer, body = ask(server, path, accept)
    assert answer.status == (200 if path == "/" else 404)
    assert answer.getheader("Vary") == "accept" and answer.getheader("Cache-Control") == "no-store"
    if accept == BROWSER:
        assert answer.getheader("Content-Type") == "text/html; charset=utf-8"
        links = Page(body).links
    else:
        assert answer.getheader("Content-Type") == "application/json"
        said = json.loads(body)
        assert ("error" in said) == (path != "/")
        links = [link["href"] for link in said["links"]]
        assert all(link["about"] for link in said["links"])
    assert [link for link in links if link.endswith(ELSEWHERE.get(path, "/v2"))], links
    for link in links:
        assert works(server, status_port, link), link


def test_index_names_the_models(server):
    body = json.loads(ask(server, "/")[1])
    assert {"href": "/v2/models/echo", "about": "model echo"} in body["links"]
    assert "/v2/models/echo" in Page(ask(server, "/", BROWSER)[1]).links


def test_query_head_and_other_methods(server):
    assert ask(server, "/?q=1")[0].status == 200
    assert ask(server, "/docs?q=1")[0].status == 404
    answer, body = ask(server, "/", method="HEAD")
    assert answer.status == 200 and not body and int(answer.getheader("Content-Length")) > 100
    answer, body = ask(server, "/", method="POST")
    assert answer.status == 404 and json.loads(body) == {"error": "not found"}
    answer, body = ask(server, "/v2/models/", BROWSER)
    assert answer.status == 404 and Page(body).links
    answer, body = ask(server, "/nothing", BROWSER)
    assert answer.status == 404 and json.loads(body) == {"error": "not found"}


def test_without_a_status_port(serve):
    server = serve("echo.py")
    answer, body = ask(server, "/metrics")
    said = json.loads(body)
    assert answer.status == 404 and "--status-port" in said["error"]
    assert not [link for link in said["links"] if "metrics" in link["href"]]


def test_many_models_and_odd_names(serve):
    server = serve("app.py", source="""
from anyserve import AnyServe

app = AnyServe()
for name in ["team/a", *(f"m{i:03}" for i in range(40))]:
    app.model(name)(lambda request: request.inputs)
""")
    body = json.loads(ask(server, "/")[1])
    models = [link for link in body["links"] if link["about"].startswith("model ")]
    assert len(models) == 20 and "41 models" in body["about"]
    assert works(server, None, models[0]["href"])
    assert works(server, None, "/v2/models/team/a")

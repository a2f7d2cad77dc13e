"""Clients of Node.js: what it brings, and grpc-js."""

from pathlib import Path

import pytest

from conftest import ADD, INSTALLED
from support import paths

HERE = Path(__file__).resolve().parent


def test_fetch_http_http2(run, server):
    """fetch, http with an agent that keeps connections, http2: each three times; fetch reads a stream of events."""
    assert run("node", HERE / "node_http.mjs", server.address, ADD) == "fetch ok\nhttp ok\nhttp2 ok\nstream ok\n"


@pytest.mark.install
def test_grpc_js(run, server):
    assert (INSTALLED / "node_modules/@grpc/grpc-js").is_dir(), "grpc-js is not installed: tests/compat/install.py"
    assert run("node", HERE / "node_grpc.cjs", server.address, paths.PROTO, INSTALLED) == "infer ok\nerror ok\nhealth ok\n"

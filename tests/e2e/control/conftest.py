"""Fixtures of the tests that deploy."""

import json

import pytest

from support.deployments import QUICK


@pytest.fixture
def start(serve, tmp_path):
    """start(spec or None, *options) → a server with its state in tmp_path/state."""
    def start(what, *options, **kwargs):
        file = None
        if what is not None:
            file = tmp_path / "anyserve.yaml"
            file.write_text(what if isinstance(what, str) else json.dumps(what))
        server = serve(file, "--state-dir", tmp_path / "state", *QUICK, *options, verb="start", **kwargs)
        return server
    return start

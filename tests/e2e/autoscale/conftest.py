"""Fixtures of the tests with replicas that follow the load."""

import json

import pytest

from support.autoscaling import scaled_spec
from support.deployments import QUICK


@pytest.fixture
def start_file(serve, tmp_path):
    """start_file(spec, *options) → a server with its state in tmp_path/state."""
    def start(what, *options, **kwargs):
        file = tmp_path / "anyserve.yaml"
        file.write_text(json.dumps(what))
        return serve(file, "--state-dir", tmp_path / "state", *QUICK, *options, verb="start", **kwargs)
    return start


@pytest.fixture
def scaled(start_file, stage):
    """scaled(*options, **config) → a server of `staged` with this autoscaling_config."""
    def start(*options, **config):
        stage.reset()
        return start_file(scaled_spec(**config), *options, env={"ANYSERVE_TEST_STAGE": stage.path})
    return start

"""Each test starts without metrics and logs of a replica: the replicas of several tests share this process."""

import sys

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))


@pytest.fixture(autouse=True)
def no_metrics():
    from anyserve.replica import ReplicaContext
    from anyserve.runtime import logging_config
    from anyserve.serve.metrics import registry

    registry.families.clear()
    registry.collectors.clear()
    registry.dirty = registry._was_cut = False
    registry.on_dirty = None
    yield
    registry.families.clear()
    registry.collectors.clear()
    logging_config.configure(None, ReplicaContext())

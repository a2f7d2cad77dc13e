"""A thousand models that nobody calls: what a monitoring system and a client generator get stays small."""

import json
import urllib.request

import numpy as np
import pytest

from support.protocol import oip, prometheus

pytestmark = pytest.mark.core
MODELS = 1000


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("many_models.py")


def of_model(metrics, name):
    return {sample for sample, labels in metrics if dict(labels).get("model") == name}


def test_metrics(server, client):
    """An idle model has no series; a dashboard finds all those of deployments, counters and gauges, from the first moment."""
    text = server.metrics()
    assert len(text) < 32 * 1024
    metrics = prometheus.parse(text)
    assert not [labels for _, labels in metrics if "model" in dict(labels)]
    here = (("application", "default"), ("deployment", "many_models"))
    for name in ("anyserve_deployment_accepted_total", "anyserve_rejected_requests_total", "anyserve_completed_total",
                 "anyserve_failed_total", "anyserve_lost_total", "anyserve_replica_deaths_total", "anyserve_queued_requests",
                 "anyserve_ongoing_requests", "anyserve_replicas_ready"):
        assert (name, frozenset(here)) in metrics, name
    assert ("anyserve_worker_exits_total", frozenset({*here, ("cause", "hung")})) in metrics
    client.infer("model_0007", {"x": np.zeros((1, 28), np.float32)})
    metrics = prometheus.parse(server.metrics())
    for name in ("anyserve_model_queue_duration_seconds", "anyserve_model_batch_size"):
        assert prometheus.total(metrics, f"{name}_count", model="model_0007", version="1") == 1
        assert prometheus.total(metrics, f"{name}_bucket", model="model_0007", le="+Inf") == 1
    assert not of_model(metrics, "model_0008")
    assert prometheus.total(metrics, "anyserve_request_duration_seconds_count", deployment="many_models") == 1


def test_openapi(server):
    """What all models have is said once; each of those that are described has its signature."""
    with urllib.request.urlopen(f"http://{server.address}/openapi.json", timeout=oip.SECONDS) as answer:
        text = answer.read()
    assert len(text) < 512 * 1024
    document = json.loads(text)
    assert f"signatures of 256 of {MODELS} models" in document["info"]["description"]
    for path in ("", "/ready", "/infer", "/generate", "/generate_stream", "/config", "/stats", "/trace/setting"):
        for version in ("", "/versions/{version}"):
            assert f"/v2/models/{{model}}{version}{path}" in document["paths"]
    own = document["paths"]["/v2/models/model_0007/infer"]["post"]
    assert "28" in json.dumps(own["requestBody"])
    assert "/v2/models/model_0007/ready" not in document["paths"]

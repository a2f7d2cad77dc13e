"""The names of the package: those of Ray Serve that are here, and what is said about the others."""

import asyncio
import contextvars
import inspect
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve import serve  # noqa: E402
from anyserve.serve import request_router, schema  # noqa: E402
from anyserve.serve._calls import transport  # noqa: E402

# ray.serve.__all__ of 2.60, and the modules that programs import names from
RAY = """batch start ControllerOptions HTTPOptions TracingConfig get_replica_context get_deployment_actor
    get_deployment_actor_context get_trace_context shutdown shutdown_async ingress deployment run run_many RunTarget delete
    Application Deployment multiplexed get_multiplexed_model_id status get_app_handle get_deployment_handle""".split()
MODULES = {
    "handle": "DeploymentHandle DeploymentResponse DeploymentResponseGenerator DeploymentBroadcastResponse",
    "config": "AutoscalingConfig AutoscalingPolicy AutoscalingContext BackpressureConfig ControllerOptions HTTPOptions gRPCOptions "
              "RequestRouterConfig ProxyLocation AggregationFunction GangSchedulingConfig DeploymentActorConfig DeploymentID",
    "exceptions": "RayServeException BackPressureError RequestCancelledError DeploymentUnavailableError ReplicaUnavailableError "
                  "gRPCStatusError",
    "autoscaling_policy": "default_autoscaling_policy replica_queue_length_autoscaling_policy",
    "metrics": "Counter Gauge Histogram",
    "context": "ReplicaContext _serve_request_context _get_internal_replica_context",
    "schema": "ServeStatus ApplicationStatus ApplicationStatusOverview DeploymentStatus DeploymentStatusOverview LoggingConfig "
              "ReplicaState ProxyStatus EncodingType TracingConfig ReplicaRank DeploymentStatusTrigger",
    "request_router": "FIFOMixin LocalityMixin MultiplexMixin PendingRequest ReplicaID RequestRouter RunningReplica ReplicaResult",
    "batching": "batch", "multiplex": "multiplexed", "deployment": "Application Deployment",
}  # fmt: skip


@pytest.mark.parametrize("name", RAY)
def test_names_of_ray(name):
    if name in serve._NOT_YET:
        with pytest.raises(AttributeError, match="serve.%s is not supported yet: " % name):
            getattr(serve, name)
    else:
        assert name in serve.__all__ and getattr(serve, name) is not None and name in dir(serve)


@pytest.mark.parametrize("package", ["anyserve.serve", "ray.serve"])
@pytest.mark.parametrize("module, name", [
    ("task_consumer", "task_consumer"), ("task_consumer", "task_handler"), ("task_consumer", "instantiate_adapter_from_config"),
    ("task_processor", "CeleryTaskProcessorAdapter"), ("taskiq_task_processor", "TaskiqAdapterConfig"),
    ("schema", "TaskProcessorConfig"), ("schema", "CeleryAdapterConfig")])  # fmt: skip
def test_task_consumers_are_not_supported_yet(package, module, name):
    code = "from anyserve.serve.as_ray import install; install()\n" if package == "ray.serve" else ""
    p = subprocess.run([sys.executable, "-c", code + "from %s.%s import %s" % (package, module, name)],
                       env={"PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True, timeout=60)  # fmt: skip
    text = "ImportError: serve.%s.%s is not supported yet: there are no task consumers (docs/guide/from-ray.md)"
    assert p.stderr.splitlines()[-1] == text % (module, name)


def test_task_consumers_as_an_attribute():
    p = subprocess.run([sys.executable, "-c", "from anyserve import serve; serve.task_consumer"], env={"PYTHONPATH": str(PACKAGE)},
                       capture_output=True, text=True, timeout=60)  # fmt: skip
    assert "AttributeError: serve.task_consumer is not supported yet: there are no task consumers" in p.stderr


@pytest.mark.parametrize("module", MODULES)
def test_names_of_modules(module):
    p = subprocess.run([sys.executable, "-c", "from anyserve.serve.%s import %s" % (module, ", ".join(MODULES[module].split()))],
                       env={"PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True, timeout=60)  # fmt: skip
    assert p.returncode == 0, p.stderr


def test_all_names_are_there_whatever_is_imported_before():
    """A submodule, once imported, is an attribute of the package: none may hide a function of its name."""
    code = """
import json, pkgutil, importlib
from anyserve import serve
for m in pkgutil.iter_modules(serve.__path__):
    importlib.import_module("anyserve.serve." + m.name)
print(json.dumps([n for n in serve.__all__ if type(getattr(serve, n)).__name__ == "module"]))
"""
    p = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True, timeout=60)
    assert json.loads(p.stdout) == [], p.stderr


def test_unknown_names():
    with pytest.raises(AttributeError, match="module 'anyserve.serve' has no attribute 'deploy'"):
        serve.deploy


SIGNATURES = {
    "run": "target blocking name route_prefix logging_config _local_testing_mode external_scaler_enabled controller_options",
    "run_many": "targets blocking wait_for_ingress_deployment_creation wait_for_applications_running _local_testing_mode "
                "controller_options",
    "start": "proxy_location http_options grpc_options logging_config tracing_config controller_options kwargs",
    "delete": "name _blocking", "get_app_handle": "name", "multiplexed": "func max_num_models_per_replica",
    "batch": "_func max_batch_size batch_wait_timeout_s max_concurrent_batches batch_size_fn",
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNATURES)
def test_arguments_in_ray_s_order(name):
    """Ours may follow them."""
    wanted = SIGNATURES[name].split()
    assert list(inspect.signature(getattr(serve, name)).parameters)[: len(wanted)] == wanted


def test_enumerations_print_and_compare_as_ray_s():
    status = schema.ApplicationStatus.RUNNING
    assert status == "RUNNING" and str(status) == "ApplicationStatus.RUNNING" and status.value == "RUNNING"
    assert schema.DeploymentStatus("HEALTHY") is schema.DeploymentStatus.HEALTHY
    assert [s.name for s in schema.ReplicaState] == "STARTING UPDATING RECOVERING RUNNING STOPPING STOPPED PENDING_MIGRATION".split()


def test_status_overviews_are_compared_and_printed():
    one = schema.DeploymentStatusOverview(schema.DeploymentStatus.HEALTHY, schema.DeploymentStatusTrigger.UNSPECIFIED,
                                          {"RUNNING": 2}, "")  # fmt: skip
    app = schema.ApplicationStatusOverview(schema.ApplicationStatus.RUNNING, "", 0.0, {"A": one})
    assert schema.ServeStatus() == schema.ServeStatus({}, {}, None) != schema.ServeStatus({}, {"a": app})
    assert "replica_states={'RUNNING': 2}" in repr(app)


def test_routers_of_ones_own(caplog):
    class Router(request_router.FIFOMixin, request_router.MultiplexMixin, request_router.RequestRouter):
        async def choose_replicas(self, candidate_replicas, pending_request=None):
            return self.rank_replicas_via_multiplex(candidate_replicas, "m")

    replicas = [request_router.RunningReplica(request_router.ReplicaID(i, ("A", "app")), multiplexed_model_ids=ids)
                for i, ids in (("1", {"a", "b"}), ("2", {"m"}), ("3", set()))]  # fmt: skip
    ranked = asyncio.run(Router().choose_replicas(replicas))
    assert [[r.replica_id.unique_id for r in group] for group in ranked] == [["2"], ["3"], ["1"]]
    with pytest.raises(NotImplementedError):
        asyncio.run(request_router.RequestRouter().choose_replicas([]))
    keys = serve.deployment(request_router_config={"request_router_class": Router})(lambda_free).keys()
    assert keys["request_router_config"]["request_router_class"].endswith(":" + Router.__qualname__)
    assert "no effect" not in caplog.text


def lambda_free(x):
    return x


def test_trace_contexts():
    assert serve.get_trace_context() is None

    def within(metadata):
        transport.current_request.set(SimpleNamespace(metadata=metadata))
        return serve.get_trace_context()

    for metadata, found in [(None, None), ({}, None), ({"tracestate": "a=b"}, None), ({"traceparent": "00-1", "x": "y"},
                            {"traceparent": "00-1"}), ({"traceparent": "00-1", "tracestate": "a=b"},) * 2]:  # fmt: skip
        assert contextvars.Context().run(within, metadata) == found

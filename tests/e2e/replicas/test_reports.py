"""What replicas of anyserve.serve tell: metrics on the server's page, and log lines with the id of the request."""

import json
import re

import numpy as np
from asking import ask

from support import wait
from support.protocol import prometheus

METRICS = """
@serve.deployment(num_replicas=2)
class D:
    def __init__(self):
        self.calls = metrics.Counter("shop_calls", "Calls of the shop.", tag_keys=("kind",)).set_default_tags({"kind": "plain"})
        self.size = metrics.Histogram("shop_size", "Sizes.", boundaries=[1, 10])
        metrics.Gauge("shop_rank").set(serve.get_replica_context().rank)

    def __call__(self, x: X) -> X:
        self.calls.inc(2)
        self.size.observe(float(x[0]))
        return np.array([serve.get_replica_context().rank], float)

app = D.bind()
"""


def test_metrics_of_all_replicas_are_on_the_servers_page(begin):
    server, client, _ = begin(METRICS)
    ranks = [ask(client, value=5)[0] for _ in range(20)]
    wait.until(lambda: prometheus.total(prometheus.parse(server.metrics()), "shop_calls_total") == 40, server.metrics)
    samples = prometheus.parse(server.metrics())
    by_replica = {dict(labels)["replica"]: v for (name, labels), v in samples.items() if name == "shop_calls_total"}
    assert by_replica == {"D-%d" % rank: 2 * ranks.count(rank) for rank in set(ranks)}
    (labels,) = {frozenset(p for p in labels if p[0] != "replica") for name, labels in samples if name == "shop_calls_total"}
    assert dict(labels) == {"application": "default", "deployment": "D", "kind": "plain"}
    assert prometheus.total(samples, "shop_size_bucket", le="10.0") == prometheus.total(samples, "shop_size_count") == 20
    assert prometheus.total(samples, "shop_size_bucket", le="1.0") == 0
    assert {v for (name, _), v in samples.items() if name == "shop_rank"} == {0, 1}
    assert prometheus.total(samples, "serve_deployment_replica_starts_total") == 2


HOPS = """
@serve.deployment
class Inner:
    async def __call__(self, x):
        log.info("inner %g", x)
        await asyncio.to_thread(log.info, "inner's thread")
        return x + 1

@serve.deployment
class D:
    def __init__(self, inner):
        self.inner = inner

    async def __call__(self, x: X) -> X:
        log.info("outer")
        return np.array([await self.inner.remote(float(x[0]))])

app = D.bind(Inner.bind())
"""


def test_log_lines_have_the_request_id_through_two_hops(begin):
    server, client, change = begin(HOPS)
    assert ask(client, value=3, id="r-7") == [4]
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"
    for line in "default_D D-0 r-7 -- outer", "default_Inner Inner-0 r-7 -- inner 3", "default_Inner Inner-0 r-7 -- inner's thread":
        server.log.wait(r"^\[%s\] INFO %s %s$" % (line.split()[1], time, re.escape(line)))
    change(logging_config={"encoding": "JSON"})
    server.log.wait(r'^\[D-0\] \{.*"event": "reconfigured"')
    assert ask(client, value=3, id="r-8") == [4]
    row = json.loads(server.log.wait(r'^\[D-0\] (\{.*"message": "outer".*\})')[1])
    assert (row["request_id"], row["deployment"], row["replica"], row["component_name"]) == ("r-8", "default_D", "D-0", "replica")
    assert not server.log.find("-- CALL")


IDS = """
@serve.deployment
class D:
    @serve.multiplexed
    async def load(self, model_id):
        return float(model_id)

    async def __call__(self, x: X) -> X:
        model_id = serve.get_multiplexed_model_id()
        log.info("model %r", model_id)
        return x * (await self.load(model_id) if model_id else 0)

app = D.bind()
"""


def test_tensor_requests_name_a_model_and_a_request_by_headers(begin):
    server, client, _ = begin(IDS)
    assert ask(client, value=2, metadata=[("serve_multiplexed_model_id", "21"), ("x-request-id", "by header")]) == [42]
    server.log.wait(r"default_D D-0 by header -- model '21'$")
    assert ask(client, value=2) == [0]
    server.log.wait(r"default_D D-0 -- model ''$")

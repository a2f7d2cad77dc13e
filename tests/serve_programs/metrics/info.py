"""What a metric says of itself."""

from anyserve import serve
from anyserve.serve import metrics


@serve.deployment
def infos():
    counter = metrics.Counter("c_total_things", description="things", tag_keys=("a", "b"))
    counter.set_default_tags({"a": "1"})
    gauge = metrics.Gauge("g")
    histogram = metrics.Histogram("h", description="ms", boundaries=[0.5, 5])
    return [{k: v for k, v in sorted(m.info.items()) if k in ("name", "description")} for m in (counter, gauge, histogram)]


print(serve.run(infos.bind(), name="infos", route_prefix=None).remote().result())
serve.shutdown()

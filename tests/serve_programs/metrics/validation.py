"""Tags, default tags and values of metrics are checked."""

from anyserve import serve
from anyserve.serve import metrics


def name_of(call):
    try:
        call()
        return "accepted"
    except Exception as e:
        return type(e).__name__


@serve.deployment
class Checks:
    def __call__(self):
        counter = metrics.Counter("my_requests", description="d", tag_keys=("kind",))
        counter.set_default_tags({"kind": "a"})
        gauge = metrics.Gauge("my_gauge")
        histogram = metrics.Histogram("my_latency", boundaries=[1, 10, 100], tag_keys=("kind",))
        return [
            name_of(lambda: counter.inc()),
            name_of(lambda: counter.inc(3, tags={"kind": "b"})),
            name_of(lambda: counter.inc(0)),
            name_of(lambda: counter.inc(-1)),
            name_of(lambda: counter.inc(1, tags={"other": "x"})),
            name_of(lambda: gauge.set(1.5)),
            name_of(lambda: gauge.set("x")),
            name_of(lambda: histogram.observe(5, tags={"kind": "a"})),
            name_of(lambda: histogram.observe(5)),
            name_of(lambda: metrics.Histogram("no_boundaries")),
            name_of(lambda: metrics.Histogram("bad", boundaries=[0, 1])),
            name_of(lambda: metrics.Counter("")),
            name_of(lambda: metrics.Counter("c", tag_keys="kind")),
            name_of(lambda: counter.set_default_tags({"nope": "1"})),
        ]


print(serve.run(Checks.bind(), name="checks", route_prefix=None).remote().result())
serve.shutdown()

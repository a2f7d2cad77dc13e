"""Metrics of ray.util in deployments and tasks, and what they say of themselves."""

import ray
from ray import serve
from ray.util.metrics import Counter, Gauge, Histogram


@serve.deployment
class Measured:
    def __init__(self):
        self.calls = Counter("calls_of_measured", description="calls", tag_keys=("kind",))
        self.last = Gauge("last_of_measured", description="last", tag_keys=())
        self.sizes = Histogram("sizes_of_measured", description="sizes", boundaries=[1, 10], tag_keys=("kind",))
        self.sizes.set_default_tags({"kind": "plain"})

    def __call__(self, n):
        self.calls.inc(tags={"kind": "even" if n % 2 == 0 else "odd"})
        self.last.set(n)
        self.sizes.observe(n)
        try:
            self.calls.inc(-1, tags={"kind": "odd"})
        except ValueError:
            return n


@ray.remote
def in_a_task():
    counter = Counter("calls_of_task", tag_keys=("a",))
    counter.inc(2, tags={"a": "b"})
    try:
        counter.inc(1)
    except ValueError as e:
        return str(e)


handle = serve.run(Measured.bind(), name="measured", route_prefix=None)
print([handle.remote(n).result() for n in range(1, 4)])
print(ray.get(in_a_task.remote()))
counter = Counter("calls_of_driver", description="d", tag_keys=("x",)).set_default_tags({"x": "1"})
print(counter.info["name"], counter.info["description"], counter.info["tag_keys"], counter.info["default_tags"])
for wrong in (lambda: Counter(""), lambda: Histogram("h", boundaries=[]), lambda: Gauge("g", tag_keys="x"), lambda: counter.inc("1")):
    try:
        wrong()
    except (ValueError, TypeError) as e:
        print(type(e).__name__)
serve.shutdown()
ray.shutdown()

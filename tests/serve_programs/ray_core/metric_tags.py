"""Metrics of ray.util may have tags of any name; those of serve may not have the names of its own."""

import ray
from ray import serve
from ray.serve.metrics import Counter as CounterOfServe
from ray.util.metrics import Counter, Gauge

ray.init(ignore_reinit_error=True)


@serve.deployment
class Counted:
    def __init__(self):
        self.calls = Counter("calls_of_counted", description="calls", tag_keys=("deployment", "kind"))
        self.calls.set_default_tags({"deployment": "Counted"})
        self.last = Gauge("last_of_counted", tag_keys=("replica",))

    def __call__(self, kind):
        self.calls.inc(tags={"kind": kind})
        self.last.set(1, tags={"replica": "mine"})
        return self.calls.info["tag_keys"], self.calls.info["default_tags"]

    def reserved(self):
        try:
            CounterOfServe("others_of_counted", tag_keys=("deployment",))
        except ValueError as e:
            return str(e)


handle = serve.run(Counted.bind(), name="counted", route_prefix=None)
print(handle.remote("a").result())
print(handle.reserved.remote().result())
serve.shutdown()
ray.shutdown()

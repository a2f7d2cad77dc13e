"""broadcast calls a method on every replica."""

from anyserve import serve


@serve.deployment(num_replicas=3)
class Counter:
    def __init__(self):
        self.n = 0

    def add(self, k):
        self.n += k
        return self.n

    def __call__(self):
        return self.n


handle = serve.run(Counter.bind(), name="counter", route_prefix=None)
print(handle.broadcast("add", 5).results())
print(handle.broadcast("add", k=2).results(timeout_s=30))
print(sorted(handle.remote().result() for _ in range(5)))
serve.shutdown()

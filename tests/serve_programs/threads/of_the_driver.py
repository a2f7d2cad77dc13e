"""Many threads of the driver use one handle."""

import threading

from anyserve import serve


@serve.deployment(num_replicas=2, max_ongoing_requests=10)
class Echo:
    async def __call__(self, x):
        return x


handle = serve.run(Echo.bind(), name="echo", route_prefix=None)
results = {}


def work(k):
    results[k] = [handle.remote((k, i)).result() for i in range(20)]


threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(all(results[k] == [(k, i) for i in range(20)] for k in range(8)), len(results))
serve.shutdown()

"""A sync method calls another deployment from its thread; threads of its own do, too."""

import threading

from anyserve import serve


@serve.deployment(max_ongoing_requests=10)
class Square:
    async def __call__(self, x):
        return x * x


@serve.deployment
class Sync:
    def __init__(self, square):
        self.square = square

    def __call__(self, x):
        return self.square.remote(x).result() + 1

    def threaded(self, n):
        out = [None] * n

        def work(i):
            out[i] = self.square.remote(i).result()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return out


handle = serve.run(Sync.bind(Square.bind()), name="sync", route_prefix=None)
print(handle.remote(4).result())
print(handle.threaded.remote(5).result())
print([r.result() for r in [handle.remote(i) for i in range(6)]])
serve.shutdown()

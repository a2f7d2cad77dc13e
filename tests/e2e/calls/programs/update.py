"""The application is run again while requests of its cycle are under way: none is lost."""

import threading

from support import calling

from anyserve import serve


@serve.deployment(max_ongoing_requests=2)
class A:
    async def __call__(self, n):
        return 1 + await serve.get_deployment_handle("B", "ring").remote(n - 1) if n else 0


@serve.deployment(max_ongoing_requests=2)
class B:
    def __init__(self, a):
        self.a = a

    async def __call__(self, n):
        return 1 + await self.a.remote(n - 1) if n else 0


def main():
    b = serve.run(B.bind(A.bind()), name="ring")
    stop = threading.Event()
    wrong, right = [], []

    def load():
        while not stop.is_set():
            try:
                (right if b.remote(4).result(timeout_s=60) == 4 else wrong).append(None)
            except Exception as e:
                wrong.append(repr(e))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for t in threads:
        t.start()
    pids = {r["pid"] for r in calling.status()["replicas"]}
    for _ in range(2):
        serve.run(B.bind(A.bind()), name="ring")
    stop.set()
    for t in threads:
        t.join()
    print(wrong, len(right) > 20, pids & {r["pid"] for r in calling.status()["replicas"]})
    calling.settle()


main()

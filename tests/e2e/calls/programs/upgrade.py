"""The server is upgraded while requests of a circle are under way, from several threads: none is lost."""

import os
import signal
import threading

from support import calling, wait

from anyserve import serve


@serve.deployment(max_ongoing_requests=2)
class A:
    b = None

    async def __call__(self, n):
        self.b = self.b or serve.get_deployment_handle("B", "ring")
        return 1 + await self.b.remote(n - 1) if n else 0


@serve.deployment(max_ongoing_requests=2)
class B:
    def __init__(self, a):
        self.a = a

    async def __call__(self, n):
        return 1 + await self.a.remote(n - 1) if n else 0


def main():
    b = serve.run(B.bind(A.bind()), name="ring")
    stop, wrong, right = threading.Event(), [], []

    def load():
        while not stop.is_set():
            try:
                (right if b.remote(4).result(timeout_s=60) == 4 else wrong).append(None)
            except Exception as e:
                wrong.append(repr(e))

    assert b.remote(4).result(timeout_s=60) == 4
    threads = [threading.Thread(target=load) for _ in range(4)]
    for t in threads:
        t.start()
    supervisor = calling.supervisor()
    for _ in range(2):
        former = calling.status()["server"]["pid"]
        os.kill(supervisor, signal.SIGUSR2)
        wait.until(lambda: calling.dispatcher() not in (None, former), "the next dispatcher")
        wait.until(lambda: not os.path.exists(f"/proc/{former}"), "the end of the former one")
        n = len(right)
        wait.until(lambda: len(right) > n + 20 or wrong, "answers after the upgrade")
    stop.set()
    for t in threads:
        t.join()
    print(wrong, len(right) > 40)
    wait.until(lambda: not calling.unsettled(), "rest")


main()

"""A and B call each other with one slot each; 64 requests enter at both ends. A is async, B has threads."""

import threading

from support import calling

from anyserve import serve

DEEP = 5


class Watched:
    """Counts the requests from outside that execute at the same time."""

    def __init__(self):
        self.lock, self.now, self.most = threading.Lock(), 0, 0

    def enter(self, n):
        with self.lock:
            self.now += n == DEEP
            self.most = max(self.most, self.now)

    def leave(self, n):
        with self.lock:
            self.now -= n == DEEP


@serve.deployment(max_ongoing_requests=1)
class A(Watched):
    async def __call__(self, n):
        self.enter(n)
        try:
            return 1 + await serve.get_deployment_handle("B", "ring").remote(n - 1) if n else 0
        finally:
            self.leave(n)

    def highest(self):
        return self.most


@serve.deployment(max_ongoing_requests=1)
class B(Watched):
    def __init__(self, a):
        super().__init__()
        self.a = a

    def __call__(self, n):
        self.enter(n)
        try:
            return 1 + self.a.remote(n - 1).result(timeout_s=60) if n else 0
        finally:
            self.leave(n)

    def highest(self):
        return self.most


def main():
    b = serve.run(B.bind(A.bind()), name="ring")
    a = serve.get_deployment_handle("A", "ring")
    answers = [(a, b)[i % 2].remote(DEEP) for i in range(64)]
    print(sorted(r.result(timeout_s=60) for r in answers) == [DEEP] * 64)
    calling.settle()
    print("at once, from outside:", a.highest.remote().result(timeout_s=60), b.highest.remote().result(timeout_s=60))
    refused = calling.deployment("A")["counts"]["refused"] + calling.deployment("B")["counts"]["refused"]
    print("refused:", refused)


main()

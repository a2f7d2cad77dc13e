"""max_ongoing_requests sync methods run at once and do not block the async ones."""

import threading

from anyserve import serve


@serve.deployment(max_ongoing_requests=4)
class Sync:
    def __init__(self):
        self.barrier = threading.Barrier(3)

    def meet(self):
        self.barrier.wait(timeout=30)
        return threading.current_thread() is threading.main_thread()

    async def ping(self):
        return "pong"


handle = serve.run(Sync.bind(), name="sync", route_prefix=None)
first, second = handle.meet.remote(), handle.meet.remote()
print(handle.ping.remote().result())
third = handle.meet.remote()
print([r.result() for r in (first, second, third)])
serve.shutdown()

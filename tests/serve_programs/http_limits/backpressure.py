"""Beyond max_ongoing_requests and max_queued_requests an HTTP client gets 503 at once."""

import asyncio
import os
import threading
import time

import httpx

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Gate:
    def __init__(self):
        self.open = asyncio.Event()
        self.waiting = 0

    async def wait(self):
        self.waiting += 1
        await self.open.wait()

    async def release(self):
        self.open.set()

    async def count(self):
        return self.waiting


@serve.deployment(max_ongoing_requests=2, max_queued_requests=2)
class Limited:
    def __init__(self, gate):
        self.gate = gate

    async def __call__(self, request):
        await self.gate.wait.remote()
        return "done"


serve.run(Limited.bind(Gate.options(max_ongoing_requests=100).bind()), name="limited")
gate = serve.get_deployment_handle("Gate", "limited")
answers = []


def send():
    r = client.get("/")
    answers.append((r.status_code, r.headers.get("content-type"), r.text))


threads = []
while not answers:  # one after another, until one is refused
    threads.append(threading.Thread(target=send))
    threads[-1].start()
    for _ in range(20):
        if answers:
            break
        time.sleep(0.05)
print("waiting:", len(threads) - 1, "executing:", gate.count.remote().result())
print(answers[0])
gate.release.remote().result()
for t in threads:
    t.join()
print(sorted(a[0] for a in answers))
print(client.get("/").status_code)
serve.shutdown()

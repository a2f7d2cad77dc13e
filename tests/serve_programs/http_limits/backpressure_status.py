"""backpressure_config: the status and the Retry-After of refusals over HTTP, of the ingress and of a deployment behind it."""

import asyncio
import os
import threading
import time

import httpx

from anyserve import serve
from anyserve.serve.config import BackpressureConfig

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)


@serve.deployment
class Gate:
    def __init__(self):
        self.open = asyncio.Event()

    async def wait(self):
        await self.open.wait()

    async def release(self):
        self.open.set()


@serve.deployment(max_ongoing_requests=1, max_queued_requests=1)
class Limited:
    def __init__(self, gate):
        self.gate = gate

    async def __call__(self, request=None):
        await self.gate.wait.remote()
        return "done"


@serve.deployment(max_ongoing_requests=100)
class Front:
    def __init__(self, limited):
        self.limited = limited

    async def __call__(self, request):
        return await self.limited.remote()


def check(app, name):
    serve.run(app, name="limited")
    answers, threads = [], []

    def send():
        r = client.get("/")
        answers.append((r.status_code, r.headers.get("retry-after"), r.headers.get("content-type"), r.text))

    while not answers:  # one after another, until one is refused
        threads.append(threading.Thread(target=send))
        threads[-1].start()
        for _ in range(20):
            if answers:
                break
            time.sleep(0.05)
    print(name, answers[0])
    serve.get_deployment_handle("Gate", "limited").release.remote().result()
    for t in threads:
        t.join()
    print([a[:2] for a in sorted(answers[1:])])


gate = Gate.options(max_ongoing_requests=100)
config = BackpressureConfig(status_code=429, retry_after_s=1.2)
check(Limited.options(backpressure_config=config).bind(gate.bind()), "ingress")
check(Limited.options(backpressure_config={"status_code": 503, "retry_after_s": 0}).bind(gate.bind()), "no delay")
check(Front.bind(Limited.options(backpressure_config=config).bind(gate.bind())), "behind the ingress")
for wrong in ({"status_code": 500}, {"retry_after_s": -1}, {"retry_after": 1}, {"retry_after_s": float("inf")}):
    try:
        Limited.options(backpressure_config=wrong)
        print("taken:", wrong)
    except (ValueError, TypeError):
        print("refused:", wrong)
serve.shutdown()

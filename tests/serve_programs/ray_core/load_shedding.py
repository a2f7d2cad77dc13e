"""Load shedding: requesters that are tasks call a deployment whose queue is short; those beyond it are refused at once."""

import time

import ray
from ray import serve
from ray.serve.exceptions import BackPressureError

ray.init(ignore_reinit_error=True)


@serve.deployment(max_ongoing_requests=2, max_queued_requests=2)
class Slow:
    def __call__(self, _):
        time.sleep(2)
        return "served"


@ray.remote
class Requester:
    """One caller: Ray counts the requests that wait for each handle in each process."""

    def __init__(self, handle):
        self.handle = handle

    def send(self, number):
        began = time.monotonic()
        try:
            answer = self.handle.remote(number).result()
        except BackPressureError as e:
            return "shed", time.monotonic() - began, str(e)
        return answer, time.monotonic() - began, ""


@ray.remote
def request(handle, number):
    try:
        return handle.remote(number).result()
    except BackPressureError:
        return "shed"


app = Slow.options(name="slow").bind()
handle = serve.run(app, name="shedding", route_prefix=None)

requester = Requester.options(max_concurrency=8).remote(handle)
print("first:", ray.get(requester.send.remote(0))[0])
refs = []
for number in range(4):
    refs.append(requester.send.remote(number))
    time.sleep(0.2)
ready, waiting = ray.wait(refs, num_returns=len(refs), timeout=0.5)
print("after a moment: %d answered, %d wait" % (len(ready), len(waiting)))
more = [requester.send.remote(number) for number in range(4, 7)]
shed, none = ray.wait(more, num_returns=3, timeout=1.0)
print("beyond the queue: %d answered, %d wait" % (len(shed), len(none)))
for kind, seconds, text in ray.get(more):
    print(kind, "at once" if seconds < 1 else "late", text)
print("the others:", [kind for kind, _, _ in ray.get(refs)])

# Tasks, one after the other: nothing waits, so all are served.
print([ray.get(request.remote(handle, number)) for number in range(2)])
serve.shutdown()
ray.shutdown()

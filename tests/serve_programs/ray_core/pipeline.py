"""A loop over ray.wait that keeps a few tasks going, and a tree of tasks, whose leaves call a deployment."""

import ray
from ray import serve

ray.init(ignore_reinit_error=True)
MOST = 3  # tasks at once


@serve.deployment(num_replicas=2, max_ongoing_requests=8)
class Square:
    async def __call__(self, x):
        return x * x


@ray.remote
def square(handle, x):
    return x, handle.remote(x).result()


@ray.remote
def tree(handle, low, high):
    if high - low == 1:
        return handle.remote(low).result()
    middle = (low + high) // 2
    return sum(ray.get([tree.remote(handle, low, middle), tree.remote(handle, middle, high)]))


handle = serve.run(Square.bind(), name="squares", route_prefix=None)
todo, going, done = list(range(12)), [], {}
while todo or going:
    while todo and len(going) < MOST:
        going.append(square.remote(handle, todo.pop(0)))
    ready, going = ray.wait(going)
    assert len(ready) == 1 and len(going) < MOST
    x, answer = ray.get(ready[0])
    done[x] = answer
print(sorted(done.items()))
print(ray.get(tree.remote(handle, 0, 8)))
print(ray.wait([], num_returns=1, timeout=0))
late, early = ray.wait([square.remote(handle, i) for i in range(5)], num_returns=5, timeout=30)
print(len(late), early, ray.get(late) == [(i, i * i) for i in range(5)])
serve.shutdown()
ray.shutdown()

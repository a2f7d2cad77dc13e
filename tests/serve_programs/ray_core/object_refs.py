"""References: values are copies, references in containers stay references, also in results and in the state of actors."""

import asyncio

import numpy as np
import ray
from ray import serve

ray.init(ignore_reinit_error=True)


@ray.remote
def kinds(ref, nested, mapping):
    return type(ref).__name__, isinstance(nested[0], ray.ObjectRef), isinstance(mapping["r"], ray.ObjectRef)


@ray.remote
def later(event, answer):
    ray.get(event.wait.remote())
    return answer


@ray.remote
class Event:
    def __init__(self):
        self.event = asyncio.Event()

    async def wait(self):
        await self.event.wait()

    async def set(self):
        self.event.set()


@ray.remote
class Box:
    def keep(self, refs):
        self.refs = refs
        return len(refs)

    def open(self):
        return ray.get(self.refs)


@ray.remote
def make(n):
    return [ray.put(i) for i in range(n)]


@ray.remote
def fails():
    raise IndexError("lost")


@ray.remote
def catches(refs):
    try:
        ray.get(refs[0])
    except IndexError as e:
        return str(e).strip().splitlines()[-1]


@serve.deployment
class Echo:
    async def __call__(self, value):
        return value


values = [1, 2]
ref = ray.put(values)
values.append(3)
print(ray.get(ref), ray.get([ref, ref]))
print(ray.get(kinds.remote(ref, [ref], {"r": ref})))
print(ray.get(ray.get(make.remote(3))))

event, box = Event.remote(), Box.remote()
pending = later.remote(event, "at last")
print(ray.get(box.keep.remote([pending])))
ray.get(event.set.remote())
print(ray.get(box.open.remote()), ray.get(pending))
print(ray.get(catches.remote([fails.remote()])))

array = np.arange(6).reshape(2, 3)
got = ray.get(ray.put(array))
print(got.tolist(), got.flags.writeable)
try:
    ray.put(ref)
except TypeError:
    print("TypeError")
print(ref == ref, ref != pending, len({ref, ref, pending}), len(ref.hex()) == 56)


async def main():
    print(await later.remote(event, "awaited"))
    print(await asyncio.gather(*[ray.put(i) for i in range(3)]))
    print(await asyncio.wrap_future(later.remote(event, "future").future()))


asyncio.run(main())
handle = serve.run(Echo.bind(), name="echo", route_prefix=None)
print(handle.remote(ray.put("put")).result(), handle.remote(later.remote(event, "of a task")).result())
serve.shutdown()
ray.shutdown()

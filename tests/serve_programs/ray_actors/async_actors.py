"""Async actors: many calls at once, sync methods between them, async generators, and awaiting others."""

import asyncio

import ray

ray.init(ignore_reinit_error=True)


@ray.remote
class Meeting:
    """Each of n that come waits for the others."""

    def __init__(self, n):
        self.n, self.here, self.full = n, [], asyncio.Event()

    async def come(self, name):
        self.here.append(name)
        if len(self.here) == self.n:
            self.full.set()
        await self.full.wait()
        return sorted(self.here)

    def count(self):
        return len(self.here)

    async def numbers(self, n):
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    async def fail(self):
        await asyncio.sleep(0)
        raise LookupError("nobody")


@ray.remote
class Guest:
    def __init__(self, meeting, name):
        self.meeting, self.name = meeting, name

    async def go(self):
        return await self.meeting.come.remote(self.name)

    async def all(self, names):
        return await asyncio.gather(*[self.meeting.come.remote(n) for n in names])


@ray.remote(max_concurrency=2)
class Two:
    def __init__(self):
        self.now, self.most = 0, 0

    async def work(self):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.05)
        self.now -= 1

    async def peak(self):
        return self.most


meeting = Meeting.remote(4)
first = [meeting.come.remote(name) for name in "abc"]
while ray.get(meeting.count.remote()) < 3:
    pass
print(len(ray.wait(first, num_returns=3, timeout=0.3)[0]), ray.get(meeting.count.remote()))
print(ray.get(Guest.remote(meeting, "d").go.remote()))
print(ray.get(first)[0])
print([ray.get(ref) for ref in meeting.numbers.options(num_returns="streaming").remote(4)])
try:
    ray.get(meeting.fail.remote())
except LookupError as e:
    print("LookupError", str(e).strip().splitlines()[-1])
small = Meeting.remote(3)
print(ray.get(Guest.remote(small, "x").all.remote(["x", "y", "z"]))[2])
two = Two.remote()
ray.get([two.work.remote() for _ in range(10)])
print(ray.get(two.peak.remote()))


async def main():
    other = Meeting.remote(2)
    a, b = other.come.remote("a"), other.come.remote("b")
    print(await a, await b)
    async for ref in other.numbers.options(num_returns="streaming").remote(2):
        print(await ref)


asyncio.run(main())
ray.shutdown()

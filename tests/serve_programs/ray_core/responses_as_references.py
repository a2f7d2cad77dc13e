"""Responses of handles as references: arguments of tasks and actors, within lists, and streams."""

import ray
from ray import serve

ray.init(ignore_reinit_error=True)


@ray.remote
def shout(text):
    return text.upper()


@ray.remote
def shout_all(refs):
    return [text.upper() for text in ray.get(refs)]


@serve.deployment
class Words:
    def __call__(self, n):
        if n < 0:
            raise IndexError("no word %d" % n)
        return "word %d" % n

    def several(self, n):
        for i in range(n):
            yield "word %d" % i


@serve.deployment
class Speaker:
    def __init__(self, words):
        self.words = words

    async def one(self):
        ref = await self.words.remote(1)._to_object_ref()
        return isinstance(ref, ray.ObjectRef), await shout.remote(ref), await ref

    async def list(self):
        return await shout_all.remote([await self.words.remote(n)._to_object_ref() for n in range(3)])

    async def stream(self):
        refs = await self.words.options(stream=True).several.remote(3)._to_object_ref_gen()
        return [await shout.remote(ref) async for ref in refs]


handle = serve.run(Speaker.bind(Words.bind()), name="speaker", route_prefix=None)
for method in "one", "list", "stream":
    print(method, getattr(handle, method).remote().result(timeout_s=60))
words = serve.get_deployment_handle("Words", "speaker")
ref = words.remote(5)._to_object_ref_sync()
print(ray.get(shout.remote(ref)), ray.get(ref))
print([ray.get(r) for r in words.options(stream=True).several.remote(2)._to_object_ref_gen_sync()])
try:
    ray.get(words.remote(-1)._to_object_ref_sync())
except IndexError as e:
    print(str(e).strip().splitlines()[-1])
serve.shutdown()
ray.shutdown()

"""Handles are compared, pickled, passed to replicas as arguments and used there."""

import pickle

from anyserve import serve


@serve.deployment
class Store:
    def __init__(self):
        self.items = {}

    def put(self, key, value):
        self.items[key] = value
        return len(self.items)

    def get(self, key):
        return self.items.get(key)


@serve.deployment
class Writer:
    async def __call__(self, store, key, value):
        await store.put.remote(key, value)
        return await store.options(method_name="get").remote(key)


store = serve.run(Store.bind(), name="store", route_prefix=None)
writer = serve.run(Writer.bind(), name="writer", route_prefix=None)
print(writer.remote(store, "a", 1).result())
print(writer.remote(serve.get_app_handle("store"), "b", [2]).result())
copy = pickle.loads(pickle.dumps(store))
print(copy.get.remote("a").result(), copy.put.remote("c", None).result())
print(copy.deployment_name, copy.app_name)
serve.shutdown()

"""Arrays as arguments and results: values, dtypes, read-only views, copies."""

import numpy as np

from anyserve import serve


@serve.deployment
class Arrays:
    def stats(self, x):
        return {"shape": x.shape, "dtype": str(x.dtype), "sum": float(x.sum()), "writable": x.flags.writeable}

    def scale(self, x, by):
        return x * by

    def pair(self, x):
        return x[:2], {"rest": x[2:]}


handle = serve.run(Arrays.bind(), name="arrays", route_prefix=None)
for x in (np.arange(6, dtype=np.int32).reshape(2, 3), np.ones(300000, np.float32), np.array(2.5), np.zeros((0, 4))):
    print(handle.stats.remote(x).result())
y = handle.scale.remote(np.arange(5.0), 3).result()
print(y.tolist(), y.dtype)
a, b = handle.pair.remote(np.array([1, 2, 3], np.int16)).result()
print(a.tolist(), b["rest"].tolist(), b["rest"].dtype)
x = np.array([1.0, 2.0])
handle.scale.remote(x, 5).result()
print(x.tolist())
serve.shutdown()

"""A generator without stream=True and a plain method with it are TypeErrors; a stream has no result()."""

from anyserve import serve


@serve.deployment
class Both:
    def plain(self):
        return 1

    def stream(self):
        yield 1


handle = serve.run(Both.bind(), name="both", route_prefix=None)
try:
    handle.stream.remote().result()
except TypeError:
    print("TypeError for a generator without stream=True")
try:
    list(handle.options(stream=True).plain.remote())
except TypeError:
    print("TypeError for a plain method with stream=True")
try:
    handle.options(stream=True).stream.remote().result()
except TypeError:
    print("TypeError for result() of a stream")
print(handle.plain.remote().result(), list(handle.options(stream=True).stream.remote()))
serve.shutdown()

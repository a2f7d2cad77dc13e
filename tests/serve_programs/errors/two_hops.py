"""An exception of a replica two hops away: its class, attributes, and the last line of its text."""

from anyserve import serve


class Refused(Exception):
    def __init__(self, code, reason):
        super().__init__(code, reason)
        self.code, self.reason = code, reason


@serve.deployment
class Bottom:
    def __call__(self, kind):
        if kind == "value":
            raise ValueError("bad value")
        if kind == "own":
            raise Refused(7, "too late")
        return {}[kind]


@serve.deployment
class Middle:
    def __init__(self, bottom):
        self.bottom = bottom

    async def __call__(self, kind):
        return await self.bottom.remote(kind)


@serve.deployment
class Top:
    def __init__(self, middle):
        self.middle = middle

    async def __call__(self, kind):
        return await self.middle.remote(kind)

    async def caught(self, kind):
        try:
            await self.middle.remote(kind)
        except Refused as e:
            return ["Refused", e.code, e.reason]
        except ValueError as e:
            return ["ValueError", str(e).strip().splitlines()[-1]]


handle = serve.run(Top.bind(Middle.bind(Bottom.bind())), name="errors", route_prefix=None)
for kind in ("value", "own", "missing"):
    try:
        handle.remote(kind).result()
    except (ValueError, KeyError, Refused) as e:
        base = next(c for c in (Refused, ValueError, KeyError) if isinstance(e, c))
        print(base.__name__, str(e).strip().splitlines()[-1], getattr(e, "code", None))
print(handle.caught.remote("own").result())
print(handle.caught.remote("value").result())
serve.shutdown()

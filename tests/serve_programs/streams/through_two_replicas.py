"""A replica reads the stream of another and gives its own."""

from anyserve import serve


@serve.deployment
class Tokens:
    async def __call__(self, text):
        for word in text.split():
            yield word


@serve.deployment
class Upper:
    def __init__(self, tokens):
        self.tokens = tokens.options(stream=True)

    async def __call__(self, text):
        i = 0
        async for word in self.tokens.remote(text):
            i += 1
            yield f"{i}:{word.upper()}"

    async def joined(self, text):
        return " ".join([w async for w in self.tokens.remote(text)])


handle = serve.run(Upper.bind(Tokens.bind()), name="tokens", route_prefix=None)
print(list(handle.options(stream=True).remote("the quick brown fox")))
print(handle.joined.remote("a b c").result())
serve.shutdown()

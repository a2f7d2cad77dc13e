"""A stream of tokens, through two deployments and to the caller, who stops when it has enough: python tokens.py"""

import asyncio
from typing import AsyncIterator, Iterator

from anyserve import serve
from anyserve.serve.handle import DeploymentHandle


@serve.deployment
class Model:
    def generate(self, prompt: str) -> Iterator[str]:
        """Stands for a model that makes one token after the other."""
        words = prompt.split()
        i = 0
        while True:
            yield words[i % len(words)]
            i += 1


@serve.deployment
class Chat:
    def __init__(self, model: DeploymentHandle) -> None:
        self.model = model.options(stream=True)

    async def __call__(self, prompt: str, limit: int) -> AsyncIterator[str]:
        tokens = self.model.generate.remote(prompt)
        async for token in tokens:
            yield token.upper()
            limit -= 1
            if not limit:
                tokens.cancel()  # the model's generator ends
                return


app = Chat.bind(Model.bind())

if __name__ == "__main__":
    handle = serve.run(app).options(stream=True)
    print(*handle.remote("all work and no play", limit=7))

    async def main() -> None:
        async for token in handle.remote("from an event loop", limit=4):
            print(token, end=" ", flush=True)
        print()

    asyncio.run(main())

"""An ensemble: one request goes to several models at once, and their answers make one: python ensemble.py"""

import asyncio
from typing import List

from anyserve import serve
from anyserve.serve.handle import DeploymentHandle


@serve.deployment
class Words:
    def __init__(self, good: List[str], bad: List[str]) -> None:
        self.good, self.bad = set(good), set(bad)

    def __call__(self, text: str) -> float:
        words = text.lower().split()
        return sum((w in self.good) - (w in self.bad) for w in words) / max(len(words), 1)


@serve.deployment
class Marks:
    def __call__(self, text: str) -> float:
        return 1.0 if text.endswith("!") else 0.0


@serve.deployment
class Normalize:
    async def __call__(self, text: str) -> str:
        return " ".join(text.split())


@serve.deployment
class Ensemble:
    def __init__(self, normalize: DeploymentHandle, models: List[DeploymentHandle]) -> None:
        self.normalize, self.models = normalize, models

    async def __call__(self, text: str) -> float:
        clean = self.normalize.remote(text)
        # the response itself is the argument: each model gets the text when it is there, and nobody waits in between
        scores = await asyncio.gather(*(model.remote(clean) for model in self.models))
        return sum(scores) / len(scores)


app = Ensemble.bind(
    Normalize.bind(),
    [
        Words.options(name="Tone").bind(["good", "great"], ["bad"]),
        Words.options(name="Speed").bind(["fast"], ["slow"]),
        Marks.bind(),
    ],
)

if __name__ == "__main__":
    handle = serve.run(app)
    for text in "good and  fast!", "bad and slow", "great":
        print(f"{handle.remote(text).result():+.2f} {text}")

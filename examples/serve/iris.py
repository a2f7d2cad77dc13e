"""A scikit-learn model behind a handle: python iris.py

The model is trained once in each replica. Calls that come at the same time share one call of `predict`.
"""

from typing import Dict, List

import numpy as np

from anyserve import serve


@serve.deployment(num_replicas=2, max_ongoing_requests=100)
class Iris:
    def __init__(self) -> None:
        from sklearn.datasets import load_iris
        from sklearn.linear_model import LogisticRegression

        flowers = load_iris()
        self.species = flowers.target_names.tolist()
        self.model = LogisticRegression(max_iter=500).fit(flowers.data, flowers.target)

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.005)
    async def classify(self, flowers: List[np.ndarray]) -> List[Dict[str, float]]:
        probabilities = self.model.predict_proba(np.stack(flowers))
        return [dict(zip(self.species, p.tolist())) for p in probabilities]

    async def __call__(self, flower: np.ndarray) -> str:
        probability = await self.classify(flower)
        return max(probability, key=probability.__getitem__)


app = Iris.bind()

if __name__ == "__main__":
    handle = serve.run(app)
    flowers = np.array([[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3], [5.9, 3.0, 4.2, 1.5]])
    responses = [handle.remote(flower) for flower in flowers]  # all at once
    print([response.result() for response in responses])

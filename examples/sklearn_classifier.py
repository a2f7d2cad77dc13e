"""A scikit-learn classifier for iris flowers, trained when the worker starts (a second or two).

Serve it with
    anyserve run examples/sklearn_classifier.py
and ask for the species of one flower (sepal length and width, petal length and width, in cm):
    import numpy as np, tritonclient.grpc as triton
    client = triton.InferenceServerClient("127.0.0.1:8000")
    x = triton.InferInput("flowers", [1, 4], "FP32")
    x.set_data_from_numpy(np.array([[5.1, 3.5, 1.4, 0.2]], np.float32))
    result = client.infer("iris", [x])
    print(result.as_numpy("species"), result.as_numpy("probability"))   # [b'setosa'] [[…]]
"""

from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from anyserve import AnyServe, Tensor

app = AnyServe()


@app.model(
    "iris",
    inputs={"flowers": Tensor("FP32", [-1, 4])},
    outputs={"species": Tensor("BYTES", [-1]), "probability": Tensor("FP32", [-1, 3])},
)
class Iris:
    def __init__(self):
        data = load_iris()
        self.names = data.target_names
        self.model = LogisticRegression(max_iter=1000).fit(data.data, data.target)

    def __call__(self, flowers):
        probability = self.model.predict_proba(flowers)
        return {
            "species": self.names[probability.argmax(axis=1)],
            "probability": probability.astype("float32"),
        }

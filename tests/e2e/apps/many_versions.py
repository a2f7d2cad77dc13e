"""Models in several versions; each answers with its own."""

from typing import Annotated

import numpy as np

from anyserve import AnyServe, Response, Tensor

app = AnyServe()


def which(request):
    return Response(np.zeros(0), parameters={"version": request.model_version})


for name, versions in {"numbers": ["2", "10", "1"], "words": ["v10", "a", "v2"], "mixed": ["beta", "3", "9.5"],
                       "one": ["1"], "group/sub.model-x_y": ["2024-01"]}.items():
    for version in versions:
        app.model(name, version=version)(which)


@app.model("signed:v2", inputs={"image": Tensor("UINT8", [-1, 28, 28]), "label": Tensor("BYTES", [])},
           outputs={"scores": Tensor("FP32", [-1, 10])})
def signed(image, label):
    return np.zeros((len(image), 10), np.float32)


@app.model("annotated")
def annotated(x: Annotated[np.ndarray, Tensor("FP32", [-1, 4])]) -> Annotated[np.ndarray, Tensor("INT64", [-1])]:
    return x.argmax(axis=1)


@app.model("other", deployment="elsewhere")
def other(request):
    return request.inputs

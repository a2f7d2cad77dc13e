"""A thousand models, of which most are never called."""

from anyserve import AnyServe, Tensor

app = AnyServe()


def first_ten(x):
    return x[:, :10]


for number in range(1000):
    app.model(f"model_{number:04}", inputs={"x": Tensor("FP32", [-1, 28])}, outputs={"y": Tensor("FP32", [-1, 10])})(first_ten)

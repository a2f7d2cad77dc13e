"""Dynamic batching: requests that come together share one call of the model.

    anyserve run examples/batching.py
    anyserve infer scale --input 'x:FP32:[1,4]=[1,2,3,4]'
    anyserve infer words --input 'text:BYTES:[2]=["one two","three"]'
"""

import numpy as np

from anyserve import AnyServe, Batching, Error, Tensor

app = AnyServe()


# The shapes are of one item. Clients send [n, 4] with 1 to 32 items; the handler gets the items of
# all requests of the call in one array, and returns a row for each.
@app.model("scale", inputs={"x": Tensor("FP32", [4])}, outputs={"y": Tensor("FP32", [4])},
           batching=Batching(32))  # fmt: skip
def scale(x):
    return x * 2


# A list with one answer for each request: one that cannot be answered fails alone.
@app.model("words", inputs={"text": Tensor("BYTES", [])}, outputs={"n": Tensor("INT64", [])},
           batching=Batching(16, max_wait_ms=2, as_list=True))  # fmt: skip
async def words(text, requests):
    answers = []
    for texts, request in zip(text, requests):
        if request.parameters.get("language", "en") != "en":
            answers.append(Error("INVALID_ARGUMENT", "only English is known"))
        else:
            answers.append(np.array([len(t.split()) for t in texts], dtype=np.int64))
    return answers

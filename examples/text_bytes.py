"""Text travels as BYTES tensors: numpy object arrays of `bytes` on the way in, str or bytes on the way out.

Serve it with
    anyserve run examples/text_bytes.py
and call it with
    import numpy as np, tritonclient.grpc as triton
    client = triton.InferenceServerClient("127.0.0.1:8000")
    text = triton.InferInput("text", [2], "BYTES")
    text.set_data_from_numpy(np.array([b"hello world", "grüße".encode()], object))
    result = client.infer("words", [text], parameters={"separator": " "})
    print(result.as_numpy("upper"), result.as_numpy("count"))
"""

import numpy as np

from anyserve import AnyServe, Error, Response, Tensor

app = AnyServe()


@app.model(
    "words",
    inputs={"text": Tensor("BYTES", [-1])},
    outputs={"upper": Tensor("BYTES", [-1]), "count": Tensor("INT64", [-1])},
)
def words(text, request):  # inputs and the whole request, side by side
    separator = request.parameters.get("separator", " ")
    try:
        lines = [line.decode() for line in text]
    except UnicodeDecodeError as e:
        # any other exception is answered with INTERNAL; this one is the client's mistake
        raise Error("INVALID_ARGUMENT", f"text must be UTF-8: {e}") from None
    counts = np.array([len(line.split(separator)) for line in lines], np.int64)
    upper = np.array([line.upper() for line in lines], object)
    return Response({"upper": upper, "count": counts}, {"lines": len(lines)})

"""What a server says at its start can be pasted, and works."""

import os
import subprocess
import sys

import pytest

from support import paths

APP = "import numpy as np\nfrom typing import Annotated, AsyncIterator\nfrom anyserve import *\napp = AnyServe()\n"

MODELS = {
    "vectors": """
@app.model("add", inputs={"a": Tensor("FP32", [-1]), "b": Tensor("FP32", [-1])})
def add(a, b):
    return a + b
""",
    "fixed": """
@app.model("m", inputs={"x": Tensor("INT64", [2, 3]), "flag": Tensor("BOOL", [1]), "s": Tensor("UINT8", [])})
def m(x, flag, s):
    assert x.shape == (2, 3)
    return x
""",
    "texts": """
@app.model("m", inputs={"prompt": Tensor("BYTES", [-1]), "it's": Tensor("BYTES", [])})
def m(request):
    return request.inputs["prompt"]
""",
    "any rank": """
@app.model("m", inputs={"x": Tensor("FP16"), "h": Tensor("BF16", [1])})
def m(x, h):
    return x
""",
    "batched": """
@app.model("m", inputs={"x": Tensor("FP64", [3])}, batching=Batching(4))
def m(x):
    return x
""",
    "annotated": """
@app.model("m:v2")
def m(x: Annotated[np.ndarray, Tensor("INT8", [4])], scale=2):
    return x
""",
    "undeclared": """
@app.model("m")
def m(a, b=None):
    return a
""",
    "only the request": """
@app.model("team/m")
def m(request):
    return request.inputs["who knows"]
""",
    "large": """
@app.model("m", inputs={"image": Tensor("FP32", [224, 224, 3])})
def m(image):
    assert image.shape == (224, 224, 3)
    return image.sum()
""",
    "stream": """
@app.model("m", inputs={"prompt": Tensor("BYTES", [1])}, outputs={"t": Tensor("BYTES", [1])})
def m(prompt):
    for word in prompt[0].split():
        yield np.array([word], object)
""",
    "stream of requests": """
@app.model("m", inputs={"x": Tensor("INT32", [1])})
async def m(requests: AsyncIterator[Request]):
    async for r in requests:
        yield r.inputs["x"]
""",
    "nothing": """
@app.model("m", inputs={})
def m():
    return np.array(1)
""",
    "the second": """
@app.model("unknown")
def unknown(request):
    return request.inputs["x"]

@app.model("known", inputs={"x": Tensor("FP32", [1])})
def known(x):
    return x
""",
}


def command(server):
    lines = server.log.lines
    at = next(i for i, line in enumerate(lines) if line.startswith("  Call it"))
    return lines[at + 1].strip()


@pytest.mark.parametrize("kind", MODELS)
def test_the_example_works(serve, tmp_path, kind):
    server = serve("app.py", source=APP + MODELS[kind])
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "anyserve").symlink_to(paths.BINARY.resolve())
    p = subprocess.run(["bash", "-c", command(server)], capture_output=True, text=True, timeout=60, cwd=tmp_path,
                       env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})  # fmt: skip
    assert p.returncode == 0, (command(server), p.stdout, p.stderr)
    if kind == "only the request":
        assert command(server).startswith("curl ") and '"name":"team/m"' in p.stdout
    elif kind == "large":
        assert command(server).startswith("head -c 602112 /dev/zero | anyserve infer m --input image=@raw:-")
    else:
        assert command(server).startswith("anyserve infer ")
    if kind == "the second":
        assert "infer known" in command(server)
    if kind == "vectors":
        assert "--input a=1,2 --input b=10,20" in command(server)


def test_what_nobody_has_set_is_not_named(serve):
    server = serve("app.py", "--python", "", source=APP + MODELS["vectors"], env={"ANYSERVE_PYTHON": sys.executable})
    text = server.log.text()
    assert "ANYSERVE_PYTHON" not in text and "(that of the anyserve command)" in text
    assert "1 models" not in text


def test_many_models_are_counted(serve):
    source = APP + "for i in range(1000):\n    app.model('m%d' % i)(lambda request: request.inputs)\n"
    server = serve("app.py", source=source)
    text = server.log.text()
    assert "and 990 more" in text and "m10:1" not in text.split("Call it")[0]

"""Error texts for mistakes in user code: what was expected, what came, and where in the code."""

import os
import subprocess
import sys
import textwrap
from typing import Annotated, List, Optional, Sequence

import numpy as np
import pytest
from fake import PACKAGE, Refused

sys.path.insert(0, str(PACKAGE))

import anyserve  # noqa: E402
from anyserve import AnyServe, Batching, DeclarationError, Request, Tensor  # noqa: E402

X = Tensor("FP32", [-1])


def declare(handler, **kwargs):
    app = AnyServe()
    app.model("m", **kwargs)(handler)
    return app.models[0]


def requests_of(handler, **kwargs):
    return [p.name for p in declare(handler, **kwargs).signature.params if p.is_request]


# --- which parameter takes the request ---


def by_name(request, x): ...
def by_annotation(x, req: Request): ...
def by_name_of_module(r: anyserve.Request): ...
def by_text(r: "Request", x): ...
def by_text_of_module(r: "anyserve.Request", x): ...
def by_text_beside_unknown(r: "Request", x: "Nowhere"): ...  # noqa: F821
def optional(r: Optional[Request], x): ...
def keyword(x, *, r: Request): ...
def both(request: Request, x): ...
class Class:
    def __call__(self, x, r: Request): ...


@pytest.mark.parametrize("handler, name", [
    (by_name, "request"), (by_annotation, "req"), (by_name_of_module, "r"), (by_text, "r"), (by_text_of_module, "r"),
    (by_text_beside_unknown, "r"), (optional, "r"), (keyword, "r"), (both, "request"), (Class, "r"), (Class().__call__, "r")])  # fmt: skip
def test_by_its_name_or_its_annotation(handler, name):
    assert requests_of(handler) == [name]
    if "x" in [p.name for p in declare(handler).signature.params]:
        assert requests_of(handler, inputs={"x": X}) == [name]


def of_a_batch(x, them: List[Request]): ...
def of_a_batch_too(x, them: "list[Request]"): ...
def of_a_batch_as_sequence(x, them: Sequence[Request]): ...
def of_a_batch_by_name(x, requests): ...
def of_a_batch_as_request(x, request: "list[Request]"): ...


@pytest.mark.parametrize("handler, name", [(of_a_batch, "them"), (of_a_batch_too, "them"), (of_a_batch_as_sequence, "them"),
                                           (of_a_batch_by_name, "requests"), (of_a_batch_as_request, "request")])  # fmt: skip
def test_of_a_batch(handler, name):
    assert requests_of(handler, batching=Batching(4)) == [name]


def test_no_other_parameter():
    def handler(req, requests, x: np.ndarray, y: int = 0): ...

    assert requests_of(handler) == []


HINT = "to receive the request, call it `request` or annotate it with anyserve.Request"


def two(a: Request, b: Request): ...
def name_and_annotation(request, b: Request): ...
def tensor(request: Annotated[np.ndarray, X]): ...
def misnamed(req, x): ...
def misnamed_annotated(req, x: Annotated[np.ndarray, X]): ...
def a_list(r: List[Request]): ...
def single(x, r: Request): ...


@pytest.mark.parametrize("handler, options, message", [
    (two, {}, "parameters 'a' and 'b' would both take the request; it goes to one"),
    (name_and_annotation, {}, "parameters 'request' and 'b' would both take the request; it goes to one"),
    (tensor, {}, "parameter 'request' takes the request, but it is annotated with a Tensor"),
    (misnamed, {"inputs": {"x": X}}, "parameter 'req' is not among the inputs: x; " + HINT),
    (misnamed_annotated, {}, "parameter 'req' needs an annotation with a Tensor, as the others have; " + HINT),
    (a_list, {}, "parameter 'r' is annotated with a list of requests, which handlers with batching get; here it is `Request`"),
    (single, {"batching": Batching(4)}, "parameter 'r' is annotated with one request; a handler with batching gets `list[Request]`"),
])  # fmt: skip
def test_mistakes(handler, options, message):
    with pytest.raises(DeclarationError) as e:
        declare(handler, **options)
    assert message in str(e.value)


APP = """
    import asyncio
    import numpy as np
    from anyserve import AnyServe, Request, Response, Tensor
    app = AnyServe()
    F = Tensor("FP32", [-1, 2])

    @app.model("annotated")
    def annotated(x, r: Request):
        return {"y": x, "id": [r.id]}

    @app.model("misnamed")
    def misnamed(req, x):
        return x

    @app.model("plain")
    def plain(a, b):
        return a

    @app.model("shape", outputs={"y": F})
    def shape(x):
        return {"y": x}

    @app.model("any", outputs={"y": Tensor("INT8")})
    def any_shape(x):
        return {"y": x}

    @app.model("two", outputs={"y": F, "z": F})
    def two(x):
        return [{"w": x, "v": x}, {}, x, {"y": x, "z": x, "w": x}][int(x[0])]

    async def fetch(x):
        return x

    @app.model("forgot")
    async def forgot(x):
        return fetch(x)

    @app.model("not_async")
    def not_async(x):
        return fetch(x)

    @app.model("inside")
    async def inside(x):
        return {"y": fetch(x)}

    @app.model("future")
    async def future(x):
        return {"y": asyncio.ensure_future(fetch(x))}

    @app.model("thing")
    class Thing:
        def __call__(self, x):
            return None
"""


@pytest.fixture(scope="module")
def worker(start_module):
    return start_module(APP)


def line(text):
    """Of the line with that text, as messages name it: where a decorated function begins is where its decorators do."""
    lines = textwrap.dedent(APP).splitlines()
    return "app.py:%d" % (lines.index(text) + 1)


def test_an_annotated_parameter_gets_the_request(worker):
    got = worker.infer("annotated", {"x": np.ones(1)}, rid="the id")
    assert got["id"] == [b"the id"]


ONE = np.array([1.0], np.float32)


@pytest.mark.parametrize("model, inputs, message", [
    ("misnamed", {"x": ONE}, "missing input 'req' for model 'misnamed': its handler takes 'req', 'x', the request has 'x'; handler"
     " parameter 'req' (app.py:{line:@app.model(\"misnamed\")}) is taken for an input tensor; " + HINT),
    ("plain", {"a": ONE}, "missing input 'b' for model 'plain': its handler takes 'a', 'b', the request has 'a'"),
    ("plain", {}, "missing input 'a' for model 'plain': its handler takes 'a', 'b', the request has none"),
    ("plain", {"a": ONE, "b": ONE, "c": ONE}, "unexpected input 'c' for model 'plain': its handler takes 'a', 'b'"),
])  # fmt: skip
def test_inputs(worker, model, inputs, message):
    with pytest.raises(Refused) as e:
        worker.infer(model, inputs)
    if "{line:" in message:
        message = message.replace("app.py:{line:@app.model(\"misnamed\")}", line('@app.model("misnamed")'))
    assert e.value.code == "INVALID_ARGUMENT" and e.value.message == message


@pytest.mark.parametrize("model, x, message", [
    ("shape", np.zeros(3, "f4"), "output 'y' of model 'shape' is FP32 [3] (numpy float32), but FP32 [-1, 2] is declared"),
    ("shape", np.zeros((1, 2)), "output 'y' of model 'shape' is FP64 [1, 2] (numpy float64), but FP32 [-1, 2] is declared"),
    ("any", np.zeros((1, 2)), "output 'y' of model 'any' is FP64 [1, 2] (numpy float64), but INT8 of any shape is declared"),
    ("two", np.array([0]), "output 'y' of model 'two' is missing; returned: 'w', 'v'; declared: 'y', 'z'"),
    ("two", np.array([1]), "output 'y' of model 'two' is missing; returned: none; declared: 'y', 'z'"),
    ("two", np.array([2]), "model 'two' returned 1 output, but 2 are declared: 'y', 'z'"),
    ("forgot", ONE, "model 'forgot' returned the coroutine of 'fetch', which its handler must await: return await fetch(...)"),
    ("not_async", ONE, "model 'not_async' returned a coroutine; declare its handler with async def, and await in it: return await fetch(...)"),
    ("inside", ONE, "output 'y' of model 'inside' is a coroutine, which its handler must await"),
    ("future", ONE, "output 'y' of model 'future' is a Task, which its handler must await"),
    ("thing", ONE, "model 'thing' returned None; a handler returns an array, a dict or a tuple"),
])  # fmt: skip
def test_outputs(worker, model, x, message):
    with pytest.raises(Refused) as e:
        worker.infer(model, {"x": x})
    place = line("    def __call__(self, x):") if model == "thing" else line('@app.model("%s"%s)' % (
        model, {"shape": ', outputs={"y": F}', "any": ', outputs={"y": Tensor("INT8")}',
                "two": ', outputs={"y": F, "z": F}'}.get(model, "")))  # fmt: skip
    assert e.value.code == "INTERNAL" and e.value.message == "%s (%s)" % (message, place)
    worker.wait_output("event=bad_result model=%s handler=%s" % (model, place))
    assert "never awaited" not in worker.output


# --- the command that the server prints for people to paste ---


def of_two_requests(requests): ...


@pytest.mark.parametrize("handler, options, command", [
    (by_name_of_module, {}, None), (by_text, {}, None), (by_name, {}, None), (of_a_batch, {"batching": Batching(4)}, None),
    (of_a_batch_by_name, {"batching": Batching(4)}, None), (by_annotation, {"inputs": {"x": X}}, "anyserve infer m --input x=1,2"),
    (of_two_requests, {}, "anyserve infer m --input requests:FP32=1,2"),
])  # fmt: skip
def test_nobody_knows_what_a_handler_of_the_request_takes(handler, options, command):
    from anyserve.example import command_for

    assert command_for([declare(handler, **options)]) == command


# --- files that are called as Python's own ---

GOOD = """
from anyserve import AnyServe
app = AnyServe()
@app.model("m")
def m(x): return x
"""


@pytest.fixture
def describe(tmp_path):
    def describe(files, target="app.py"):
        for name, text in files.items():
            (tmp_path / name).write_text(textwrap.dedent(text))
        return subprocess.run([sys.executable, "-m", "anyserve.worker", target, "--describe"], cwd=tmp_path,
                              capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE)})  # fmt: skip

    return describe


@pytest.mark.parametrize("name", ["typing.py", "numpy.py", "queue.py", "json.py", "re.py", "logging.py", "argparse.py", "code.py"])
def test_a_file_beside_the_program_does_not_stand_for_a_module_of_ours(describe, name):
    p = describe({"app.py": GOOD + "import numpy as np, typing, queue, json\nnp.zeros(1), json.dumps(1)\n", name: "raise RuntimeError('mine')\n"})
    assert p.returncode == 0, p.stderr


@pytest.mark.parametrize("program", ["import csv\ncsv.reader\n", "import imaplib\n"])
def test_one_that_stands_for_a_module_that_the_program_needs(describe, program):
    """imaplib is Python's own, and imports calendar."""
    p = describe({"app.py": GOOD + program, "csv.py": "", "calendar.py": "import nowhere_at_all\n"})
    assert p.returncode == 70
    name = "csv" if "csv" in program else "calendar"
    assert "%s.py was loaded in the place of Python's own module %r" % (name, name) in p.stderr.replace("\n", " "), p.stderr
    assert os.path.basename("app.py") in p.stderr


def test_a_program_that_is_called_as_a_module_in_use(describe):
    p = describe({"queue.py": GOOD}, "queue.py")
    assert p.returncode == 78
    assert "queue.py has the name of the module 'queue', which is in use: rename the file" in p.stderr


def test_a_program_may_be_called_as_a_module_that_is_not_in_use(describe):
    assert describe({"code.py": GOOD}, "code.py").returncode == 0


PLACES = """
import numpy as np
from anyserve import AnyServe

app = AnyServe()

@app.model("misnamed")
def misnamed(req):
    return req

@app.model("bad")
def bad(x):
    return object()
"""


@pytest.mark.parametrize("how, logged", [("copy", "app.py"), ("copy of", "/home/somebody/app.py"), ("elsewhere", "{folder}/app.py")])
def test_clients_read_no_paths_of_the_server(start, tmp_path, how, logged):
    """The name of the file and the line say enough; the log has the user's own file."""
    if how == "elsewhere":
        (tmp_path / "app.py").write_text(PLACES)
        worker = start(None, str(tmp_path / "app.py"))
        logged = logged.format(folder=tmp_path)
    else:
        said = ["--code-from=/home/somebody"] if how == "copy of" else []
        worker = start(PLACES, f"--working-dir={tmp_path}", *said, "app.py")
    lines = PLACES.splitlines()
    with pytest.raises(Refused) as e:
        worker.infer("misnamed", {"x": ONE})
    at = lines.index('@app.model("misnamed")') + 1
    assert f"'req' (app.py:{at}) is taken for" in e.value.message
    with pytest.raises(Refused) as e:
        worker.infer("bad", {"x": ONE})
    at = lines.index('@app.model("bad")') + 1
    assert e.value.message.endswith(f" (app.py:{at})") and "/" not in e.value.message
    worker.wait_output(f"event=bad_result model=bad handler={logged}:{at} ")

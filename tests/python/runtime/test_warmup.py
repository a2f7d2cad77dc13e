"""warmup_requests: what a new replica executes before it connects."""

import json
import textwrap

import numpy as np
import pytest

APP = """
import asyncio, json, threading
import numpy as np
from typing import Annotated, AsyncIterator
from anyserve import AnyServe, Batching, Error, Request, Response, Tensor
app = AnyServe()
seen = []

def note(what, *arrays):
    seen.append([what] + [a.tolist() for a in arrays])

@app.model("seen")
def what_was_seen(request):
    return np.array([json.dumps([seen, threading.current_thread().name]).encode()], object)
"""

KINDS = {
    "sync": """
@app.model("m", inputs={"x": Tensor("FP32", [-1])}, outputs={"y": Tensor("FP32", [-1])})
def m(x):
    note("m", x)
    return x + 1
""",
    "class": """
@app.model("m", inputs={"x": Tensor("FP32", [-1])})
class M:
    def __init__(self):
        note("made")
    def check_health(self):
        note("well")
    def __call__(self, x):
        note("m", x)
        return x
""",
    "threads": """
@app.model("m", threads=3)
def m(x):
    assert threading.current_thread() is not threading.main_thread()
    note("m", x)
    return x
""",
    "async": """
@app.model("m")
async def m(x):
    await asyncio.sleep(0.001)
    note("m", x)
    return x
""",
    "eager": """
@app.model("m", eager=True)
async def m(x):
    note("m", x)
    return x
""",
    "batches": """
@app.model("m", inputs={"x": Tensor("FP32", [])}, batching=Batching(4))
def m(x, requests):
    assert [r.items for r in requests] == [2]
    note("m", x)
    return x
""",
    "stream": """
@app.model("m")
def m(x):
    for i in range(3):
        yield x
    note("m", x)
""",
    "async stream": """
@app.model("m")
async def m(x):
    for i in range(3):
        await asyncio.sleep(0)
        yield x
    note("m", x)
""",
    "stream of inputs": """
@app.model("m")
async def m(requests: AsyncIterator[Request]):
    inputs = [r.inputs["x"] async for r in requests]
    assert len(inputs) == 1
    yield inputs[0]
    note("m", inputs[0])
""",
}


def warm(*requests, **entry):
    return f"\napp.deployment(warmup_requests={list(requests) or [entry]!r})\n"


def x(*values, datatype="FP32", shape=None, **more):
    data = list(values)
    return {"inputs": [{"name": "x", "datatype": datatype, "shape": shape or [len(data)], "data": data}], **more}


def seen(worker):
    (value,) = worker.infer("seen").outputs.values()
    return json.loads(value[0])[0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_handler(start, kind):
    source = APP + KINDS[kind] + warm(model="m", count=3, request=x(1.0, 2.0))
    worker = start(source)  # greets: it has granted slots
    before = {"class": [["made"], ["well"]]}.get(kind, [])
    assert seen(worker) == before + [["m", [1.0, 2.0]]] * 3
    worker.wait_output("event=warmed_up requests=3")
    if kind in ("sync", "class", "threads", "async", "eager"):  # and goes on serving
        assert worker.infer("m", {"x": np.float32([1, 2])})


def test_what_the_handler_sees(start):
    """The request as a client's: views, parameters, an id, no metadata, no deadline."""
    worker = start(APP + """
@app.model("m:2")
@app.model("m:10")
def m(request):
    x = request.inputs["x"]
    assert not x.flags.writeable and x.ctypes.data % 64 == 0
    assert not request.cancelled and request.deadline is None and request.metadata == {}
    seen.append([request.model_name, request.model_version, request.id, request.parameters])
    return x
""" + warm({"model": "m", "request": {**x(1, 2, 3, datatype="INT8", id="the first", parameters={
        "b": True, "i": -5, "u": 2**64 - 1, "f": 0.5, "s": "t", "priority": 1, "binary_data_output": True}),
        "outputs": [{"name": "anything"}], "unknown": 1}}, {"model": "m", "model_version": "2", "request": x(1)}))
    assert seen(worker) == [["m", "10", "the first", {"b": True, "i": -5, "u": 2**64 - 1, "f": 0.5, "s": "t"}],
                            ["m", "2", "", {}]]


def test_a_request_may_be_kept(start):
    """Its bytes stay while somebody holds it, as those of a client's request do."""
    worker = start(APP + """
kept = []
@app.model("m")
def m(x):
    kept.append(x)
    return x
@app.model("kept")
def get(request):
    return kept[0]
""" + warm(model="m", request=x(*range(1000), datatype="INT64")))
    (value,) = worker.infer("kept").outputs.values()
    assert value.tolist() == list(range(1000))


@pytest.mark.parametrize("datatype, data, want", [
    ("UINT64", [2**64 - 1], [2**64 - 1]), ("INT8", [-128, 127], [-128, 127]),
    ("FP16", [65504, 0.1], [65504, np.float16(0.1)]), ("FP64", [1e308, -0.0], [1e308, -0.0]),
    ("BOOL", [True, False], [True, False]), ("INT32", [[1, 2], [3, 4]], [1, 2, 3, 4]),
    ("FP32", 7, [7.0]), ("BF16", [1.0, 1.00390625, 1.01171875], [0x3F80, 0x3F80, 0x3F82]),
])
def test_elements(start, datatype, data, want):
    n = len(want)
    request = {"inputs": [{"name": "x", "datatype": datatype, "shape": [n], "data": data}]}
    worker = start(APP + """
@app.model("m")
def m(x):
    assert x.dtype.name != "object"
    note("m", x.view(np.uint16) if x.dtype.itemsize == 2 and x.dtype.kind not in "iuf" else x)
    return x
""" + warm(model="m", request=request))
    assert seen(worker) == [["m", [np.array(w).item() for w in want]]]


def test_texts(start):
    worker = start(APP + """
@app.model("m")
def m(x):
    seen.append([b.decode() for b in x])
    return x
""" + warm(model="m", request=x("", "é", "x" * 300, datatype="BYTES")))
    assert seen(worker) == [["", "é", "x" * 300]]


def test_large_bodies(start):
    worker = start(APP + "\n@app.model('m')\ndef m(x):\n    seen.append(x.shape)\n    return np.zeros((1000, 1000))\n"
                   + warm(model="m", request=x(*[0] * 50000, datatype="FP64", shape=[50, 1000])))
    assert seen(worker) == [[50, 1000]]


def test_the_file_wins_over_the_code(start):
    context = json.dumps({"warmup_requests": [{"model": "m", "request": x(5.0)}]})
    worker = start(APP + KINDS["sync"] + warm(model="m", request=x(1.0)), env={"ANYSERVE_CONTEXT": context})
    assert seen(worker) == [["m", [5.0]]]
    assert worker.control(2, context)[0] == "INVALID_ARGUMENT"  # it is for the start
    worker = start(APP + KINDS["sync"] + warm(model="m", request=x(1.0)),
                   env={"ANYSERVE_CONTEXT": '{"warmup_requests": []}'})
    assert seen(worker) == []


def test_it_happens_after_the_configuration(start):
    worker = start(APP + """
def reconfigure(config): note(config)
""" + KINDS["sync"] + """
app.deployment(user_config="config", warmup_requests=[{"model": "m", "request": %r}])
""" % x(1.0))
    assert seen(worker) == [["config"], ["m", [1.0]]]


# --- what keeps a replica from starting ---

def assert_stops(start, source, code, *texts):
    worker = start(source, greet=False)
    assert worker.wait() == code, worker.output
    for text in texts:
        assert text in worker.output
    assert "Ready" not in worker.output


@pytest.mark.parametrize("kind, head", [("sync", "def m(x):"), ("async", "async def m(x):"), ("threads", "def m(x):")])
def test_a_handler_that_fails(start, kind, head):
    source = APP + f"""
calls = []
@app.model("m"{", threads=2" if kind == "threads" else ""})
{head}
    calls.append(x)
    if len(calls) == 3:
        raise ValueError("no weights")
    return x
""" + warm({"model": "seen", "request": {"inputs": []}}, {"model": "m", "count": 5, "request": x(1.0)})
    assert_stops(start, source, 70, "warmup_requests[1]: model 'm' failed in run 3 of 5: INTERNAL: "
                 "model 'm' raised ValueError: no weights",
                 'raise ValueError("no weights")')  # the traceback, in the log


@pytest.mark.parametrize("body, why", [
    ("raise Error('UNAVAILABLE', 'no GPU')", "UNAVAILABLE: no GPU"),
    ("return {'z': x}", "INTERNAL: "), ("return x.astype('f8')", "INTERNAL: output 'y' of model 'm' is FP64"),
    ("return 1", "INTERNAL: "),
])
def test_an_answer_is_checked(start, body, why):
    source = KINDS["sync"].replace("return x + 1", body)
    assert_stops(start, APP + source + warm(model="m", request=x(1.0)), 70,
                 "warmup_requests[0]: model 'm' failed in run 1 of 1: " + why)


@pytest.mark.parametrize("shift", ["", "x"])
def test_a_long_error_is_cut_between_two_characters(start, shift):
    source = KINDS["sync"].replace("return x + 1", f"raise ValueError({shift!r} + 'é' * 600)")
    assert_stops(start, APP + source + warm(model="m", request=x(1.0)), 70,
                 f"failed in run 1 of 1: INTERNAL: model 'm' raised ValueError: {shift}ééé")


@pytest.mark.parametrize("kind", ["stream", "async stream"])
def test_a_stream_is_checked_to_its_end(start, kind):
    source = KINDS[kind].replace('note("m", x)', 'raise ValueError("at the end")')
    assert_stops(start, APP + source + warm(model="m", request=x(1.0)), 70, "raised ValueError: at the end")
    source = KINDS[kind].replace('"m")', '"m", outputs={"y": Tensor("INT8", [1])})', 1)
    assert_stops(start, APP + source + warm(model="m", request=x(1.0)), 70,
                 "INTERNAL: output 'y' of model 'm' is FP32")


@pytest.mark.parametrize("kind, request_, why", [
    ("sync", x(1.0, datatype="FP64"), "input 'x': datatype FP64, model 'm' expects FP32"),
    ("sync", {"inputs": []}, "input 'x' of model 'm' is missing"),
    ("sync", x(1.0, shape=[1, 1]), "input 'x': shape [1,1], model 'm' expects [-1]"),
    ("batches", x(*[1.0] * 5), "input 'x': 5 items, model 'm' takes 1 to 4 (max_batch_size)"),
    ("sync", {}, "inputs must be an array"), ("sync", {"inputs": [7]}, "an input is an object with a name, not 7"),
    ("sync", x(1.0, 2.0, shape=[2, 2]), "input 'x': 2 elements in data, shape [2, 2] needs 4"),
    ("sync", x([1, 2], [3]), "input 'x': data is not nested evenly"),
    ("sync", x(300, datatype="UINT8"), "input 'x': data[0]: 300 does not fit UINT8"),
    ("sync", x(1.0, datatype="INT8"), "data[0]: 1.0 is no integer"),
    ("sync", x(True), "data[0]: True is no number"), ("sync", x(1e39), "data[0]: 1e+39 does not fit FP32"),
    ("sync", x(65520, datatype="FP16"), "does not fit FP16"), ("sync", x(3.4e38, datatype="BF16"), "does not fit BF16"),
    ("sync", x(1, datatype="BOOL"), "data[0]: 1 is neither true nor false"),
    ("sync", x(1, datatype="BYTES"), "data[0]: 1 is no text"),
    ("sync", x(1, datatype="FP8"), "there is no datatype 'FP8'"),
    ("sync", x(1.0, outputs=[{"name": "z"}]), "model 'm' has no output 'z'"),
    ("sync", x(1.0, id=5), "id must be a text"),
    ("sync", x(1.0, parameters={"a": [1]}), "parameter 'a' is a boolean, a number or a text, not [1]"),
    ("sync", {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1], "data": []}]}, "shape must be an array"),
    ("sync", {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}]}, "input 'x': data is missing"),
])
def test_requests_that_do_not_fit(start, kind, request_, why):
    assert_stops(start, APP + KINDS[kind] + warm(model="m", request=request_), 78, "warmup_requests[0]: ", why)


@pytest.mark.parametrize("entry, why", [
    ({}, "model is needed, the deployment has several: m, seen"),
    ({"model": "n"}, "the deployment has no model 'n'; it has m, seen"),
    ({"model": "m", "model_version": "7"}, "there is no version '7' of model 'm'"),
])
def test_models_that_there_are_not(start, entry, why):
    assert_stops(start, APP + KINDS["sync"] + warm(request=x(1.0), **entry), 78, "warmup_requests[0]: " + why)


def test_it_is_read_before_anything_is_loaded(start):
    source = KINDS["class"].replace('note("made")', "print('loading')")
    worker = start(APP + source + warm(model="m", request={}), greet=False)
    assert worker.wait() == 78 and "loading" not in worker.output


@pytest.mark.parametrize("entries", [[{}], [{"request": 1}], [{"request": {}, "count": 0}], [{"request": {}}] * 101])
def test_what_the_server_says_is_checked(start, entries):
    worker = start(APP + KINDS["sync"], greet=False, env={"ANYSERVE_CONTEXT": json.dumps({"warmup_requests": entries})})
    assert worker.wait() == 78 and "warmup_requests" in worker.output


def test_one_model_needs_no_name(start):
    worker = start(textwrap.dedent("""
        from anyserve import AnyServe
        app = AnyServe()
        @app.model("m")
        def m(x):
            print("warm:", x)
            return x
        """) + warm(request=x(1.0)))
    worker.wait_output("warm: [1.]")

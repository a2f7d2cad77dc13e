"""anyserve.Request as users construct it in their unit tests: it has all fields that handlers read."""

import gc
import sys
import time

import numpy as np
import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))

from anyserve import Request  # noqa: E402


def test_nothing_has_to_be_said():
    r = Request()
    assert isinstance(r, Request)
    assert (r.inputs, r.parameters, r.metadata, r.id) == ({}, {}, {}, "")
    assert (r.model_name, r.model_version, r.deadline, r.items, r.cancelled) == ("", "1", None, 1, False)
    assert r.input_parameters == {}


def test_every_field_can_be_said():
    until = time.monotonic() + 5
    r = Request(inputs={"x": [1.5, 2.0]}, parameters={"k": 3, "t": "v", "b": True, "f": 0.5},
                metadata={"user-agent": "me", "trace-bin": b"\0\1"}, id="7", model_name="m", model_version="2",
                deadline=until, items=2, cancelled=True, input_parameters={"x": {"content_type": "np"}})  # fmt: skip
    assert r.input_parameters == {"x": {"content_type": "np"}}
    assert r.inputs["x"].tolist() == [1.5, 2.0]
    assert r.parameters == {"k": 3, "t": "v", "b": True, "f": 0.5}
    assert r.metadata == {"user-agent": "me", "trace-bin": b"\0\1"}
    assert (r.id, r.model_name, r.model_version, r.items, r.cancelled) == ("7", "m", "2", 2, True)
    assert r.deadline == pytest.approx(until)
    assert repr(r) == "<anyserve.Request for model 'm' version '2'>"


def test_inputs_are_what_a_handler_gets():
    given = np.arange(3, dtype=np.float32)
    r = Request(inputs={"x": given, "t": ["a", b"\xff"], "u": np.array(["é"]), "b": [True]})
    x = r.inputs["x"]
    assert x.dtype == np.float32 and not x.flags.writeable and np.shares_memory(x, given)
    assert given.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1
    assert r.inputs["t"].dtype == object and r.inputs["t"].tolist() == [b"a", b"\xff"]
    assert r.inputs["u"].tolist() == ["é".encode()]
    assert r.inputs["b"].dtype == np.bool_


@pytest.mark.parametrize(("said", "error", "text"), [
    ({"inputs": [1]}, TypeError, "inputs is a mapping of name to array, not list"),
    ({"inputs": {1: [1]}}, TypeError, "the name of an input is a str, not int"),
    ({"inputs": {"x": object()}}, TypeError, "input 'x': object is no array of a datatype"),
    ({"inputs": {"x": [1j]}}, TypeError, "input 'x': complex128 is no array of a datatype"),
    ({"inputs": {"x": [[1], [1, 2]]}}, TypeError, "input 'x': "),
    ({"inputs": {"x": np.array([1, None], object)}}, TypeError, "input 'x': an element is int, not str or bytes"),
    ({"parameters": 3}, TypeError, "parameters must be a mapping, not int"),
    ({"input_parameters": 3}, TypeError, "input_parameters must be a mapping, not int"),
    ({"metadata": "k"}, TypeError, "metadata must be a mapping, not str"),
    ({"id": 7}, TypeError, "id"),
    ({"model_name": None}, TypeError, "model_name"),
    ({"deadline": "soon"}, TypeError, "deadline must be a number of time.monotonic.* or None, not str"),
    ({"deadline": float("nan")}, ValueError, "deadline"),
    ({"items": -1}, ValueError, "items"),
    ({"inptus": {}}, TypeError, "inptus"),
])  # fmt: skip
def test_what_is_wrong_is_named(said, error, text):
    with pytest.raises(error, match=text):
        Request(**said)


def test_positions_have_no_meaning():
    with pytest.raises(TypeError, match="position"):
        Request({"x": [1]})


def test_a_handler_can_be_called_with_one():
    def handler(request):
        return request.inputs["x"] * request.parameters.get("factor", 1)

    assert handler(Request(inputs={"x": [1, 2]}, parameters={"factor": 3})).tolist() == [3, 6]


def test_a_past_deadline_is_told():
    assert Request(deadline=time.monotonic() - 1).deadline < time.monotonic()


def test_nothing_is_left_behind():
    array = np.zeros(8)
    before = sys.getrefcount(array)
    for _ in range(1000):
        Request(inputs={"x": array}, id="i" * 100, model_name="m" * 100)
        with pytest.raises(TypeError):
            Request(inputs={"x": array}, parameters=3)
    gc.collect()
    assert sys.getrefcount(array) == before

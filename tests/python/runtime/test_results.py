"""What a handler may return, and the error for anything else."""

import numpy as np
import pytest
from fake import Refused

APP = """
import collections
import numpy as np
from anyserve import AnyServe, Error, Response, Tensor

app = AnyServe()
results = {}


@app.model("free")
def free(which):
    return eval(which[()] if which.ndim == 0 else which[0])


@app.model("one", outputs={"sum": Tensor("FP32", [-1, 2])})
def one(which):
    return eval(which[0])


@app.model("two", outputs={"a": Tensor("INT64", []), "b": Tensor("BYTES", [-1])})
def two(which):
    return eval(which[0])


@app.model("any", outputs={"a": Tensor("INT8")})
def any_shape(which):
    return eval(which[0])


@app.model("none", outputs={})
def no_outputs(which):
    return eval(which[0])


class Text(str):
    pass


class Typed(collections.UserDict):  # of what type its values are, say
    dtype = "f4"


class Table(collections.UserDict):
    # as pandas' DataFrame: its columns are attributes, too, and it can be made an array

    def __getattr__(self, name):
        if name == "data" or name not in self.data:
            raise AttributeError(name)
        return self.data[name]

    def __array__(self, dtype=None, copy=None):
        return np.array(list(self.values()))


class Series(collections.UserDict):
    # as pandas': an array of which each item has a label
    @property
    def dtype(self):
        return np.dtype("f8")

    def __array__(self, dtype=None, copy=None):
        return np.array(list(self.values()), "f8")


def arr(dtype, *values):
    return np.array(values, dtype)


class Emptying:
    # converting it empties the dict that it was returned in

    def __init__(self, into, value):
        self.into, self.value = into, value

    def __array__(self, *args, **kwargs):
        self.into.clear()
        return self.value


def emptied():
    d = {}
    d["f" * 40 + str(len(results))] = np.array([1], "i4")  # a key and an array that only d holds
    d["e" * 40 + str(len(results))] = Emptying(d, np.array([2], "i4"))
    return d


def emptied_declared():
    d = {}
    d["a"] = Emptying(d, np.array(2, "i8"))
    d["b"] = np.array([b"x"], object)
    return d
"""


@pytest.fixture(scope="module")
def worker(start_module):
    return start_module(APP)


def result(worker, expression, model="free"):
    return worker.infer(model, {"which": [expression.encode()]})


def values(got):
    return {k: v if isinstance(v, list) else v.tolist() for k, v in got.outputs.items()}


@pytest.mark.parametrize("expression, want", [
    ("np.arange(3)", {"output0": [0, 1, 2]}),
    ("(np.arange(2), 5)", {"output0": [0, 1], "output1": 5}),
    ("{'a': np.arange(2), 'b': 'text'}", {"a": [0, 1], "b": [b"text"]}),
    ("collections.OrderedDict(z=1, a=2)", {"z": 1, "a": 2}),
    ("collections.ChainMap({'z': 1}, {'a': 2})", {"z": 1, "a": 2}),
    ("[[1, 2], [3, 4]]", {"output0": [[1, 2], [3, 4]]}),
    ("Typed(z=1, a=2)", {"z": 1, "a": 2}),
    ("Table(dtype=np.arange(2), b=2)", {"dtype": [0, 1], "b": 2}),
    ("Series(a=1, b=2)", {"output0": [1, 2]}),
    ("()", {}),
    ("{}", {}),
    ("1.5", {"output0": 1.5}),
    ("True", {"output0": True}),
    ("np.float32(2)", {"output0": 2}),
    ("'ü'", {"output0": ["ü".encode()]}),
    ("b'a\\0'", {"output0": [b"a\0"]}),
    ("[b'a\\0', b'', b'\\0']", {"output0": [b"a\0", b"", b"\0"]}),
    ("['a', 'bcd', 'ü']", {"output0": [b"a", b"bcd", "ü".encode()]}),
    ("('a', b'b')", {"output0": [b"a"], "output1": [b"b"]}),
    ("np.array(['a', 'bc'])", {"output0": [b"a", b"bc"]}),
    ("np.array([b'a', b'bc'])", {"output0": [b"a", b"bc"]}),
    ("np.array([[b'a', 'ü']], dtype=object)", {"output0": [b"a", "ü".encode()]}),
    ("{Text('sub'): 1}", {"sub": 1}),
    ("Response(7, {'p': 1})", {"output0": 7}),
    ("Response({'a': 7})", {"a": 7}),
    ("tuple(range(40))", {f"output{i}": i for i in range(40)}),
    ("tuple('abcdefghijklmnopqrst')", {f"output{i}": [c.encode()] for i, c in enumerate("abcdefghijklmnopqrst")}),
])  # fmt: skip
def test_forms_of_a_result(worker, expression, want):
    assert values(result(worker, expression)) == want


@pytest.mark.parametrize("expression, want", [
    ("arr('>f4', 1, 2)", ("FP32", [1, 2])),
    ("arr('>i8', 1, -2)", ("INT64", [1, -2])),
    ("np.arange(10, dtype='i4')[::-3]", ("INT32", [9, 6, 3, 0])),
    ("np.arange(6).reshape(2, 3).T", ("INT64", [[0, 3], [1, 4], [2, 5]])),
    ("np.asfortranarray(np.arange(6).reshape(2, 3))", ("INT64", [[0, 1, 2], [3, 4, 5]])),
    ("np.broadcast_to(np.int8(3), (2, 2))", ("INT8", [[3, 3], [3, 3]])),
    ("np.frombuffer(b'x' + bytes(8), 'f4', offset=1)", ("FP32", [0, 0])),
    ("np.longlong(3) + np.zeros(1, np.longlong)", ("INT64", [3])),
    ("arr('e', 1.5)", ("FP16", [1.5])),
])  # fmt: skip
def test_arrays_of_any_layout(worker, expression, want):
    got = result(worker, expression)
    assert (got.datatypes["output0"], got["output0"].tolist()) == want


def test_bfloat16_out(worker):
    pytest.importorskip("ml_dtypes")
    got = result(worker, "np.ones(2, __import__('ml_dtypes').bfloat16)")
    assert got.datatypes == {"output0": "BF16"} and got["output0"].tobytes() == b"\x80\x3f\x80\x3f"
    assert result(worker, "np.zeros(2, 'V2')").datatypes == {"output0": "BF16"}


def test_parameters_of_a_response(worker):
    params = {"b": True, "i": -(2**63), "j": 2**63 - 1, "u": 2**64 - 1, "f": 0.1, "s": "ü", "": ""}
    assert result(worker, f"Response((), {params!r})").parameters == params


@pytest.mark.parametrize("expression, message", [
    ("None", "model 'free' returned None; a handler returns an array, a dict or a tuple"),
    ("{'x': None}", "output 'x' of model 'free' is None"),
    ("(1, None)", "output 'output1' of model 'free' is None"),
    ("Response(None)", "model 'free' returned None"),
    ("{1: 2}", "model 'free' returned a dict with the key 1; names must be str"),
    ("{'': 2}", "model 'free' returned an output without a name"),
    ("1j", "output 'output0' of model 'free' has the numpy dtype complex128, which has no OIP datatype"),
    ("np.zeros(1, 'M8[s]')", "has the numpy dtype datetime64[s], which has no OIP datatype"),
    ("np.zeros(1, 'V3')", "which has no OIP datatype"),
    ("np.zeros(1, [('a', 'i1'), ('b', 'i1')])", "which has no OIP datatype"),
    ("np.zeros(1, np.longdouble)", "which has no OIP datatype"),
    ("object()", "output 'output0' of model 'free' is an object, which numpy cannot convert to an array of numbers or text"),
    ("[b'a', 1]", "cannot be converted to a tensor: elements must be bytes or str, not int"),
    ("[[1], [1, 2]]", "output 'output0' of model 'free' cannot be converted to a tensor: "),
    ("{'x': '\\ud800'}", "output 'x' of model 'free' cannot be converted to a tensor: "),
    ("np.zeros((1,) * 33)", "output 'output0' of model 'free' has more than 32 dimensions"),
    ("tuple(range(4097))", "model 'free' returned 4097 outputs; the limit is 4096"),
    ("Response(1, {'p': [1]})", "parameter 'p' of model 'free' is a list; it must be bool, int, float or str"),
    ("Response(1, {'p': 2**64})", "parameter 'p' of model 'free' is out of range"),
    ("Response(1, {'p': -2**63 - 1})", "parameter 'p' of model 'free' is out of range"),
    ("Response(1, {1: 1})", "a parameter whose name 1 is not a str"),
    ("Response(1, {str(i): i for i in range(1025)})", "returned 1025 parameters; the limit is 1024"),
    ("(lambda: (yield))()", "model 'free' returned a generator; write `yield` in its handler itself"),
    ("__import__('asyncio').sleep(0)", "model 'free' returned a coroutine; declare its handler with async def"),
    ("{'x' * 70000: 1}", "is larger than the dispatcher accepts"),
])  # fmt: skip
def test_results_that_are_no_answer(worker, expression, message):
    if "* 33" in expression and np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("numpy 1 has no array of 33 dimensions")
    with pytest.raises(Refused) as e:
        result(worker, expression)
    assert e.value.code == "INTERNAL"
    assert message in e.value.message
    assert values(result(worker, "1")) == {"output0": 1}


def test_the_largest_number_of_outputs_and_parameters(worker):
    assert len(result(worker, "tuple([0] * 4096)").outputs) == 4096
    assert len(result(worker, "Response((), {str(i): i for i in range(1024)})").parameters) == 1024


@pytest.mark.parametrize("model, expression, want", [
    ("one", "np.zeros((1, 2), 'f4')", {"sum": [[0, 0]]}),
    ("one", "{'sum': np.zeros((0, 2), 'f4')}", {"sum": []}),
    ("one", "(np.zeros((0, 2), 'f4'),)", {"sum": []}),
    ("one", "[[1, 2.5]]", {"sum": [[1, 2.5]]}),  # numbers take the declared datatype
    ("two", "(5, ['a'])", {"a": 5, "b": [b"a"]}),
    ("two", "{'b': [b'a'], 'a': np.int64(5)}", {"a": 5, "b": [b"a"]}),
    ("two", "Response((5, []))", None),
    ("any", "[[1, 2]]", {"a": [[1, 2]]}),
    ("any", "np.int8(1)", {"a": 1}),
    ("none", "()", {}),
    ("none", "{}", {}),
])  # fmt: skip
def test_declared_outputs(worker, model, expression, want):
    if want is None:
        with pytest.raises(Refused, match="output 'b' of model 'two' is FP64"):
            result(worker, expression, model)
        return
    got = result(worker, expression, model)
    assert values(got) == want
    assert list(got.outputs) == list(want)


@pytest.mark.parametrize("model, expression, message", [
    ("one", "np.zeros((1, 2))", "output 'sum' of model 'one' is FP64 [1, 2] (numpy float64), but FP32 [-1, 2] is declared"),
    ("one", "np.zeros((1, 2), 'i4')", "output 'sum' of model 'one' is INT32 [1, 2] (numpy int32), but FP32 [-1, 2] is declared"),
    ("one", "np.zeros((1, 3), 'f4')", "output 'sum' of model 'one' is FP32 [1, 3] (numpy float32), but FP32 [-1, 2] is declared"),
    ("one", "np.zeros(2, 'f4')", "output 'sum' of model 'one' is FP32 [2] (numpy float32), but FP32 [-1, 2] is declared"),
    ("one", "{'total': 1}", "output 'sum' of model 'one' is missing"),
    ("one", "{'sum': np.zeros((1, 2), 'f4'), 'total': 1}", "model 'one' returned the output 'total', which is not declared"),
    ("one", "{'sum': None}", "output 'sum' of model 'one' is None"),
    ("one", "{}", "output 'sum' of model 'one' is missing"),
    ("one", "()", "model 'one' returned 0 outputs, but 1 is declared"),
    ("two", "(1, 2, 3)", "model 'two' returned 3 outputs, but 2 are declared"),
    ("two", "np.zeros(2, 'i8')", "model 'two' returned 1 output, but 2 are declared"),
    ("two", "5", "model 'two' returned 1 output, but 2 are declared"),
    ("two", "(1.5, ['a'])", "output 'a' of model 'two' is FP64 [] (numpy float64), but INT64 [] is declared"),
    ("any", "300", "output 'a' of model 'any' cannot be converted to a tensor: "),
    ("none", "1", "model 'none' returned 1 output, but 0 are declared"),
    ("none", "{'x': 1}", "model 'none' returned the output 'x', which is not declared"),
])  # fmt: skip
def test_results_that_do_not_fit_the_declared_outputs(worker, model, expression, message):
    with pytest.raises(Refused) as e:
        result(worker, expression, model)
    assert e.value.code == "INTERNAL"
    assert message in e.value.message


def test_a_dict_that_empties_itself(worker):
    """User code runs while a value is converted; what was put before it lives on."""
    for _ in range(20):
        got = result(worker, "emptied()")
        assert values(got) == {"f" * 40 + "0": [1], "e" * 40 + "0": [2]}
    with pytest.raises(Refused, match="output 'b' of model 'two' is missing"):
        result(worker, "emptied_declared()", "two")

"""Results that numpy.asarray would convert with a loss (masks, digits, objects) are refused. Arrays of other libraries."""

import numpy as np
import pytest
from fake import Refused

APP = """
import numpy as np
import numpy.ma as ma
from anyserve import AnyServe, Response, Tensor
app = AnyServe()
masked = ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])

class Series:
    # as pandas has it: a mapping of labels as well as an array
    def __init__(self, values):
        self.values = np.asarray(values)
    @property
    def dtype(self):
        return self.values.dtype
    def keys(self):
        return range(len(self.values))
    def __getitem__(self, key):
        return self.values[key]
    def __len__(self):
        return len(self.values)
    def __array__(self, dtype=None, copy=None):
        return self.values

class Frame:
    # columns, as pandas' DataFrame: no dtype of its own
    def __init__(self, **columns):
        self.columns = {k: Series(v) for k, v in columns.items()}
    def keys(self):
        return self.columns.keys()
    def __getitem__(self, key):
        return self.columns[key]
    def __len__(self):
        return len(self.columns)
    def __array__(self, dtype=None, copy=None):
        return np.array(list(self.columns.values()))

class OnDevice:
    # as torch's tensors
    dtype = "torch.float32"
    def __init__(self, why):
        self.why = why
    def __array__(self, dtype=None, copy=None):
        raise TypeError(self.why)

class Array(np.ndarray):
    pass

@app.model("free")
def free(which):
    return eval(which[0])

@app.model("fp32", outputs={"y": Tensor("FP32", [-1])})
def fp32(which):
    return eval(which[0])

@app.model("fp16", outputs={"y": Tensor("FP16")})
def fp16(which):
    return eval(which[0])

@app.model("int8", outputs={"y": Tensor("INT8")})
def int8(which):
    return eval(which[0])

@app.model("stream")
def stream(which):
    yield eval(which[0])
"""


@pytest.fixture(scope="module", params=["numpy.ma is loaded by the program", "by nobody before"])
def worker(start_module, request):
    if request.param.startswith("by"):
        return start_module(APP.replace("import numpy.ma as ma", "class ma: array = staticmethod(lambda *a, **k: None)"))
    return start_module(APP)


@pytest.fixture(scope="module")
def plain(start_module):
    return start_module(APP)


def result(worker, model, expression):
    return worker.infer(model, {"which": [expression.encode()]})


MASKED = "is a masked array, whose mask would be lost: return .filled(value), or the mask as an output of its own"


@pytest.mark.parametrize("expression, output", [
    ("{m}", "output0"), ("{{'y': {m}}}", "y"), ("(1, {m})", "output1"), ("Response({m})", "output0"), ("[{m}, {m}]", "output0"),
    ("[[1, 2, 3], {m}]", "output0"), ("[1.0, np.ma.masked]", "output0"), ("np.ma.masked", "output0"), ("{m}[1]", "output0"),
    ("({m}, [{m}])", "output0"), ("np.ma.array([1, 2])", "output0"), ("[([1.0], {m}[:1])]", "output0"),
])  # fmt: skip
def test_a_masked_array(worker, expression, output):
    made = "np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])"
    with pytest.raises(Refused) as e:
        result(worker, "free", expression.format(m=made))
    assert e.value.code == "INTERNAL" and f"output '{output}' of model 'free' {MASKED}" in e.value.message, e.value


def test_a_masked_array_where_an_output_is_declared(plain):
    with pytest.raises(Refused, match="output 'y' of model 'fp32' is a masked array"):
        result(plain, "fp32", "masked.astype('f4')")


def test_a_masked_array_in_a_stream(plain):
    stream = plain.ask("stream", {"which": [b"masked"]})
    with pytest.raises(Refused, match="output 'output0' of model 'stream' is a masked array"):
        list(plain.parts(stream))


@pytest.mark.parametrize("expression, want", [
    ("masked.filled(7)", {"output0": [1, 7, 3]}), ("{'y': masked.data, 'mask': masked.mask}", {"y": [1, 2, 3], "mask": [0, 1, 0]}),
    ("np.arange(2).view(Array)", {"output0": [0, 1]}), ("np.matrix([[1, 2]])", {"output0": [[1, 2]]}),
    ("Series([1, 2])", {"output0": [1, 2]}), ("{'y': Series([1.5])}", {"y": [1.5]}), ("(Series([1]), Series([2]))", {"output0": [1], "output1": [2]}),
    ("Frame(a=[1, 2], b=[0.5, 1])", {"a": [1, 2], "b": [0.5, 1]}), ("[Series([1, 2]), Series([3, 4])]", {"output0": [[1, 2], [3, 4]]}),
])  # fmt: skip
def test_what_is_kept(plain, expression, want):
    got = result(plain, "free", expression)
    assert {k: v.tolist() for k, v in got.outputs.items()} == want


@pytest.mark.parametrize("model, expression, want", [
    ("fp32", "[1.5, 2]", [1.5, 2]), ("fp32", "[float('inf'), float('nan')]", None), ("fp32", "[3.4e38, -3.4e38]", None), ("fp16", "[65504.0]", [65504]),
    ("int8", "[127, -128]", [127, -128]), ("int8", "[np.array([127, -128])]", [[127, -128]]), ("int8", "-128", -128),
    ("fp32", "[]", []), ("int8", "[True]", [1]), ("fp32", "[16777217]", [16777216]),
])  # fmt: skip
def test_numbers_that_fit(plain, model, expression, want):
    got = result(plain, model, expression)["y"]
    assert want is None or got.tolist() == want


@pytest.mark.parametrize("model, expression, datatype", [
    ("int8", "[np.array([300])]", "INT8"), ("int8", "[[1, 2], np.array([3, -129])]", "INT8"), ("fp32", "[1e300]", "FP32"),
    ("fp32", "[1, -1e39]", "FP32"), ("fp16", "[70000.0]", "FP16"), ("fp16", "1e5", "FP16"),
])  # fmt: skip
def test_numbers_that_do_not_fit(plain, model, expression, datatype):
    with pytest.raises(Refused) as e:
        result(plain, model, expression)
    assert f"output 'y' of model '{model}' cannot be converted to a tensor: a number is out of the range of {datatype}" in e.value.message


@pytest.mark.parametrize("expression, what", [
    ("{1, 2}", "a set"), ("map(abs, [1])", "a map"), ("{'y': object()}", "an object"), ("{'y': {'deep': 1}}", "a dict"),
    ("__import__('types').SimpleNamespace()", "a SimpleNamespace"), ("Frame", "a type")])  # fmt: skip
def test_what_is_no_array(plain, expression, what):
    with pytest.raises(Refused) as e:
        result(plain, "free", expression)
    assert f"is {what}, which numpy cannot convert to an array of numbers or text" in e.value.message, e.value


def test_a_sparse_matrix(plain):
    pytest.importorskip("scipy")
    with pytest.raises(Refused, match="is a csr_matrix, which numpy cannot convert to an array"):
        result(plain, "fp32", "__import__('scipy.sparse').sparse.csr_matrix((2, 2), dtype='f4')")


def test_why_another_library_refuses(plain):
    with pytest.raises(Refused, match="output 'output0' of model 'free' cannot be converted to a tensor: can't convert cuda:0"):
        result(plain, "free", "OnDevice(\"can't convert cuda:0 device type tensor to numpy\")")

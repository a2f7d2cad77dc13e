"""Calling handlers with requests, and turning results into answers."""

import numpy as np
import pytest
from fake import NUMPY, WITHOUT, Refused

APP = """
import numpy as np
from anyserve import AnyServe, Error, Response, Tensor

app = AnyServe()
F4 = Tensor("FP32", [-1])
kept = []


@app.model("echo")
def echo(request):
    return request.inputs


@app.model("look", max_ongoing_requests=1)
def look(request):
    a = request.inputs["x"]
    try:
        a[...] = 0
        writeable = True
    except ValueError:
        writeable = False
    return Response(
        a,
        {"flags": f"{writeable} {a.flags.aligned} {a.flags.c_contiguous} {a.ctypes.data % 64} {a.flags.owndata}",
         "dtype": str(a.dtype), "shape": str(a.shape)},
    )


@app.model("about:v7")
def about(request):
    return Response(np.zeros(1), {
        "id": request.id, "name": request.model_name, "version": request.model_version,
        "parameters": repr(request.parameters), "metadata": repr(request.metadata),
        "deadline": repr(request.deadline), "cancelled": request.cancelled, "repr": repr(request),
        "same": request.inputs is request.inputs})


@app.model("remaining")
def remaining(request):
    import time
    return np.array([request.deadline - time.monotonic()])


@app.model("keep")
def keep(request):
    kept.append(request)
    return np.zeros(0)


@app.model("kept")
def show_kept(request):
    r = kept[0]
    return Response(r.inputs["x"], {"id": r.id, "p": repr(r.parameters), "cancelled": r.cancelled})


@app.model("add", inputs={"a": F4, "b": F4}, outputs={"sum": F4})
def add(a, b):
    return a + b


@app.model("default")
def default(a, b=None, *, c=np.array([7.0])):
    return {"b": np.array([b is None]), "c": c, "a": a}


@app.model("kwargs")
def kwargs(a, **rest):
    return {k: v for k, v in sorted(rest.items())} | {"n": np.array([len(rest)])}


@app.model("kwonly")
def kwonly(*, a, b, **rest):
    return a - b


@app.model("both")
def both(x, request):
    return Response(x, {"names": ",".join(request.inputs)})


@app.model("many")
def many(PARAMETERS):
    return p0 + p19


@app.model("noargs")
def noargs():
    return 1


@app.model("counter")
class Counter:
    made = 0

    def __init__(self):
        Counter.made += 1
        self.n = 0

    def __call__(self, request):
        self.n += 1
        return np.array([Counter.made, self.n])


class Adder:
    def __call__(self, a):
        return a + 1


app.model("instance")(Adder())
app.model("lambda")(lambda a: a * 2)
app.model("bound")(Adder().__call__)
""".replace("PARAMETERS", ", ".join(f"p{i}" for i in range(20)))


@pytest.fixture(scope="module")
def worker(start_module):
    return start_module(APP)


def f4(*values):
    return np.array(values, "f4")


# --- inputs ---


@pytest.mark.parametrize("datatype", sorted(NUMPY))
@pytest.mark.parametrize("shape", [(3,), (), (0,), (2, 0, 3), (2, 3, 4)])
def test_every_fixed_datatype_goes_in_and_out_bit_by_bit(worker, datatype, shape):
    rng = np.random.default_rng(5)
    n = int(np.prod(shape))
    data = rng.integers(0, 2 if datatype == "BOOL" else 256, n * np.dtype(NUMPY[datatype]).itemsize, "u1").tobytes()
    got = worker.infer("echo", {"x": (datatype, list(shape), data)})
    assert got.table[0][:3] == ("x", datatype, list(shape))
    assert got["x"].tobytes() == data


@pytest.mark.parametrize("items", [[b"a", b"", b"\x00\xff\x00", "ä".encode(), b"x" * 70000], [], [b""]])
def test_bytes_go_in_and_out(worker, items):
    assert worker.infer("echo", {"x": items})["x"] == items


def test_bytes_have_shapes(worker):
    raw = ("BYTES", [2, 1], b"\x01\0\0\0a\x02\0\0\0bc")
    got = worker.infer("look", {"x": raw})
    assert got.parameters["dtype"] == "object" and got.parameters["shape"] == "(2, 1)"
    assert got["output0"] == [b"a", b"bc"]


def test_malformed_bytes_are_an_error(worker):
    with pytest.raises(Refused, match="INTERNAL.*BYTES"):
        worker.infer("echo", {"x": ("BYTES", [1], b"\x05\0\0\0abc")})


@pytest.mark.parametrize("n", [1, 16, 1000, 16384, 16385, 1 << 20])
def test_arrays_are_read_only_aligned_views(worker, n):
    got = worker.infer("look", {"pad": f4(1, 2, 3), "x": np.arange(n, dtype="f4")})
    assert got.parameters["flags"] == "False True True 0 False"
    assert (got["output0"] == np.arange(n, dtype="f4")).all()


def test_bfloat16_is_that_of_ml_dtypes(worker):
    pytest.importorskip("ml_dtypes")
    assert worker.infer("look", {"x": ("BF16", [2], b"\x80\x3f\0\0")}).parameters["dtype"] == "bfloat16"


def test_bfloat16_is_two_raw_bytes_without_ml_dtypes(start):
    worker = start("""
        from anyserve import AnyServe
        app = AnyServe()
        @app.model("look")
        def look(x):
            import numpy as np
            return {"same": x, "dtype": np.array([str(x.dtype)])}
        """, env={"ANYSERVE_TEST_WITHOUT": "ml_dtypes"}, python=WITHOUT)  # fmt: skip
    got = worker.infer("look", {"x": ("BF16", [2], b"\x80\x3f\0\0")})
    assert got.datatypes["same"] == "BF16" and got["same"].tobytes() == b"\x80\x3f\0\0"
    assert got["dtype"] == [b"|V2"]


def test_a_large_request_and_a_large_answer(worker):
    x = np.arange(8 << 20, dtype="f4")
    got = worker.infer("echo", {"x": x})
    assert (got["x"] == x).all()


def test_many_requests_under_way_are_answered_in_order(worker):
    streams = [worker.ask("echo", {"x": np.full(i % 300, i, "i4")}) for i in range(250)]
    for i, s in enumerate(streams):
        assert (worker.answer(s)["x"] == i).all()


# --- the request ---


def test_the_request_tells_about_itself(worker):
    meta = [("user-agent", "test"), ("x", "1"), ("x", "2"), ("tok-bin", b"\x00\xff")]
    params = {"b": True, "i": -5, "u": 2**64 - 1, "f": 0.5, "s": "ü"}
    p = worker.infer("about", {"x": f4(1)}, version="v7", rid="r-1", meta=meta, params=params).parameters
    assert (p["id"], p["name"], p["version"]) == ("r-1", "about", "v7")
    assert eval(p["parameters"]) == params
    assert eval(p["metadata"]) == {"user-agent": "test", "x": "1, 2", "tok-bin": b"\x00\xff"}
    assert p["deadline"] == "None" and p["cancelled"] is False and p["same"] is True
    assert "about" in p["repr"]


def test_the_deadline_is_on_the_monotonic_clock(worker):
    left = worker.infer("remaining", timeout=int(50e9))["output0"][0]
    assert 40 < left <= 50


def test_a_request_that_is_kept_stays_readable(worker):
    worker.infer("keep", {"x": f4(1, 2, 3)}, rid="kept", params={"a": 1})
    for i in range(300):
        worker.infer("echo", {"x": np.full(1000, i, "f4")})
    got = worker.infer("kept", {})
    assert (got["output0"] == f4(1, 2, 3)).all()
    assert got.parameters == {"id": "kept", "p": "{'a': 1}", "cancelled": False}


# --- binding ---


def test_parameters_bind_by_name_in_any_order(worker):
    assert (worker.infer("add", {"a": f4(1), "b": f4(2)})["sum"] == f4(3)).all()
    assert (worker.infer("kwonly", {"b": f4(2), "a": f4(1)})["output0"] == f4(-1)).all()


def test_a_missing_input_is_named(worker):
    with pytest.raises(Refused) as e:
        worker.infer("add", {"a": f4(1)})
    assert (e.value.code, e.value.message) == ("INVALID_ARGUMENT", "missing input 'b' for model 'add': its handler takes 'a', 'b', the request has 'a'")


def test_an_unexpected_input_is_named(worker):
    with pytest.raises(Refused) as e:
        worker.infer("add", {"a": f4(1), "b": f4(1), "c": f4(1)})
    assert (e.value.code, e.value.message) == ("INVALID_ARGUMENT", "unexpected input 'c' for model 'add': its handler takes 'a', 'b'")
    with pytest.raises(Refused, match="unexpected input 'x'"):
        worker.infer("noargs", {"x": f4(1)})


def test_defaults_stand_in_for_missing_inputs(worker):
    got = worker.infer("default", {"a": f4(1)}).outputs
    assert got["b"][0] and got["c"][0] == 7 and got["a"][0] == 1
    got = worker.infer("default", {"c": f4(3), "b": f4(2), "a": f4(1)}).outputs
    assert not got["b"][0] and got["c"][0] == 3


def test_kwargs_take_the_rest(worker):
    got = worker.infer("kwargs", {"z": f4(1), "a": f4(2), "y": f4(3)}).outputs
    assert list(got) == ["y", "z", "n"] and got["n"][0] == 2
    assert worker.infer("kwargs", {"a": f4(2)})["n"][0] == 0
    assert worker.infer("kwonly", {"a": f4(2), "b": f4(3), "c": f4(4)})["output0"][0] == -1


def test_request_and_inputs_together(worker):
    got = worker.infer("both", {"x": f4(5), "extra": f4(6)})
    assert got["output0"][0] == 5 and got.parameters == {"names": "x,extra"}


@pytest.mark.parametrize("round", [1, 2])
def test_names_are_those_of_each_request(worker, round):
    """The extension keeps the last request's: in another order, beginning alike, long, not ASCII, many."""
    long = "n" * 64
    for names in (["x"], ["x", "a"], ["a", "x"], ["x", "ab"], ["x", "a"], ["x", "\u00e9"], ["x", "e"], ["x", long],
                  ["x", long + "n"], ["x", long], ["x", "b", *map(str, range(20))], ["x", "c", *map(str, range(20))]):
        got = worker.infer("both", {name: f4(7) for name in names})
        assert got.parameters == {"names": ",".join(names)}


def test_many_parameters(worker):
    inputs = {f"p{i}": f4(i) for i in range(20)}
    assert worker.infer("many", inputs)["output0"][0] == 19
    del inputs["p7"]
    with pytest.raises(Refused, match="missing input 'p7'"):
        worker.infer("many", inputs)


def test_a_handler_without_parameters(worker):
    assert worker.infer("noargs")["output0"] == 1


def test_a_class_is_constructed_once(worker):
    assert list(worker.infer("counter")["output0"]) == [1, 1]
    assert list(worker.infer("counter")["output0"]) == [1, 2]


@pytest.mark.parametrize("name, want", [("instance", 4), ("lambda", 6), ("bound", 4)])
def test_other_callables(worker, name, want):
    assert worker.infer(name, {"a": f4(3)})["output0"][0] == want

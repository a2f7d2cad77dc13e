"""Declarations: which are accepted, what is inferred, and the texts of errors."""

import sys
import typing
from typing import Annotated, AsyncIterable, AsyncIterator, Iterator, Tuple

import numpy as np
import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))

from anyserve import AnyServe, Batching, DeclarationError, Error, Request, Response, Tensor  # noqa: E402


def declare(*args, handler=lambda request: None, **kwargs):
    app = AnyServe()
    app.model(*args, **kwargs)(handler)
    return app.models[0]


# --- tensors ---


def test_a_tensor_has_a_datatype_and_a_shape():
    t = Tensor("FP32", [-1, 4])
    assert (t.datatype, t.shape) == ("FP32", (-1, 4))
    assert Tensor("BYTES", []).shape == ()
    assert Tensor("BYTES").shape is None
    assert t == Tensor("FP32", (-1, 4)) and t != Tensor("FP32", [4]) and hash(t) == hash(Tensor("FP32", [-1, 4]))
    assert repr(t) == "Tensor('FP32', [-1, 4])"


@pytest.mark.parametrize("datatype", ["fp32", "FLOAT", "", None, np.float32])
def test_unknown_datatypes_are_refused(datatype):
    with pytest.raises(DeclarationError, match="no datatype"):
        Tensor(datatype, [1])


@pytest.mark.parametrize("shape", [[-2], [1.0], [True], ["1"], 3, [2**63], [1] * 33])
def test_bad_shapes_are_refused(shape):
    with pytest.raises(DeclarationError):
        Tensor("FP32", shape)


def test_the_largest_shape_is_accepted():
    assert Tensor("FP32", [2**63 - 1] + [-1] * 31).shape[0] == 2**63 - 1


# --- names ---


@pytest.mark.parametrize("name, want", [("m", ("m", "1")), ("m:v2", ("m", "v2")), ("a/b.c-d_E", ("a/b.c-d_E", "1")),
                                        ("x" * 128, ("x" * 128, "1")), ("m:" + "v" * 64, ("m", "v" * 64))])  # fmt: skip
def test_names_with_and_without_version(name, want):
    m = declare(name)
    assert (m.name, m.version) == want


@pytest.mark.parametrize("name", ["", "x" * 129, "a b", "ä", "/a", "a/", "a//b", "a/../b", ".", "a/versions", "infer",
                                  "a/ready", "a/setting", "infer_stream", "m:", "m:" + "v" * 65, "m:a/b", "m:1:2", None, 7])  # fmt: skip
def test_bad_names_are_refused(name):
    with pytest.raises(DeclarationError):
        declare(name)


def test_two_versions_of_a_name_are_two_models_and_a_second_one_is_a_mistake():
    app = AnyServe()
    for name in ("m", "m:2"):
        app.model(name)(lambda request: None)
    assert [m.version for m in app.models] == ["1", "2"]
    with pytest.raises(DeclarationError, match="declared twice"):
        app.model("m", version="2")(lambda request: None)


def test_a_version_in_both_places_is_a_mistake():
    with pytest.raises(DeclarationError, match="another"):
        declare("m:2", version="3")


# --- options ---


def test_defaults():
    async def handler(x): ...

    assert declare("m").max_ongoing_requests == 1
    assert declare("m", handler=handler).max_ongoing_requests == 100
    assert declare("m", threads=3).max_ongoing_requests == 3
    assert declare("m", threads=3, max_ongoing_requests=2).max_ongoing_requests == 2


@pytest.mark.parametrize("options", [{"max_ongoing_requests": 0}, {"max_ongoing_requests": 65536}, {"max_ongoing_requests": True},
                                     {"max_ongoing_requests": 1.5}, {"threads": 0}, {"threads": "2"}, {"eager": True}, {"eager": 1},
                                     {"idempotent": "yes"}, {"max_queued_requests": 0}, {"max_queued_requests": -2},
                                     {"deployment": "a b"}, {"inputs": ["x"]}, {"inputs": {"x": "FP32"}},
                                     {"outputs": {"": Tensor("FP32")}}, {"outputs": {3: Tensor("FP32")}}])  # fmt: skip
def test_bad_options_are_refused(options):
    with pytest.raises(DeclarationError):
        declare("m", **options)


def test_limits_of_options_are_accepted():
    m = declare("m", max_ongoing_requests=65535, max_queued_requests=-1)
    assert (m.max_ongoing_requests, m.max_queued_requests) == (65535, -1)


def test_threads_are_for_sync_and_eager_is_for_async_handlers():
    async def handler(x): ...

    with pytest.raises(DeclarationError, match="async"):
        declare("m", handler=handler, threads=2)
    assert declare("m", handler=handler, eager=True).eager


# --- handlers ---


def test_functions_classes_and_instances_are_handlers():
    class Handler:
        def __call__(self, a, b=1, *, c, d=2): ...

    class AsyncHandler:
        async def __call__(self, request): ...

    for handler in (Handler, Handler()):
        s = declare("m", handler=handler).signature
        assert [(p.name, p.required, p.default) for p in s.params] == [
            ("a", True, None), ("b", False, 1), ("c", True, None), ("d", False, 2)]  # fmt: skip
        assert s.n_kwonly == 2
    assert declare("m", handler=AsyncHandler).is_async
    assert declare("m", handler=AsyncHandler()).is_async
    assert not declare("m", handler=Handler).is_async


def test_the_decorator_gives_back_what_it_got():
    def handler(request): ...

    assert AnyServe().model("m")(handler) is handler


def test_handlers_that_cannot_be_called_by_name_are_refused():
    class NoCall: ...

    with pytest.raises(DeclarationError, match="by name"):
        declare("m", handler=lambda *args: None)
    with pytest.raises(DeclarationError, match="no __call__"):
        declare("m", handler=NoCall)
    with pytest.raises(DeclarationError, match="cannot be called"):
        declare("m", handler=3)


def test_declared_inputs_must_fit_the_parameters():
    x = Tensor("FP32", [1])
    with pytest.raises(DeclarationError, match="parameter 'b' is not among the inputs: a"):
        declare("m", inputs={"a": x}, handler=lambda a, b: None)
    with pytest.raises(DeclarationError, match="input 'b' has no parameter"):
        declare("m", inputs={"a": x, "b": x}, handler=lambda a: None)
    declare("m", inputs={"a": x}, handler=lambda a, b=1: None)
    declare("m", inputs={"a": x, "b": x}, handler=lambda a, **rest: None)
    declare("m", inputs={"a": x, "b": x}, handler=lambda request: None)


# --- annotations ---

F4 = Annotated[np.ndarray, Tensor("FP32", [-1, 4])]
I1 = Annotated[np.ndarray, Tensor("INT64", [1])]


def test_signatures_are_inferred_from_annotations():
    def handler(x: F4, n: I1 = None) -> F4: ...

    s = declare("m", handler=handler).signature
    assert s.inputs == {"x": Tensor("FP32", [-1, 4]), "n": Tensor("INT64", [1])}
    assert s.outputs == {"output0": Tensor("FP32", [-1, 4])}


def test_a_tuple_of_outputs_is_inferred():
    def handler(x) -> Tuple[F4, I1]: ...

    s = declare("m", handler=handler).signature
    assert s.inputs is None
    assert list(s.outputs) == ["output0", "output1"]


def test_methods_are_inferred_too():
    class Handler:
        def __call__(self, x: F4): ...

    for handler in (Handler, Handler()):
        assert declare("m", handler=handler).signature.inputs == {"x": Tensor("FP32", [-1, 4])}


def test_declared_sides_win_over_annotations():
    def handler(x: F4) -> F4: ...

    s = declare("m", handler=handler, inputs={"x": Tensor("INT8", [1])}).signature
    assert s.inputs == {"x": Tensor("INT8", [1])}
    assert s.outputs == {"output0": Tensor("FP32", [-1, 4])}


def test_half_annotated_handlers_are_refused():
    def handler(x: F4, y): ...

    with pytest.raises(DeclarationError, match="'y' needs an annotation"):
        declare("m", handler=handler)


def test_foreign_annotations_do_no_harm():
    def handler(x: "Unknown", request: int) -> "Nothing": ...  # noqa: F821

    s = declare("m", handler=handler).signature
    assert s.inputs is None and s.outputs is None


# --- the rest of the vocabulary ---


def test_errors_have_a_grpc_status():
    e = Error("NOT_FOUND", "no such user")
    assert (e.code, e.message, str(e)) == ("NOT_FOUND", "no such user", "NOT_FOUND: no such user")
    for code in ("OK", "not_found", 5, "NOPE", None):
        with pytest.raises(ValueError, match="gRPC status name"):
            Error(code, "x")


def test_a_response_copies_its_parameters():
    params = {"a": 1}
    r = Response([1], params)
    params["a"] = 2
    assert r.parameters == {"a": 1}
    assert Response([1]).parameters is None


# --- streams ---


def sync_numbers(n):
    yield n


async def async_numbers(n):
    yield n


class Numbers:
    async def __call__(self, n):
        yield n


async def chat(requests: AsyncIterator[Request]):
    async for request in requests:
        yield request.inputs["x"]


async def quoted(requests: "typing.AsyncIterator[Nowhere]"):  # noqa: F821
    return [1]


async def iterable(requests: AsyncIterable[Request]) -> AsyncIterator[np.ndarray]:
    yield 1


@pytest.mark.parametrize("handler, is_async", [(sync_numbers, False), (async_numbers, True), (Numbers, True)])
def test_a_handler_with_yield_is_decoupled(handler, is_async):
    m = declare("m", handler=handler)
    assert (m.decoupled, m.stream, m.is_async) == (True, None, is_async)
    assert m.max_ongoing_requests == (100 if is_async else 1)


@pytest.mark.parametrize("handler", [chat, quoted, iterable])
def test_a_parameter_may_take_a_stream_of_requests(handler):
    m = declare("m", handler=handler, inputs={"x": Tensor("FP32", [1])})
    assert (m.decoupled, m.stream) == (True, "requests")
    assert list(m.signature.inputs) == ["x"] and m.signature.params == ()


def test_other_handlers_are_neither():
    async def plain(x: "AsyncTensor") -> AsyncIterator[np.ndarray]:  # noqa: F821
        return x

    m = declare("m", handler=plain)
    assert (m.decoupled, m.stream) == (False, None)


def test_outputs_of_each_response_are_inferred():
    def tokens(n) -> Iterator[Annotated[np.ndarray, Tensor("BYTES", [1])]]:
        yield n

    assert declare("m", handler=tokens).signature.outputs == {"output0": Tensor("BYTES", [1])}


def test_what_makes_no_sense_for_streams_is_refused():
    def sync(requests: AsyncIterator[Request]):
        yield 1

    async def two(requests: AsyncIterator[Request], x):
        yield 1

    for handler, options, word in (
        (async_numbers, {"eager": True}, "gives a stream"),
        (async_numbers, {"threads": 2}, "threads is for sync handlers"),
        (sync, {}, "must be async"),
        (two, {}, "no other parameter"),
    ):
        with pytest.raises(DeclarationError, match=word):
            declare("m", handler=handler, **options)


# --- labels ---


def test_labels_of_an_output(tmp_path):
    pets = Tensor("FP32", [-1, 3], labels=["cat", "dog", ""])
    assert pets.labels == ("cat", "dog", "") and Tensor("FP32").labels is None
    assert pets == Tensor("FP32", [-1, 3], labels=("cat", "dog", "")) != Tensor("FP32", [-1, 3])
    assert hash(pets) == hash(Tensor("FP32", [-1, 3], labels=("cat", "dog", "")))
    assert declare("m", outputs={"y": pets}).signature.outputs == {"y": pets}
    for text, labels in (("cat\ndog\n", ("cat", "dog")), ("cat\r\n\r\nv\u00f6gel", ("cat", "", "v\u00f6gel")),
                         ("\ufeffcat\n\n", ("cat", ""))):  # fmt: skip
        path = tmp_path / "labels.txt"
        path.write_bytes(text.encode())
        assert Tensor("FP32", labels=path).labels == Tensor("FP32", labels=str(path)).labels == labels


@pytest.mark.parametrize("labels, why", [
    ([], "1 to 65536, not 0"), ([""] * 65537, "not 65537"), (["a", 1], "label 1 is a text"), (["a\0"], "without NUL"),
    (["a\nb"], "one line"), (["a\rb"], "one line"), (["\ud800"], "UTF-8"), (["\u00e4" * 513], "1026 bytes, over 1024"),
    (["x" * 1022] * 513, "525312 bytes, over 524288"), (b"abc", "list of texts"), ({"a"}, "list of texts"), (3, "list of texts"),
    ("/no/such/file", "cannot read the labels of '/no/such/file'"),
])  # fmt: skip
def test_bad_labels(labels, why):
    with pytest.raises(DeclarationError, match=why):
        Tensor("FP32", [-1], labels=labels)


def test_labels_at_their_limits():
    assert len(Tensor("FP32", labels=[""] * 65536).labels) == 65536
    Tensor("FP32", labels=["\u00e4" * 512])
    Tensor("FP32", labels=["x" * 1022] * 512)


def test_bad_files_of_labels(tmp_path):
    path = tmp_path / "labels.txt"
    for content, why in ((b"\xff", "cannot read the labels"), (b"", "not 0"), (b"a\0b", "without NUL")):
        path.write_bytes(content)
        with pytest.raises(DeclarationError, match=why):
            Tensor("FP32", labels=path)


def test_labels_are_for_classes_of_outputs():
    for datatype in ("BYTES", "BOOL"):
        with pytest.raises(DeclarationError, match="classes"):
            Tensor(datatype, labels=["a"])
    with pytest.raises(DeclarationError, match="for outputs"):
        declare("m", inputs={"x": Tensor("FP32", [3], labels=["a"] * 3)})

    def annotated(x: Annotated[np.ndarray, Tensor("FP32", labels=["a"])]): ...

    with pytest.raises(DeclarationError, match="for outputs"):
        declare("m", handler=annotated)


@pytest.mark.parametrize("shape, batched, n", [([3], False, 3), ([-1, 3], False, 3), ([7, 3], False, 3), ([2, 3, 4], False, 12),
                                               ([3], True, 3), ([2, 3], True, 6), ([], False, 1), ([], True, None),
                                               ([-1], False, None), ([2, -1], False, None), (None, True, None)])  # fmt: skip
def test_as_many_labels_as_classes(shape, batched, n):
    def declare_with(count):
        tensor = Tensor("FP32", shape, labels=["a"] * count)
        batching = Batching(4) if batched else None
        return declare("m", handler=lambda x: x, inputs={"x": Tensor("FP32", [3])}, outputs={"y": tensor}, batching=batching)

    declare_with(n or 5)
    if n:
        with pytest.raises(DeclarationError, match="output 'y' has %d labels for %d class" % (n + 1, n)):
            declare_with(n + 1)

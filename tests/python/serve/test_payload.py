"""Bodies of calls and answers: what goes in comes out, beside what else it may be; exceptions as callers get them."""

import pickle
import random
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve.serve import _payload as payload  # noqa: E402
from anyserve.serve._calls.transport import Argument, FailedReply  # noqa: E402
from anyserve.serve._payload import Body, pack, parse  # noqa: E402
from anyserve.serve.exceptions import (BackPressureError, RayError, RayServeException, RayTaskError,  # noqa: E402
                                       RequestCancelledError, TaskCancelledError)  # noqa: E402


class Answered(Argument):
    """An argument whose call has this answer."""

    def __init__(self, body):
        self.body, self.call = body, FailedReply(AssertionError("not called"))

    @property
    def reply(self):
        return self.call


def sent(method, *args, **kwargs):
    """What a replica gets for a call; answers of arguments that are calls are put in as their bytes."""
    body = payload.encode_call(method, args, kwargs)
    answered = [a for a in (*args, *kwargs.values()) if isinstance(a, Answered)]
    assert list(body.parts) == [a.reply for a in answered]
    return payload.decode_call(parse(pack(body._replace(parts=[pack(a.body) for a in answered]))))


def received(value):
    return payload.decode_answer(parse(pack(payload.encode_answer(value))))


def raised(error):
    try:
        raise error
    except BaseException as e:
        return payload.decode_answer(parse(pack(payload.encode_exception(e))))


def test_a_call():
    assert sent("__call__", 1, "x", k=[2]) == ("__call__", (1, "x"), {"k": [2]})
    assert sent("größe") == ("größe", (), {})


@pytest.mark.parametrize("value", [None, 0, "ü", b"x" * 100_000, [1, {"a": (2, 3)}], {1, 2}, object, 2**100])
def test_values(value):
    assert received(value) == value


@pytest.mark.parametrize("shape", [(), (0,), (3,), (64, 1000)])
@pytest.mark.parametrize("order", "CF")
def test_arrays_are_read_only_views_beside_the_pickle(shape, order):
    array = np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape), order=order)
    body = payload.encode_answer({"a": array})
    assert len(body.buffers) == 1 and len(body.data) < 1000
    whole = pack(body)
    got = payload.decode_answer(parse(whole))["a"]
    assert np.array_equal(got, array) and got.dtype == array.dtype and not got.flags.writeable
    if array.nbytes:
        assert np.shares_memory(got, np.frombuffer(whole, np.uint8))
        start = got.__array_interface__["data"][0] - np.frombuffer(whole, np.uint8).__array_interface__["data"][0]
        assert start % 64 == 0


ARRAYS = [np.ones(5, "u1"), np.zeros((2, 3), ">f4"), np.array(2.5), np.array([]), np.ones((3, 4), "f8", order="F"), np.ones((4, 6))[::2],
          np.array([1 + 2j]), np.array(["ü", "x"]), np.array([(1, 2.0)], [("a", "i4"), ("b", "f4")]), np.array([None, 1], object),
          np.array([True]), np.array(["2026-11-23"], "datetime64[D]"), np.ma.array([1, 2], mask=[0, 1]), np.float16([1])]  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{type(a).__name__} {a.dtype} {a.shape}")
def test_arrays_of_all_kinds(array):
    _, args, kwargs = sent("m", array, [array], k=array.copy())
    for got in (received(array), args[0], args[1][0], kwargs["k"]):
        assert type(got) is type(array) and got.dtype == array.dtype and got.shape == array.shape
        assert np.array_equal(got, array)


def test_an_array_twice_arrives_as_one_object():
    array = np.ones(3)
    _, args, kwargs = sent("m", array, array, k=array)
    assert args[0] is args[1] is kwargs["k"]


BIG = payload.LARGE


@pytest.mark.parametrize("kind", [bytes, bytearray, str])
@pytest.mark.parametrize("n, beside", [(BIG - 1, 0), (BIG, 1)])
def test_large_values_go_beside_the_pickle(kind, n, beside):
    value = "x" * n if kind is str else kind(b"x" * n)
    for body in (payload.encode_answer(value), payload.encode_call("m", (1, value), {}), payload.encode_call("m", (), {"k": value}),
                 payload.encode_call("m", ([value],), {}), payload.encode_answer((1, value)),
                 payload.encode_answer({"k": value, "n": None})):  # fmt: skip
        assert len(body.buffers) == beside
        assert (len(body.data) < 1000) == bool(beside)
    got = received(value)
    assert got == value and type(got) is kind
    assert sent("m", 1, value, k=value)[1:] == ((1, value), {"k": value})
    got = received({"a": value, "b": [1]})
    assert got == {"a": value, "b": [1]} and type(got["a"]) is kind
    got = sent("m", [value, 2], (3, value))[1]
    assert got == ([value, 2], (3, value)) and type(got[0]) is list and type(got[1]) is tuple


def test_large_texts_that_are_not_ascii():
    for text in "ü" * BIG, "\ud800" + "x" * BIG, "\U0001f600" * BIG:
        assert received(text) == text


def test_a_large_value_that_is_given_twice_is_sent_once():
    value, other = b"x" * BIG, [bytes(BIG)]
    body = payload.encode_call("m", (value, value, [value], other, other), {"k": value})
    assert len(body.buffers) == 2
    _, args, kwargs = payload.decode_call(parse(pack(body)))
    assert args[0] is args[1] is args[2][0] is kwargs["k"] and args[3] is args[4]


def test_a_bytearray_is_sent_as_it_was():
    value = bytearray(b"x" * BIG)
    body = payload.encode_call("m", (value,), {})
    value[0] = 0
    value.extend(b"y")  # not BufferError
    assert payload.decode_call(parse(pack(body)))[1] == (bytearray(b"x" * BIG),)
    got = received(value)
    got.append(1)  # it is its own


@pytest.mark.parametrize("n, beside", [(payload._MAX_SCAN, 1), (payload._MAX_SCAN + 1, 0)])
def test_long_containers_are_not_looked_into(n, beside):
    value = [b"x" * BIG, *range(n - 1)]
    assert len(payload.encode_answer(value).buffers) == beside
    assert received(value) == value


def test_containers_that_may_refer_to_themselves_stay_as_they_are():
    value = [b"x" * BIG]
    value.append(value)
    got = received(value)
    assert got[1] is got and got[0] == value[0]
    holder = {"big": b"x" * BIG, "rest": []}
    holder["rest"].append(holder)
    got = sent("m", holder)[1][0]
    assert got["rest"][0] is got


class Bytes(bytes):
    pass


class Rows(list):
    pass


def test_subclasses_stay_what_they_are():
    for value in Bytes(BIG), Rows([bytes(BIG)]), {Bytes(BIG): 1}:
        body = payload.encode_answer(value)
        got = payload.decode_answer(parse(pack(body)))
        assert got == value and type(got) is type(value) and not body.buffers


def test_large_values_beside_parts_and_code():
    value = b"x" * BIG
    _, args, _ = sent("m", Answered(payload.encode_answer(value)), value, [value])
    assert args == (value, value, [value])
    code, got = sent("m", lambda: 5, value)[1]
    assert code() == 5 and got == value


def test_more_large_values_than_buffers():
    values = [bytes([i % 251]) * BIG for i in range(payload._MAX_SCAN)]
    args = [values] * 2 + [list(values) for _ in range(3)]
    assert sent("m", *args)[1] == tuple(args)
    many = tuple(bytes([i % 251, i // 251]) + bytes(BIG) for i in range(payload.MAX_BUFFERS + 1))
    body = payload.encode_call("m", many, {})
    assert len(body.buffers) == payload.MAX_BUFFERS
    assert payload.decode_call(parse(pack(body)))[1] == many


@pytest.mark.parametrize("n", [payload.MAX_BUFFERS, payload.MAX_BUFFERS + 1])
def test_many_buffers(n):
    arrays = [np.full(2, i) for i in range(n)]
    body = payload.encode_answer(arrays)
    assert len(body.buffers) == payload.MAX_BUFFERS
    assert [a[0] for a in payload.decode_answer(parse(pack(body)))] == list(range(n))


def test_an_answer_as_an_argument_is_spliced_in_as_it_is():
    inner = payload.encode_answer(np.arange(5))
    method, args, kwargs = sent("add", 1, Answered(inner), k=Answered(payload.encode_answer("b")))
    assert method == "add" and args[0] == 1 and args[1].tolist() == [0, 1, 2, 3, 4] and kwargs == {"k": "b"}


def test_one_answer_twice_and_through_an_answer():
    first = Answered(payload.encode_answer("one"))
    assert sent("m", first, first)[1] == ("one", "one")


def test_a_failed_answer_as_an_argument_raises():
    try:
        raise ValueError("inner")
    except ValueError as e:
        failed = Answered(payload.encode_exception(e))
    with pytest.raises(ValueError, match="inner"):
        sent("m", failed)


@pytest.mark.parametrize("n, ok", [(payload.MAX_PARTS, True), (payload.MAX_PARTS + 1, False)])
def test_how_many_answers_may_be_arguments(n, ok):
    one = Answered(payload.encode_answer(7))
    if ok:
        assert sent("m", *[one] * n)[1] == (7,) * n
    else:
        with pytest.raises(ValueError, match="at most 256 arguments of a call are responses, not 257"):
            sent("m", *[one] * n)


# --- cloudpickle ---


def test_what_pickle_cannot():
    base = 5
    assert received(lambda x: x + base)(1) == 6

    class Local:
        def __init__(self):
            self.n = 3

    assert received(Local()).n == 3
    assert sent("m", lambda: base, Answered(payload.encode_answer(1)))[1][1] == 1


def test_code_keeps_its_file():
    """Tracebacks show its lines."""
    def outer():
        return lambda: 1 / 0

    arrived = [received(outer), sent("m", outer, Answered(payload.encode_answer(1)))[1][0]]
    assert arrived[0] is not outer
    for function in (*arrived, *(f() for f in arrived)):
        assert function.__code__.co_filename == __file__


def test_what_cannot_be_sent_is_named():
    with pytest.raises(TypeError, match="thread.lock"):
        payload.encode_answer([__import__("threading").Lock()])


def test_classes_of_the_script_go_by_value(tmp_path):
    """And come back as the same class."""
    (tmp_path / "other.py").write_text(textwrap.dedent("""
        import sys
        from anyserve.serve import _payload as p
        whole = sys.stdin.buffer.read()
        value = p.decode_answer(p.parse(whole))
        value.x += 1
        sys.stdout.buffer.write(p.pack(p.encode_answer(value)))
    """))
    (tmp_path / "script.py").write_text(textwrap.dedent("""
        import subprocess, sys
        from anyserve.serve import _payload as p
        class Point:
            x = 1
        whole = p.pack(p.encode_answer(Point()))
        done = subprocess.run([sys.executable, "other.py"], input=whole, stdout=subprocess.PIPE, check=True)
        back = p.decode_answer(p.parse(done.stdout))
        assert type(back) is Point, type(back)
        print(back.x)
    """))
    p = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env={"PYTHONPATH": str(PACKAGE)}, capture_output=True,
                       text=True, timeout=60)  # fmt: skip
    assert p.stdout == "2\n", p.stderr


# --- layout ---


def test_the_layout():
    body = Body(b"data!", [b"b" * 3, b""], [pack(Body(b"x"))], "m")
    whole = pack(body)
    assert whole[:24] == bytes([1, 0, 1, 0]) + (2).to_bytes(4, "little") + (5).to_bytes(8, "little") + b"\1" + bytes(7)
    assert whole[24:48] == b"".join(n.to_bytes(8, "little") for n in (3, 0, 25))
    assert whole[48:56] == b"m" + bytes(7) and whole[56:61] == b"data!"
    assert whole[64:67] == b"bbb" and len(whole) == 128 + 25
    again = parse(whole)
    assert bytes(again.data) == b"data!" and [bytes(b) for b in again.buffers] == [b"bbb", b""]
    assert again.method == "m" and bytes(parse(again.parts[0]).data) == b"x"


def test_every_shortened_body_is_refused():
    whole = pack(Body(b"data", [b"b" * 70], [pack(Body(b"x"))], "method"))
    parse(whole)
    for n in range(len(whole)):
        with pytest.raises(ValueError):
            parse(whole[:n])
    with pytest.raises(ValueError, match="1 beyond its end"):
        parse(whole + b"\0")


def test_bodies_with_wrong_bits_are_read_or_refused():
    dice = random.Random(5)
    whole = pack(Body(b"data", [b"b" * 70] * 3, [pack(Body(b"x"))], "method"))
    for _ in range(3000):
        wrong = bytearray(whole)
        wrong[dice.randrange(64)] ^= 1 << dice.randrange(8)
        try:
            parse(wrong)
        except ValueError:  # UnicodeDecodeError is one
            pass


@pytest.mark.parametrize("head", ["03000000", "01020000", "0000"])
def test_unknown_codecs_and_flags(head):
    with pytest.raises(ValueError, match="there are none such|shorter"):
        parse(bytes.fromhex(head).ljust(24, b"\0") if len(head) == 8 else bytes.fromhex(head))


def test_bytes_as_they_are():
    body = parse(pack(Body(b"\1\2", codec=payload.BYTES, method="Predict")))
    assert payload.decode_call(body) == ("Predict", (b"\1\2",), {})
    assert payload.decode_answer(parse(pack(Body(b"\1\2", codec=payload.BYTES)))) == b"\1\2"


def test_a_body_that_is_no_call():
    with pytest.raises(ValueError, match="no pair"):
        payload.decode_call(payload.encode_answer(1))


# --- exceptions ---


class Custom(Exception):
    def __init__(self, code, *, hint):
        super().__init__("code %d" % code)
        self.code, self.hint = code, hint


class Slotted(Exception):
    __slots__ = ("lock",)

    def __reduce__(self):
        raise TypeError("cannot pickle it")


class Backwards(Exception):
    """Cannot be unpickled."""

    def __reduce__(self):
        return int, ("no number",)


def test_an_exception_of_the_user_is_of_both_classes():
    e = raised(ValueError("wrong shape"))
    assert type(e).__name__ == "RayTaskError(ValueError)"
    assert isinstance(e, ValueError) and isinstance(e, RayTaskError)
    assert type(e.cause) is ValueError and e.cause.args == ("wrong shape",) and e.args == (e.cause,)
    lines = str(e).splitlines()
    assert lines[0].startswith("Traceback") and lines[-1] == "ValueError: wrong shape"
    assert "raise error" in str(e)


def test_attributes_and_an_init_of_its_own():
    e = raised(Custom(3, hint="h"))
    assert isinstance(e, Custom) and e.code == 3 and e.hint == "h" and str(e.cause) == "code 3"
    assert not hasattr(e, "nothing")


@pytest.mark.parametrize("error, attribute", [
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "reason"), (OSError(2, "none", "f"), "filename"),
    (KeyError("k"), "args"), (StopIteration(4), "value"), (SystemExit(3), "code"),
    (BackPressureError(3, 2), "message"), (RequestCancelledError("id"), "request_id"),
])  # fmt: skip
def test_builtin_exceptions_and_ours(error, attribute):
    e = raised(error)
    assert isinstance(e, type(error)) and isinstance(e, RayTaskError)
    assert getattr(e.cause, attribute) == getattr(error, attribute)
    assert getattr(e, attribute) == getattr(error, attribute) or attribute == "args"


def test_groups():
    e = raised(ExceptionGroup("several", [ValueError("a"), TypeError("b")]))
    assert isinstance(e, ExceptionGroup) and [type(x) for x in e.cause.exceptions] == [ValueError, TypeError]
    with pytest.raises(ExceptionGroup) as rest:
        try:
            raise e
        except* ValueError:
            pass  # the rest is raised again
    assert [type(x) for x in rest.value.exceptions] == [TypeError]


def test_an_init_of_its_own_within_others():
    """In a group of groups, as an argument, as an attribute; of this module, and of one that goes by value."""

    class Local(Custom):
        pass

    error = ExceptionGroup("outer", [ExceptionGroup("inner", [Custom(1, hint="a"), Local(2, hint="b")]), ValueError(Custom(3, hint="c"))])
    error.first = Custom(4, hint=Local(5, hint="d"))
    error.first.outer = error
    e = raised(error).cause
    inner, third = e.exceptions
    assert [(x.code, x.hint, str(x)) for x in (*inner.exceptions, third.args[0])] == [(1, "a", "code 1"), (2, "b", "code 2"), (3, "c", "code 3")]
    assert type(inner.exceptions[0]) is Custom and isinstance(inner.exceptions[1], Custom)
    assert (e.first.code, e.first.hint.code, e.first.hint.hint) == (4, 5, "d") and e.first.outer is e


@pytest.mark.parametrize("error, why", [(Slotted("text"), "cannot pickle it"), (Backwards("text"), "invalid literal")])
def test_what_cannot_be_sent_back_keeps_its_text(error, why):
    e = raised(error)
    assert type(e) is RayTaskError and isinstance(e.cause, RayError)
    assert "isn't serializable" in str(e.cause) and why in str(e.cause)
    assert str(e).splitlines()[-1].endswith("%s: text" % type(error).__name__)


def test_through_two_hops():
    e = raised(raised(ValueError("deep")))
    assert type(e).__name__ == "RayTaskError(ValueError)" and type(e.cause) is ValueError
    assert str(e).splitlines()[-1] == "ValueError: deep" and str(e).count("Traceback") == 2


def test_made_exceptions_are_pickled_and_copied():
    e = pickle.loads(pickle.dumps(raised(Custom(3, hint="h"))))
    assert isinstance(e, Custom) and isinstance(e, RayTaskError) and e.code == 3 and "Traceback" in str(e)


def test_a_methods_name_is_bounded():
    payload.encode_call("é" * 512, (), {})
    with pytest.raises(ValueError, match="a method's name has at most 1024 bytes, not 1026"):
        payload.encode_call("é" * 513, (), {})


class Picky(Exception):
    def __init_subclass__(cls):
        raise ValueError("no subclasses")


def test_an_exception_whose_class_refuses_subclasses():
    e = raised(Picky("why"))
    assert type(e) is RayTaskError and type(e.cause) is Picky and str(e).endswith("Picky: why")


def test_an_exception_as_a_value_is_not_raised():
    value = received(ValueError("value"))
    assert type(value) is ValueError


def test_a_text_for_an_exception():
    e = payload.decode_answer(Body(b"the worker is full", codec=payload.BYTES, flags=payload.EXCEPTION))
    assert str(e) == "the worker is full" and isinstance(e, RayTaskError)


def test_classes_of_exceptions():
    assert issubclass(RequestCancelledError, RayServeException) and issubclass(RequestCancelledError, TaskCancelledError)
    assert str(RequestCancelledError("7")) == "Request 7 was cancelled."
    assert str(RequestCancelledError()) == "Request was cancelled."
    error = BackPressureError(3, 2, 429, 1.2)
    assert str(error) == "Request dropped due to backpressure (num_queued_requests=3, max_queued_requests=2)."
    assert (error.status_code, error.retry_after_s) == (429, 1.2)
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


@pytest.mark.parametrize("value", [b"abc", bytearray(b"abc"), memoryview(b"abc"), "abc"])
def test_a_caller_that_sent_bytes_gets_bytes(value):
    body = parse(pack(payload.encode_plain_answer(value)))
    assert body.codec == payload.BYTES and not body.flags and bytes(body.data) == b"abc"
    assert payload.decode_answer(body) == b"abc"


def test_a_caller_that_sent_bytes_gets_no_pickle():
    with pytest.raises(TypeError, match="must be bytes or str, not list"):
        payload.encode_plain_answer([1])
    try:
        raise ValueError("no such word: \udc80")
    except ValueError as e:
        body = parse(pack(payload.encode_plain_exception(e)))
    assert body.codec == payload.BYTES and body.flags == payload.EXCEPTION
    assert b"ValueError: no such word" in bytes(body.data) and b"Traceback" in bytes(body.data)
    assert "no such word" in str(payload.decode_answer(body))


def test_names_in_pickles_stay():
    """What other processes have sent, and what a server has stored, may be by another version."""
    from anyserve.serve import _arrays, _decorated, _pickler

    named = (_arrays.array_of, payload._restore, payload._set_attributes, payload._text, _pickler.in_file, _decorated.Decorated)
    assert [pickle.dumps(value, 0).split(b"\n")[:2] for value in named] == [
        [b"canyserve.serve._arrays", b"array_of"],
        [b"canyserve.serve._payload", b"_restore"],
        [b"canyserve.serve._payload", b"_set_attributes"],
        [b"canyserve.serve._payload", b"_text"],
        [b"canyserve.serve._pickler", b"in_file"],
        [b"canyserve.serve._decorated", b"Decorated"],
    ]

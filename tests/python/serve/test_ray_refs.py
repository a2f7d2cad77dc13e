"""ray.get of as_ray: which exception a list raises, and when; what the host of tasks keeps."""

import functools
import gc
import pickle
import sys
import threading
import weakref

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve.serve.as_ray import _refs  # noqa: E402
from anyserve.serve.as_ray._refs import ObjectRef  # noqa: E402
from anyserve.serve.handle import CallMeta  # noqa: E402


class Reply:
    """A call that ends when the test says so."""

    request_id = ""

    def __init__(self):
        self.ended, self.error, self.value, self.callbacks = threading.Event(), None, None, []

    def end(self, value=None, error=None):
        self.value, self.error = value, error
        self.ended.set()
        for fn in self.callbacks:
            fn(self)

    def done(self):
        return self.ended.is_set()

    def result(self, timeout):
        if not self.ended.wait(timeout):
            raise TimeoutError
        if self.error is not None:
            raise self.error
        return self.value

    def add_done_callback(self, fn):
        self.callbacks.append(fn)
        if self.done():
            fn(self)


@pytest.fixture
def calls():
    return [Reply() for _ in range(3)]


def refs_of(calls):
    return [ObjectRef(c, CallMeta("a", "d")) for c in calls]


def in_thread(act):
    """What it gives or raises, as a text; and a function that waits for it."""
    out = []

    def run():
        try:
            out.append(repr(act()))
        except Exception as e:
            out.append(repr(e))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def wait():
        thread.join(30)
        assert out, "it does not return"
        return out[0]

    return wait


def test_values_in_the_order_of_the_list(calls):
    refs = refs_of(calls)
    calls[2].end("c")
    wait = in_thread(lambda: _refs.get([*refs, refs[0]]))
    calls[1].end("b")
    calls[0].end("a")
    assert wait() == "['a', 'b', 'c', 'a']"
    assert _refs.get(refs) == ["a", "b", "c"] and not _refs._listening


def test_the_first_failure_is_raised_at_once(calls):
    """While the first of the list has not ended."""
    refs = refs_of(calls)
    wait = in_thread(lambda: _refs.get(refs))
    calls[1].end("b")
    calls[2].end(error=ValueError("c"))
    assert wait() == "ValueError('c')"
    assert not _refs._listening
    with pytest.raises(ValueError, match="c"):
        _refs.get(refs)


def test_the_time_is_over(calls):
    from anyserve.serve.as_ray.ray.exceptions import GetTimeoutError

    refs = refs_of(calls)
    calls[0].end("a")
    with pytest.raises(GetTimeoutError):
        _refs.get(refs, timeout=0.01)
    assert len(calls[1].callbacks) == 1
    with pytest.raises(GetTimeoutError):
        _refs.get(refs, timeout=0)
    assert len(calls[1].callbacks) == 1  # it is watched once


class Function(functools.partial):
    """What pickle sends, and can be referred to weakly."""


def test_the_host_of_tasks_keeps_a_bounded_number_of_functions():
    from anyserve.serve.as_ray import _host

    def spec(i):
        return tuple(_host.Spec(pickle.dumps(Function(int, str(i))), "id", "int"))

    host = _host.TaskHost()
    assert host.run(spec(0)) == 0 and host.run(spec(0)) == 0
    made = [weakref.ref(o) for o in gc.get_objects() if type(o) is Function]
    assert len(made) == 1
    assert [host.run(spec(i)) for i in range(1, 1001)] == list(range(1, 1001))
    gc.collect()
    assert made[0]() is None and sum(type(o) is Function for o in gc.get_objects()) <= 1000

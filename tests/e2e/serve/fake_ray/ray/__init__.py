"""A stand-in for an installed ray, of the same shape as far as as_ray touches it: functions, classes, modules, exceptions.

It runs tasks at once, in the process. Its init says that it was called.
"""

import concurrent.futures
import functools

from ray import exceptions
from ray.actor import ActorHandle

__version__ = "0.0.fake"
calls = []  # what was called: name


class ObjectRef:
    def __init__(self):
        self._future = concurrent.futures.Future()

    def future(self):
        return self._future


def _said(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        calls.append(fn.__name__)
        return fn(*args, **kwargs)

    return wrapper


@_said
def init(*args, **kwargs):
    return None


def is_initialized():
    return "init" in calls


@_said
def put(value):
    ref = ObjectRef()
    ref._future.set_result(value)
    return ref


@_said
def get(object_refs, *, timeout=None, _use_object_store=False):
    if not isinstance(object_refs, (list, ObjectRef)):
        raise ValueError(f"Invalid type of object refs, {type(object_refs)}, is given.")
    refs = object_refs if isinstance(object_refs, list) else [object_refs]
    try:
        values = [ref._future.result(timeout) for ref in refs]
    except concurrent.futures.TimeoutError:
        raise exceptions.GetTimeoutError("Get timed out") from None
    return values if isinstance(object_refs, list) else values[0]


@_said
def wait(ray_waitables, *, num_returns=1, timeout=None, fetch_local=True):
    for ref in ray_waitables:
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"wait() expected a list of ray.ObjectRef, got list containing {type(ref)}")
    ready = [r for r in ray_waitables if r._future.done()][:num_returns]
    return ready, [r for r in ray_waitables if r not in ready]


@_said
def cancel(ray_waitable, *, force=False, recursive=True):
    ray_waitable._future.cancel()


@_said
def kill(actor, *, no_restart=True):
    if not isinstance(actor, ActorHandle):
        raise ValueError("ray.kill() only supported for actors.")
    actor.killed = True


@_said
def get_actor(name, namespace=None):
    if name != "theirs":
        raise ValueError(f"Failed to look up actor with name '{name}'.")
    return ActorHandle()


def remote(function):
    class Remote:
        @staticmethod
        def remote(*args):
            return put(function(*args))

    return Remote

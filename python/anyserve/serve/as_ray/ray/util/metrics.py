"""ray.util.metrics: those of serve, in replicas, actors and tasks, and in the driver. No tag key is reserved."""

from .... import metrics as _of_serve

__all__ = ["Counter", "Gauge", "Histogram"]


class Counter(_of_serve.Counter):
    __doc__ = _of_serve.Counter.__doc__
    _reserved = ()


class Gauge(_of_serve.Gauge):
    __doc__ = _of_serve.Gauge.__doc__
    _reserved = ()


class Histogram(_of_serve.Histogram):
    __doc__ = _of_serve.Histogram.__doc__
    _reserved = ()

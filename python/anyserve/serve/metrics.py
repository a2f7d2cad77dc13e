"""Metrics of user code: Counter, Gauge and Histogram, as in ``ray.serve.metrics`` and ``ray.util.metrics``.

What a replica records is on the server's /metrics, with the labels application, deployment and replica, under the name
that the program gives (a counter's name ends with ``_total``). All methods may be called from any thread. Recording costs about a
microsecond; the replica sends all values together, at most twice a second.
"""

from __future__ import annotations

import bisect
import json
import math
import os
import re
import threading
import warnings
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from ..runtime.log import log_event
from . import context

__all__ = ["Counter", "Gauge", "Histogram"]

Number = Union[int, float]
Labels = Tuple[Tuple[str, str], ...]
T = TypeVar("T", bound="Metric")

RESERVED = ("deployment", "replica", "application")  # labels that each metric of a replica has
EXPORTED = "exported_"  # the prefix that Prometheus itself gives to labels whose name is taken
ROUTE = "route"  # a label whose value is that of the current request, if none is given
OURS = "anyserve_"  # names of the server's own metrics begin so
MAX_TEXT = 256 * 1024  # bytes of a report
MAX_SERIES = 10_000  # combinations of labels under one name; further ones are not recorded
# of times in milliseconds, where nothing else is chosen (Ray's)
LATENCY_BUCKETS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 500, 1000, 2000, 5000, 10000, 60000, 120000, 300000, 600000)
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")


class Series:
    """One combination of labels. `counts` is a histogram's: a count for each bucket, not cumulative."""

    __slots__ = ("value", "counts")

    def __init__(self, buckets: int) -> None:
        self.value: Number = 0  # of a histogram: the sum
        self.counts = [0] * buckets


class _Family:
    """What is recorded under one name. Metrics of the same name share it."""

    def __init__(self, name: str, kind: str, description: str, boundaries: Sequence[float]) -> None:
        self.name = name + "_total" if kind == "counter" and not name.endswith("_total") else name
        self.kind, self.description, self.boundaries = kind, description, tuple(boundaries)
        self.series: Dict[Tuple[Any, Labels], Series] = {}
        self.is_full = False  # and the log says so


class Registry:
    """All metrics of this process."""

    def __init__(self) -> None:
        self._make_lock()
        self.families: Dict[str, _Family] = {}
        self.collectors: List[Callable[[], None]] = []  # called before each export; they set gauges
        self.dirty = False  # something was recorded since the last export
        self.on_dirty: Optional[Callable[[], None]] = None  # called once for each export, in any thread
        self._was_cut = False

    def _make_lock(self) -> None:
        # a finalizer, which may run wherever memory is allocated, may record, too
        self.lock = threading.RLock()

    def series(self, family: _Family, key: Tuple[Any, Labels]) -> Optional[Series]:
        """What has these labels; None: there are too many already."""
        with self.lock:
            found = family.series.get(key)
            if found is None and len(family.series) < MAX_SERIES:
                found = family.series.setdefault(key, Series(len(family.boundaries) + 1))
        if found is None and not family.is_full:
            family.is_full = True
            log_event("warn", "metric_has_too_many_series", metric=family.name, limit=MAX_SERIES)
        return found

    def family(self, name: str, kind: str, description: str, boundaries: Sequence[float]) -> _Family:
        with self.lock:
            found = self.families.get(name)
            if found is None:
                found = self.families.setdefault(name, _Family(name, kind, description, boundaries))
        if found.kind != kind:
            raise ValueError("metric %r is a %s already" % (name, found.kind))
        if found.boundaries != tuple(boundaries):
            raise ValueError("metric %r has the boundaries %s already" % (name, list(found.boundaries)))
        return found

    def drop(self, core: Any) -> None:
        """Forgets what a replica recorded that shares the process with others."""
        with self.lock:
            for family in list(self.families.values()):
                for key in [k for k in list(family.series) if k[0] is core]:
                    del family.series[key]

    def changed(self) -> None:
        if not self.dirty:
            self.dirty = True
            if self.on_dirty is not None:
                self.on_dirty()

    def text(self) -> str:
        """All values, as the server takes them: a line "F family kind help" (help is a JSON string) for each family, then a
        line "S name {labels} value" for each sample."""
        for collect in list(self.collectors):
            collect()
        self.dirty = False
        with self.lock:
            parts = [_lines(f) for f in list(self.families.values()) if f.series]
        out, size, cut = [], 0, []
        for family, lines in parts:
            size += len(lines.encode())
            if size > MAX_TEXT:
                cut.append(family)
                size -= len(lines.encode())
            else:
                out.append(lines)
        if cut and not self._was_cut:
            self._was_cut = True
            log_event("warn", "metrics_too_large", limit_bytes=MAX_TEXT, left_out=", ".join(cut))
        return "".join(out)


registry = Registry()
os.register_at_fork(after_in_child=registry._make_lock)  # another thread may have held it


def _number(value: Number) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "+Inf" if value > 0 else "-Inf"
        return repr(float(value))
    return str(int(value))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _labels(core: Any, labels: Labels) -> str:
    core = core or context.current_core()
    where: Labels = ()
    if core is not None:
        c = core.context
        where = (("application", c.application), ("deployment", c.deployment), ("replica", c.replica))
    return ",".join('%s="%s"' % (k, _escaped(v)) for k, v in where + labels)


def _lines(family: _Family) -> Tuple[str, str]:
    """The name, and the lines of the family. The registry's lock is held."""
    out = ["F %s %s %s" % (family.name, family.kind, json.dumps(family.description))]
    for (core, labels), series in list(family.series.items()):
        text = _labels(core, labels)
        if family.kind != "histogram":
            out.append("S %s {%s} %s" % (family.name, text, _number(series.value)))
            continue
        total = 0
        for boundary, count in zip((*family.boundaries, math.inf), series.counts):
            total += count
            bucket = ",".join(filter(None, (text, 'le="%s"' % _number(float(boundary)))))
            out.append("S %s_bucket {%s} %d" % (family.name, bucket, total))
        out.append("S %s_sum {%s} %s" % (family.name, text, _number(series.value)))
        out.append("S %s_count {%s} %d" % (family.name, text, total))
    return family.name, "\n".join(out) + "\n"


def _check_name(name: str) -> bool:
    """Whether the metric can be exported."""
    if len(name) == 0:
        raise ValueError("Empty name is not allowed. Please provide a metric name.")
    if name.startswith(OURS):
        raise ValueError("metric names that begin with %s are the server's: %r" % (OURS, name))
    if not _NAME.match(name):
        warnings.warn(
            "Invalid metric name: %s. Metric will be discarded and data will not be collected or published. Metric names "
            "can only contain letters, numbers, _, and :. Metric names cannot start with numbers." % name,
            UserWarning, stacklevel=4)  # fmt: skip
        return False
    if ":" in name:
        warnings.warn(
            "Metric name %s contains a : character, which is no longer allowed. Please migrate to the new metric name "
            "format. This will be an error in the future." % name, FutureWarning, stacklevel=4)  # fmt: skip
    return True


def _check_reserved(keys: Iterable[str], reserved: Sequence[str]) -> None:
    for key in reserved:
        if key in keys:
            raise ValueError("'%s' tag is reserved for Ray Serve metrics" % key)


def _exported(tags: Dict[str, str]) -> Labels:
    """As they are exported: the server adds labels of the RESERVED names, so a tag of such a name gets another one."""
    return tuple(sorted((EXPORTED + key if key in RESERVED else key, value) for key, value in tags.items()))


def _check_value(value: Any) -> None:
    if not isinstance(value, (int, float)):
        raise TypeError("value must be int or float, got %s." % type(value))


class Metric:
    """What the three kinds have in common. Use Counter, Gauge or Histogram."""

    _kind = ""
    _boundaries: Sequence[float] = ()
    _reserved: Sequence[str] = RESERVED  # tag keys that are refused; those of ray.util.metrics refuse none

    def __init__(self, name: str, description: str = "", tag_keys: Optional[Tuple[str, ...]] = None) -> None:
        if tag_keys and not isinstance(tag_keys, tuple):
            raise TypeError("tag_keys should be a tuple type, got: %s" % type(tag_keys))
        exported = _check_name(name)
        for key in tag_keys or ():
            if not isinstance(key, str):
                raise TypeError("Tag keys must be str, got %s." % type(key))
            if not _LABEL.match(key):
                raise ValueError("%r cannot be a tag key: it has letters, digits and _, and begins with no digit" % key)
        _check_reserved(tag_keys or (), self._reserved)
        self._name, self._description = name, description
        self._tag_keys: Tuple[str, ...] = tuple(tag_keys or ())
        self._default_tags: Dict[str, str] = {}
        self._core = context._core_here.get()  # in local testing several replicas share the process
        self._family = registry.family(name, self._kind, description, self._boundaries) if exported else None
        self._known: Dict[Labels, Series] = {}  # by the tags of a call
        self._plain: Optional[Series] = None  # of a call without tags

    def set_default_tags(self: T, default_tags: Dict[str, str]) -> T:
        """Values for tag keys that a record leaves out. Returns this metric."""
        _check_reserved(default_tags, self._reserved)
        for key, value in default_tags.items():
            if key not in self._tag_keys:
                raise ValueError("Unrecognized tag key %s." % key)
            if not isinstance(value, str):
                raise TypeError("Tag values must be str, got %s." % type(value))
        self._default_tags = dict(default_tags)
        self._known, self._plain = {}, None
        return self

    @property
    def info(self) -> Dict[str, Any]:
        """Name, description, tag keys and default tags, those of the replica included."""
        core = self._core or context.current_core()
        where = {} if core is None or not self._reserved else dict(zip(RESERVED, (core.context.deployment, core.context.replica,
                                                            core.context.application)))  # fmt: skip
        return {"name": self._name, "description": self._description, "tag_keys": (*where, *self._tag_keys),
                "default_tags": {**self._default_tags, **where}}  # fmt: skip

    def series(self, tags: Optional[Mapping[str, str]]) -> Optional[Series]:
        """Where to record with these tags; None: nowhere."""
        if self._family is None:
            return None
        if not tags and self._plain is not None:
            return self._plain
        key = tuple(tags.items()) if tags else ()
        try:
            found = self._known.get(key)
        except TypeError:  # a value that is no text
            found = None
        if found is not None:
            return found
        final = {**self._default_tags, **(tags or {})}
        for value in final.values():
            if not isinstance(value, str):
                raise TypeError("Tag values must be str, got %s." % type(value))
        from_request = ROUTE in self._tag_keys and ROUTE not in final
        if from_request:
            final[ROUTE] = context._serve_request_context.get().route
        missing = [k for k in self._tag_keys if k not in final]
        if missing:
            raise ValueError("Missing value for tag key(s): %s." % ",".join(missing))
        for name in final:
            if name not in self._tag_keys and not _LABEL.match(name):
                raise ValueError("Unrecognized tag key %s." % name)
        _check_reserved(final, self._reserved)
        labels = _exported(final)
        series = registry.series(self._family, (self._core, labels))
        if series is not None and not from_request:
            if key:
                self._known[key] = series
            else:
                self._plain = series
        return series

    def forget(self, tags: Dict[str, str]) -> None:
        """What was recorded with these tags is exported no longer."""
        if self._family is not None:
            labels = _exported({**self._default_tags, **tags})
            with registry.lock:
                self._family.series.pop((self._core, labels), None)
            self._known, self._plain = {}, None
            registry.changed()

    def __reduce__(self) -> Tuple[Any, ...]:
        return _made, (type(self), (self._name, self._description, self._tag_keys), self._default_tags)


def _made(kind: Any, args: Tuple[Any, ...], default_tags: Dict[str, str]) -> Any:
    return kind(*args).set_default_tags(default_tags)


class Counter(Metric):
    """A value that only rises."""

    _kind = "counter"

    def inc(self, value: Number = 1.0, tags: Optional[Dict[str, str]] = None) -> None:
        """Adds a value above 0. tags: they take precedence over the default tags."""
        _check_value(value)
        if value <= 0:
            raise ValueError("value must be >0, got %s" % value)
        series = self.series(tags)
        if series is not None:
            with registry.lock:
                series.value += value
            registry.changed()


class Gauge(Metric):
    """A value that rises and falls."""

    _kind = "gauge"

    def set(self, value: Optional[Number], tags: Optional[Dict[str, str]] = None) -> None:
        """Replaces the value. None: it stays."""
        if value is None:
            return
        _check_value(value)
        series = self.series(tags)
        if series is not None:
            series.value = value
            registry.changed()


class Histogram(Metric):
    """How many values were observed up to each of the boundaries, and their sum."""

    _kind = "histogram"

    def __init__(self, name: str, description: str = "", boundaries: Optional[Sequence[float]] = None,
                 tag_keys: Optional[Tuple[str, ...]] = None) -> None:  # fmt: skip
        if boundaries is None or len(boundaries) == 0:
            raise ValueError("boundaries argument should be provided when using the Histogram class. e.g., "
                             'Histogram("name", boundaries=[1.0, 2.0])')  # fmt: skip
        for i, boundary in enumerate(boundaries):
            if boundary <= 0:
                raise ValueError("Invalid `boundaries` argument at index %d, %s. Use positive values for the arguments."
                                 % (i, boundaries))  # fmt: skip
        self.boundaries = list(boundaries)
        self._boundaries = sorted(set(boundaries))
        super().__init__(name, description, tag_keys)

    @property
    def info(self) -> Dict[str, Any]:
        return {**super().info, "boundaries": self.boundaries}

    def observe(self, value: Number, tags: Optional[Dict[str, str]] = None) -> None:
        """Records a value. tags: they take precedence over the default tags."""
        _check_value(value)
        series = self.series(tags)
        if series is not None:
            place = bisect.bisect_left(self._boundaries, value)
            with registry.lock:
                series.value += value
                series.counts[place] += 1
            registry.changed()

    def __reduce__(self) -> Tuple[Any, ...]:
        return _made, (type(self), (self._name, self._description, self.boundaries, self._tag_keys), self._default_tags)

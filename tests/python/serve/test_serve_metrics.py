"""Metrics of user code: what they refuse, and what a replica reports."""

import asyncio
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import types

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve.replica import ReplicaContext  # noqa: E402
from anyserve.serve import context, metrics  # noqa: E402
from anyserve.serve._calls.transport import CallMeta  # noqa: E402
from anyserve.serve._replica import reports as _reports  # noqa: E402
from anyserve.serve._replica.core import ReplicaCore  # noqa: E402
from anyserve.serve.metrics import Counter, Gauge, Histogram, registry  # noqa: E402


def outcome(act):
    try:
        act()
    except Exception as e:
        return "%s: %s" % (type(e).__name__, e)
    return "accepted"


def samples():
    return dict(line[2:].rsplit(" ", 1) for line in registry.text().splitlines() if line.startswith("S "))


def test_tags_of_ray_util_metrics_may_have_any_name():
    from anyserve.serve.as_ray.ray.util import metrics as of_util

    counter = of_util.Counter("util_calls", tag_keys=("deployment", "kind")).set_default_tags({"deployment": "Mine"})
    counter.inc(2, tags={"kind": "a"})
    pickle.loads(pickle.dumps(counter)).inc(tags={"kind": "a"})
    assert samples()['util_calls_total {exported_deployment="Mine",kind="a"}'] == "3.0"  # the server adds its own label deployment
    assert counter.info["tag_keys"] == ("deployment", "kind")


# the texts are those of Ray 2.60
def test_what_is_refused():
    counter = Counter("my_requests", description="d", tag_keys=("kind",))
    assert counter.set_default_tags({"kind": "a"}) is counter
    histogram = Histogram("my_latency", boundaries=[1, 10, 100], tag_keys=("kind",))
    for act, said in [
        (lambda: counter.inc(), "accepted"), (lambda: counter.inc(3, tags={"kind": "b"}), "accepted"),
        (lambda: counter.inc(1, tags={"other": "x"}), "accepted"), (lambda: counter.inc(True), "accepted"),
        (lambda: counter.inc(0), "ValueError: value must be >0, got 0"),
        (lambda: counter.inc(-1), "ValueError: value must be >0, got -1"),
        (lambda: counter.inc("1"), "TypeError: value must be int or float, got <class 'str'>."),
        (lambda: counter.inc(1, tags={"kind": None}), "TypeError: Tag values must be str, got <class 'NoneType'>."),
        (lambda: counter.inc(1, tags={"kind": []}), "TypeError: Tag values must be str, got <class 'list'>."),
        (lambda: counter.set_default_tags({"nope": "1"}), "ValueError: Unrecognized tag key nope."),
        (lambda: counter.set_default_tags({"kind": 1}), "TypeError: Tag values must be str, got <class 'int'>."),
        (lambda: counter.set_default_tags({"replica": "1"}), "ValueError: 'replica' tag is reserved for Ray Serve metrics"),
        (lambda: Gauge("g").set("x"), "TypeError: value must be int or float, got <class 'str'>."),
        (lambda: Gauge("g").set(None), "accepted"), (lambda: Gauge("g").set(math.nan), "accepted"),
        (lambda: histogram.observe(5), "ValueError: Missing value for tag key(s): kind."),
        (lambda: histogram.observe(None), "TypeError: value must be int or float, got <class 'NoneType'>."),
        (lambda: Histogram("h"), "ValueError: boundaries argument should be provided when using the Histogram class. e.g., "
                                 'Histogram("name", boundaries=[1.0, 2.0])'),
        (lambda: Histogram("h", boundaries=[1, -1]), "ValueError: Invalid `boundaries` argument at index 1, [1, -1]. Use "
                                                     "positive values for the arguments."),
        (lambda: Counter(""), "ValueError: Empty name is not allowed. Please provide a metric name."),
        (lambda: Counter("c", tag_keys="kind"), "TypeError: tag_keys should be a tuple type, got: <class 'str'>"),
        (lambda: Counter("c", tag_keys=(1,)), "TypeError: Tag keys must be str, got <class 'int'>."),
        (lambda: Counter("c", tag_keys=("deployment",)), "ValueError: 'deployment' tag is reserved for Ray Serve metrics"),
        # ours
        (lambda: Counter("anyserve_x"), "ValueError: metric names that begin with anyserve_ are the server's: 'anyserve_x'"),
        (lambda: Counter("c", tag_keys=("a b",)), "ValueError: 'a b' cannot be a tag key: it has letters, digits and _, and "
                                                  "begins with no digit"),
        (lambda: Gauge("my_requests"), "ValueError: metric 'my_requests' is a counter already"),
        (lambda: Histogram("my_latency", boundaries=[2]), "ValueError: metric 'my_latency' has the boundaries [1, 10, 100] "
                                                          "already"),
        (lambda: counter.inc(1, tags={"a b": "x"}), "ValueError: Unrecognized tag key a b."),
    ]:  # fmt: skip
        assert outcome(act) == said


def test_names_that_cannot_be_exported_are_discarded():
    with pytest.warns(UserWarning, match="Invalid metric name: x y. Metric will be discarded"):
        counter = Counter("x y", tag_keys=("a",))
    counter.inc(1)
    assert samples() == {}
    with pytest.warns(FutureWarning, match="contains a : character"):
        Counter("a:b")


def test_values():
    counter = Counter("c", "it counts", ("kind", "color")).set_default_tags({"kind": "a"})
    counter.inc(tags={"color": "red"})
    counter.inc(2.5, {"color": "red"})
    counter.inc(1, {"kind": 'b"\\\n', "color": "red"})
    gauge = Gauge("g")
    gauge.set(3)
    gauge.set(None)
    for value in 0.5, 1, 1.5, 10, 11:
        Histogram("h_ms", 'a "histogram"\n', [1, 10]).observe(value)
    assert registry.text() == r'''
F c_total counter "it counts"
S c_total {color="red",kind="a"} 3.5
S c_total {color="red",kind="b\"\\\n"} 1
F g gauge ""
S g {} 3
F h_ms histogram "a \"histogram\"\n"
S h_ms_bucket {le="1.0"} 2
S h_ms_bucket {le="10.0"} 4
S h_ms_bucket {le="+Inf"} 5
S h_ms_sum {} 24.0
S h_ms_count {} 5
'''.lstrip()


def test_special_values():
    gauge = Gauge("g", tag_keys=("v",))
    for value in math.nan, math.inf, -math.inf, True, 1e300, 10**20:
        gauge.set(value, {"v": str(value)})
    assert list(samples().values()) == ["NaN", "+Inf", "-Inf", "1", "1e+300", "100000000000000000000"]


def test_metrics_of_one_name_are_one():
    a, b = Counter("c", tag_keys=("x",)), Counter("c", tag_keys=("x",))
    a.inc(1, {"x": "1"})
    b.inc(1, {"x": "1"})
    assert samples() == {'c_total {x="1"}': "2"}
    assert Counter("d_total").inc() is None
    assert samples()["d_total {}"] == "1.0"  # no second _total


def test_unsorted_boundaries_are_sorted():
    h = Histogram("h", boundaries=[5, 1, 5])
    h.observe(3)
    assert h.boundaries == [5, 1, 5]
    assert samples() == {'h_bucket {le="1.0"}': "0", 'h_bucket {le="5.0"}': "1", 'h_bucket {le="+Inf"}': "1", "h_sum {}": "3",
                         "h_count {}": "1"}  # fmt: skip


def test_threads_lose_nothing():
    counter, histogram = Counter("c"), Histogram("h", boundaries=[1])

    def work():
        for _ in range(5000):
            counter.inc(1)
            histogram.observe(2)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert samples()["c_total {}"] == "20000" and samples()["h_count {}"] == "20000"


class Recording(str):
    """A label whose text is escaped while values are exported."""

    def replace(self, *args):
        Counter("ended").inc()
        return str.replace(self, *args)


def test_a_finalizer_may_record_while_values_are_exported():
    """The collector runs finalizers wherever memory is allocated, also while the registry's lock is held."""
    Counter("labelled", tag_keys=("k",)).inc(1, {"k": Recording("v")})
    texts = []
    thread = threading.Thread(target=lambda: texts.append(registry.text()), daemon=True)
    thread.start()
    thread.join(10)
    assert texts and "labelled_total" in texts[0]
    assert "S ended_total {} " in registry.text()


def test_the_child_of_a_fork_records():
    """Another thread may have the registry's lock when the process forks."""
    held, release = threading.Event(), threading.Event()

    def hold():
        with registry.lock:
            held.set()
            release.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        try:
            Counter("in_child").inc()
            os._exit(0)
        finally:
            os._exit(1)
    release.set()
    thread.join()
    assert os.waitpid(pid, 0)[1] == 0


def test_info():
    """As Ray's, which was recorded without a replica."""
    counter = Counter("c", description="things", tag_keys=("a", "b")).set_default_tags({"a": "1"})
    assert counter.info == {"name": "c", "description": "things", "tag_keys": ("a", "b"), "default_tags": {"a": "1"}}
    assert Histogram("h", boundaries=[0.5, 5]).info == {
        "name": "h", "description": "", "tag_keys": (), "default_tags": {}, "boundaries": [0.5, 5]}  # fmt: skip


def test_pickles():
    for metric in Counter("c", "d", ("a",)).set_default_tags({"a": "x"}), Gauge("g"), Histogram("h", boundaries=[1, 2]):
        again = pickle.loads(pickle.dumps(metric))
        assert type(again) is type(metric) and again.info == metric.info


def test_a_series_can_be_forgotten():
    gauge = Gauge("g", tag_keys=("a",))
    for a in "12":
        gauge.set(1, {"a": a})
    gauge.forget({"a": "1"})
    assert samples() == {'g {a="2"}': "1"}
    gauge.set(2, {"a": "1"})
    assert samples()['g {a="1"}'] == "2"


def test_limits(monkeypatch, capfd):
    monkeypatch.setattr(metrics, "MAX_SERIES", 3)
    gauge = Gauge("g", tag_keys=("a",))
    for i in range(5):
        gauge.set(i, {"a": str(i)})
    assert sorted(samples().values()) == ["0", "1", "2"]
    assert capfd.readouterr().err.count("event=metric_has_too_many_series metric=g limit=3") == 1
    Gauge("small").set(1)
    whole = len(registry.text().encode())
    monkeypatch.setattr(metrics, "MAX_TEXT", whole)
    assert len(registry.text().encode()) == whole
    monkeypatch.setattr(metrics, "MAX_TEXT", whole - 1)
    assert set(samples()) == {'g {a="%d"}' % i for i in range(3)}
    assert capfd.readouterr().err.count("event=metrics_too_large") == 1


# --- in a replica ---


async def replica_of(what, name="D-0"):
    core = ReplicaCore(what, (), {}, config=types.SimpleNamespace(max_ongoing_requests=5, user_config=None),
                       context=ReplicaContext(name, "D", "shop"), shared=True)  # fmt: skip
    await core.start()
    return core


class Counting:
    def __init__(self):
        self.counter = Counter("calls", tag_keys=("route",))

    async def __call__(self):
        self.counter.inc(1)
        self.counter.inc(2, {"route": "/mine"})
        return self.counter.info


def test_labels_of_the_replica_and_of_the_route():
    async def main():
        cores = [await replica_of(Counting, "D-%d" % i) for i in range(2)]
        for i, core in enumerate(cores):
            for _ in range(i + 1):
                info = await asyncio.ensure_future(core.call(CallMeta("shop", "D")))
        assert info["tag_keys"] == ("deployment", "replica", "application", "route")
        assert info["default_tags"] == {"deployment": "D", "replica": "D-1", "application": "shop"}

    asyncio.run(main())
    where = 'calls_total {application="shop",deployment="D",replica="D-%d",route="%s"}'
    got = {k: v for k, v in samples().items() if k.startswith("calls_total")}
    assert got == {where % (0, ""): "1", where % (0, "/mine"): "2", where % (1, ""): "2", where % (1, "/mine"): "4"}


def test_reports_are_coalesced_and_an_idle_replica_sends_none(monkeypatch):
    monkeypatch.setattr(_reports, "METRICS_PERIOD", 0.01)

    async def main():
        core = await replica_of(Counting)
        sent = []
        came = asyncio.Event()

        def send(kind, text):
            if kind == _reports.METRICS:
                sent.append(text)
                came.set()

        core.report_to(send)
        sent.clear()
        came.clear()
        for _ in range(500):
            await asyncio.ensure_future(core.call(CallMeta("shop", "D")))
        # from other threads, too
        await asyncio.to_thread(core.servable.counter.inc, 5, {"route": "/thread"})
        while not sent or "/thread" not in sent[-1]:
            came.clear()
            await came.wait()
        assert len(sent) < 500
        n = len(sent)
        assert registry.dirty is False and core._reporter._metrics_due is None  # nothing is due
        core.servable.counter.inc(1)
        await core.stop()  # the last values are sent
        assert len(sent) == n + 1 and 'route=""} 501' in sent[-1] and registry.on_dirty is None

    asyncio.run(asyncio.wait_for(main(), 60))


class Calls:
    async def __call__(self, error=None):
        if error is not None:
            raise error
        return samples_of("serve_replica_processing_queries")

    async def wait(self):
        await asyncio.Event().wait()


def samples_of(name):
    return {k: v for k, v in samples().items() if k.startswith(name)}


def test_metrics_of_calls():
    where = 'application="shop",deployment="D",replica="D-0"'
    route = where + ',route=""'

    async def main():
        core = await replica_of(Calls)
        assert await asyncio.ensure_future(core.call(CallMeta("shop", "D"))) == {
            "serve_replica_processing_queries {%s}" % where: "1"}  # fmt: skip
        for error in KeyError(), KeyError(), ValueError():
            with pytest.raises(type(error)):
                await asyncio.ensure_future(core.call(CallMeta("shop", "D"), (error,)))
        waiting = asyncio.ensure_future(core.call(CallMeta("shop", "D", "wait")))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        got = samples()
        assert got["serve_deployment_request_counter_total {%s}" % route] == "5"
        errors = {k.split("exception_type=")[1][:10]: v for k, v in got.items() if "error_counter" in k}
        assert errors == {'"KeyError"': "2", '"ValueErro': "1"}
        assert got["serve_deployment_processing_latency_ms_count {%s}" % route] == "5"
        assert float(got["serve_deployment_processing_latency_ms_sum {%s}" % route]) > 0
        assert got["serve_replica_processing_queries {%s}" % where] == "0"
        assert got["serve_deployment_replica_starts_total {%s}" % where] == "1"
        await core.stop()
        assert samples() == {} and registry.collectors == []

    asyncio.run(main())


class Stats:
    def __init__(self):
        self.n = 0

    def record_routing_stats(self):
        self.n += 1
        if self.n == 2:
            raise ValueError("not now")
        return {"n": self.n}

    async def record_autoscaling_stats(self):
        return {"depth": 4}


def test_statistics_are_reported(capfd):
    async def main():
        core = await replica_of(Stats)
        core.config.request_router_config = types.SimpleNamespace(request_routing_stats_period_s=0,
                                                                  request_routing_stats_timeout_s=30)  # fmt: skip
        sent, came = {}, asyncio.Event()

        def send(kind, text):
            sent.setdefault(kind, []).append(text)
            if len(sent.get(_reports.ROUTING, [])) >= 2 and _reports.AUTOSCALING in sent:
                came.set()

        core.report_to(send)
        await came.wait()
        core.report_to(None)
        return sent

    sent = asyncio.run(asyncio.wait_for(main(), 60))
    assert [json.loads(t) for t in sent[_reports.ROUTING][:2]] == [{"n": 1}, {"n": 3}]
    assert json.loads(sent[_reports.AUTOSCALING][0]) == {"depth": 4}
    assert "event=stats_failed method=record_routing_stats error=\"ValueError: not now\"" in capfd.readouterr().err


def test_the_module_is_an_attribute_of_the_package():
    p = subprocess.run([sys.executable, "-c", "from anyserve import serve; serve.metrics.Counter('c').inc(1); serve.schema; "
                        "print(hasattr(serve, 'nothing'))"], cwd=PACKAGE, capture_output=True, text=True, timeout=60)  # fmt: skip
    assert p.stdout == "False\n", p.stderr


def test_a_driver_has_no_labels():
    Counter("c").inc(1)
    assert samples() == {"c_total {}": "1"} and context.current_core() is None

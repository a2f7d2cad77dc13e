"""A router of the user's own in the policy process: what it is told, what it answers, and what goes wrong."""

import asyncio
import json
import struct
import time
import types

import pytest

from anyserve.replica import DeploymentID, ReplicaID
from anyserve.serve import _payload
from anyserve.serve._policy import records
from anyserve.serve._policy.router_host import RouterHost
from anyserve.serve.request_router import (ArgumentsIncomplete, FIFOMixin, LocalityMixin, MultiplexMixin, PendingRequest,
                                           RequestMetadata, RequestRouter, RunningReplica)

D = DeploymentID("D", "app")


def replica_record(number, name, ongoing=0, most=5, node="", zone="", models=None, stats=None):
    texts = [t.encode() for t in (name, node, zone, models or "", stats or "")]
    flags = (1 if models is not None else 0) | (2 if stats is not None else 0)
    head = struct.pack("<IIIHHHHIII", number, most, ongoing, *(len(t) for t in texts[:3]), flags, *(len(t) for t in texts[3:]), 0)
    return record(records.REPLICA, head + b"".join(texts))


def record(kind, body):
    return struct.pack("<II", kind, len(body)) + body + bytes(-len(body) % 8)


def route_record(ident, body=b"", length=None, kind=records.CALL, method="", model="", session="", request="", before=0):
    texts = [t.encode() for t in (method, model, session, request)]
    head = struct.pack("<QQQIIHHHHQ", ident, time.monotonic_ns(), len(body) if length is None else length, len(body), kind,
                       *map(len, texts), before)
    return record(records.ROUTE, head + b"".join(texts) + body)


def event(kind, ident, number=0):
    return record(kind, struct.pack("<QII", ident, number, 0))


def body_record(ident, offset, data, gone=False):
    return record(records.BODY, struct.pack("<QQII", ident, offset, int(gone), 0) + data)


class Server:
    """What a router host sends, by link."""

    def __init__(self, host):
        self.host = host
        self.choices, self.asked_more, self.read = {}, [], 0
        self.frames = 0
        self.ended = set()
        host.start(self.send)

    def send(self, origin, data):
        if origin in self.ended:
            return False
        self.frames += 1
        for kind, at, end in records.split(data):
            if kind == records.CHOICE:
                ident, reason, n = struct.unpack_from("<QII", data, at)
                self.choices[ident] = reason, [struct.unpack_from("<II", data, at + 16 + 8 * i) for i in range(n)]
                assert end == at + 16 + 8 * n
            elif kind == records.MORE:
                self.asked_more.append(struct.unpack_from("<Q", data, at)[0])
            elif kind == records.READ:
                self.read = struct.unpack_from("<Q", data, at)[0]
        return True


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


THREE = replica_record(1, "app#D-0") + replica_record(2, "app#D-1") + replica_record(3, "app#D-2")


def run(router_class, steps, **kwargs):
    """steps: an async function (host, server)."""

    async def main():
        host = RouterHost(router_class, kwargs, D)
        await steps(host, Server(host))
        return host

    return asyncio.run(main())


class First(RequestRouter):
    async def choose_replicas(self, candidate_replicas, pending_request=None):
        return [[candidate_replicas[0]], candidate_replicas[1:]]


def test_ranked_groups_are_answered_in_one_frame():
    async def steps(host, server):
        host.take(7, THREE + route_record(1) + route_record(2))
        await settle()
        assert server.choices == {1: (0, [(1, 0), (2, 1), (3, 1)]), 2: (0, [(1, 0), (2, 1), (3, 1)])}
        assert server.frames == 1
        assert host.router.num_pending_requests == 0

    run(First, steps)


def test_what_a_router_sees():
    seen = []

    class Looks(RequestRouter):
        def initialize_state(self, weight):
            self.weight = weight

        def update_replicas(self, replicas):
            super().update_replicas(replicas)
            seen.append(sorted(r.replica_id.unique_id for r in replicas))

        async def choose_replicas(self, candidate_replicas, pending_request=None):
            r = candidate_replicas[0]
            seen.append((self.weight, self.app_name, r.replica_id, r.num_ongoing_requests, await r.get_queue_len(deadline_s=1),
                         r.max_ongoing_requests, r.multiplexed_model_ids, r.routing_stats, r.node_id, r.availability_zone))
            m = pending_request.metadata
            seen.append((m.request_id, m.call_method, m.multiplexed_model_id, m.session_id, m.is_http_request, m.app_name))
            assert abs(pending_request.created_at - time.time()) < 5
            seen.append((pending_request.args, pending_request.kwargs))
            return [[r]]

    async def steps(host, server):
        call = _payload.pack(_payload.encode_call("m", (1, "x"), {"y": [2]}))
        host.take(1, replica_record(1, "app#D-0", 2, 9, "n", "z", '["a","b"]', '{"hits": 3}')
                  + route_record(5, call, method="m", model="a", session="s", request="id"))
        await settle()
        assert server.choices[5] == (0, [(1, 0)])
        host.take(1, record(records.ONGOING, struct.pack("<II", 1, 4)) + replica_record(1, "app#D-0", 4, 8))
        r = host.router.curr_replicas[ReplicaID("D-0", D)]
        assert (r.num_ongoing_requests, r.max_ongoing_requests, r.routing_stats) == (4, 8, {"hits": 3})  # as they were
        host.take(1, replica_record(1, "app#D-0", 4, 8, stats=""))
        assert r.routing_stats == {} and r.multiplexed_model_ids == {"a", "b"}

    run(Looks, steps, weight=3)
    assert seen[0] == ["D-0"]
    assert seen[1] == (3, "app", ReplicaID("D-0", D), 2, 2, 9, {"a", "b"}, {"hits": 3}, "n", "z")
    assert seen[2] == ("id", "m", "a", "s", False, "app")
    assert seen[3] == ((1, "x"), {"y": [2]})


def test_calls_overlap():
    class Waits(RequestRouter):
        def initialize_state(self):
            self.gate = asyncio.Event()

        async def choose_replicas(self, candidate_replicas, pending_request=None):
            assert asyncio.current_task() is not None
            if pending_request.metadata.request_id == "slow":
                await self.gate.wait()
            return [[candidate_replicas[0]]]

    async def steps(host, server):
        host.take(1, THREE + route_record(1, request="slow") + route_record(2))
        await settle()
        assert list(server.choices) == [2] and host.router.num_pending_requests == 1
        host.router.gate.set()
        await settle()
        assert sorted(server.choices) == [1, 2]

    run(Waits, steps)


def test_errors_are_logged_once_and_answered(capfd):
    class Raises(RequestRouter):
        async def choose_replicas(self, candidate_replicas, pending_request=None):
            if pending_request.metadata.request_id == "sync":
                raise KeyError("a")
            if pending_request.metadata.request_id == "exit":
                raise SystemExit("c")
            await asyncio.sleep(0)
            if pending_request.metadata.request_id == "late exit":
                raise KeyboardInterrupt("d")
            raise ValueError("b")

    async def steps(host, server):
        host.take(1, THREE + route_record(1) + route_record(2, request="sync") + route_record(3)
                  + route_record(4, request="exit") + route_record(5, request="late exit"))  # fmt: skip
        await settle()
        assert {i: c[0] for i, c in server.choices.items()} == dict.fromkeys([1, 2, 3, 4, 5], records.RAISED)

    run(Raises, steps)
    text = capfd.readouterr().err
    assert text.count("event=router_raised") == 4 and "ValueError: b" in text


@pytest.mark.parametrize("returned, reason, chosen", [
    ([], records.NONE, []),
    ([[], []], records.NONE, []),
    ([["D-0"]], records.UNKNOWN, []),
    ([[RunningReplica(ReplicaID("D-9", D))]], records.UNKNOWN, []),
    ([[RunningReplica(ReplicaID("E-0", DeploymentID("E", "app")))]], records.UNKNOWN, []),
    ([[RunningReplica(ReplicaID("D-1", D)), None, RunningReplica(ReplicaID("D-1", D))]], records.CHOSEN, [(2, 0)]),
    (5, records.RAISED, []),
    (None, records.RAISED, []),
])
def test_what_is_returned(returned, reason, chosen, capfd):
    class Returns(RequestRouter):
        def choose_replicas(self, candidate_replicas, pending_request=None):  # need not be async
            return returned

    async def steps(host, server):
        host.take(1, THREE + route_record(1))
        await settle()
        assert server.choices == {1: (reason, chosen)}

    run(Returns, steps)
    logged = "router_unknown_replica" in capfd.readouterr().err
    assert logged == (reason == records.UNKNOWN and getattr(returned[0][0], "replica_id", None) != ReplicaID("D-9", D))


def test_at_most_eight_replicas_the_free_ones_first():
    class All(RequestRouter):
        async def choose_replicas(self, candidate_replicas, pending_request=None):
            return [candidate_replicas[:2], candidate_replicas[2:]]

    async def steps(host, server):
        host.take(1, b"".join(replica_record(i, "app#D-%d" % i, 20 - i, 99) for i in range(1, 13)) + route_record(1))
        await settle()
        reason, chosen = server.choices[1]
        assert reason == records.CHOSEN and [c[1] for c in chosen] == [0, 0, 1, 1, 1, 1, 1, 1]
        assert [c[0] for c in chosen[2:]] == [12, 11, 10, 9, 8, 7]

    run(All, steps)


def test_replicas_that_go():
    died = []

    class Router(First):
        def on_replica_actor_died(self, replica_id):
            died.append(replica_id.unique_id)

    async def steps(host, server):
        host.take(1, THREE)
        host.take(1, event(records.GONE, 1, 1) + event(records.GONE, 0, 2) + event(records.GONE, 0, 77) + route_record(1))
        await settle()
        assert server.choices == {1: (0, [(3, 0)])}
        assert died == ["D-0"]

    run(Router, steps)


def test_hooks_are_called():
    heard = []

    class Hooks(First):
        def on_request_routed(self, pending_request, replica_id, result):
            heard.append(("routed", pending_request.metadata.request_id, replica_id.unique_id, result))

        def on_request_completed(self, replica_id, internal_request_id):
            heard.append(("completed", replica_id.unique_id, internal_request_id))

    async def steps(host, server):
        assert host.wants == records.WANTS_ROUTED | records.WANTS_COMPLETED
        host.take(4, THREE + route_record(1, request="a"))
        await settle()
        host.take(4, event(records.ROUTED, 1, 2) + event(records.COMPLETED, 1, 2) + event(records.ROUTED, 99, 1))
        assert heard == [("routed", "a", "D-1", None), ("completed", "D-1", "4-1")]

    run(Hooks, steps)
    assert RouterHost(First, {}, D).wants == 0


class Silent(Exception):
    def __str__(self):
        raise ValueError("of __str__")


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, Silent])
@pytest.mark.parametrize("hook", ["update_replicas", "on_request_routed", "on_request_completed", "on_replica_actor_died"])
def test_what_a_hook_raises_ends_no_question(hook, error, capfd):
    def fails(self, *args):
        if self.armed:
            raise error("of a hook")
        getattr(RequestRouter, hook)(self, *args)

    class Fails(First):
        armed = False

    setattr(Fails, hook, fails)

    async def steps(host, server):
        host.take(4, THREE + route_record(1))
        await settle()
        assert server.choices[1][0] == records.CHOSEN
        Fails.armed = True
        host.take(4, event(records.ROUTED, 1, 1) + event(records.COMPLETED, 1, 1) + event(records.GONE, 1, 3) + route_record(2))
        host.take(4, route_record(3))
        await settle()
        assert {i: c[0] for i, c in server.choices.items()} == dict.fromkeys([1, 2, 3], records.CHOSEN)

    run(Fails, steps)
    text = capfd.readouterr().err
    said = "test_router_host.Silent: <no text: its __str__ raises>" if error is Silent else error.__name__ + ": of a hook"
    assert text.count("event=router_raised") == 1 and "%s: %s" % (hook, said) in text and "Traceback" in text


def test_a_router_hears_where_the_server_has_sent_it():
    """Whatever it has answered, and when it has not answered yet; each time once, so that routed and completed ones are as many."""
    heard = []

    class Hooks(RequestRouter):
        def initialize_state(self):
            self.go = asyncio.Event()

        async def choose_replicas(self, candidate_replicas, pending_request=None):
            what = pending_request.metadata.request_id
            if what == "late":
                await self.go.wait()
            if what == "raises":
                raise ValueError("no")
            return {"none": [], "unknown": [["D-0"]]}.get(what, [candidate_replicas])

        def on_request_routed(self, pending_request, replica_id, result):
            heard.append((pending_request.metadata.request_id, replica_id.unique_id))

    async def steps(host, server):
        kinds = ["raises", "none", "unknown", "late"]
        host.take(1, THREE + b"".join(route_record(i, request=k) for i, k in enumerate(kinds)))
        await settle()
        host.take(1, b"".join(event(records.ROUTED, i, 3) for i in range(4)))
        assert heard == [(k, "D-2") for k in kinds]
        host.router.go.set()
        await settle()
        host.take(1, event(records.ROUTED, 3, 1))  # it was told
        assert len(heard) == 4 and host._peers[1].routed == {} and host.router.num_pending_requests == 0

    run(Hooks, steps)


def test_a_request_that_is_asked_again_is_the_same(monkeypatch):
    """What the mixins have tried for it counts: the holder of its model first, then the others. As in Ray, where it waits in the
    router."""
    times = iter([100.0, 100.5, 103.0, 103.1])
    monkeypatch.setattr("anyserve.serve.request_router.time", types.SimpleNamespace(monotonic=lambda: next(times), time=time.time))

    class ByModel(MultiplexMixin, RequestRouter):
        async def choose_replicas(self, candidate_replicas, pending_request=None):
            chosen = self.apply_multiplex_routing(pending_request)
            return [[r for r in candidate_replicas if r.replica_id in chosen]]

    async def steps(host, server):
        host.take(1, replica_record(1, "app#D-0", models='["m"]') + replica_record(2, "app#D-1", models="[]"))
        for ident in 1, 2, 3, 4:
            host.take(1, route_record(ident, model="m", before=ident - 1))
            await settle()
        assert [[n for n, _ in server.choices[i][1]] for i in (1, 2, 3, 4)] == [[1], [1], [2], [1, 2]]
        assert list(host._peers[1].contexts) == [4]
        host.take(1, event(records.WITHDRAWN, 4))
        assert host._peers[1].contexts == {}

    run(ByModel, steps)


def test_what_is_kept_for_the_hook_is_bounded(monkeypatch):
    heard = []

    class Hooks(First):
        def on_request_routed(self, pending_request, replica_id, result):
            heard.append(pending_request.metadata.request_id)

    async def steps(host, server):
        monkeypatch.setattr("anyserve.serve._policy.router_host.ROUTED_BYTES", 2500)
        host.take(1, THREE + b"".join(route_record(i, bytes(1000), request=str(i)) for i in range(4)))
        await settle()
        assert list(host._peers[1].routed) == [2, 3] and host._peers[1].routed_bytes == 2000
        host.take(1, b"".join(event(records.ROUTED, i, 1) for i in range(4)))
        assert heard == ["2", "3"] and host._peers[1].routed_bytes == 0
        host.take(1, route_record(5, bytes(3000), request="large"))
        await settle()
        host.take(1, event(records.ROUTED, 5, 1))
        assert heard[-1] == "large"

    run(Hooks, steps)


def test_a_router_whose_own_call_was_cancelled_has_raised(capfd):
    class Cancels(RequestRouter):
        async def choose_replicas(self, candidate_replicas, pending_request=None):
            of_a_store = asyncio.get_running_loop().create_future()
            of_a_store.cancel()
            await of_a_store

    async def steps(host, server):
        host.take(1, THREE + route_record(1))
        await settle()
        assert server.choices == {1: (records.RAISED, [])} and host.router.num_pending_requests == 0

    run(Cancels, steps)
    assert "CancelledError" in capfd.readouterr().err


def test_a_withdrawn_question_is_cancelled():
    ended = []

    class Waits(RequestRouter):
        async def choose_replicas(self, candidate_replicas, pending_request=None):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

    async def steps(host, server):
        host.take(1, THREE + route_record(1))
        await settle()
        host.take(1, event(records.WITHDRAWN, 1) + event(records.WITHDRAWN, 2))
        await settle()
        assert ended == [True] and server.choices == {} and host.router.num_pending_requests == 0

    run(Waits, steps)


def test_long_arguments_are_fetched():
    seen = []
    call = _payload.pack(_payload.encode_call("__call__", ("x" * 200_000,), {}))

    class Reads(RequestRouter):
        async def choose_replicas(self, candidate_replicas, pending_request=None):
            with pytest.raises(ArgumentsIncomplete, match="load_arguments"):
                pending_request.args
            await pending_request.load_arguments()
            seen.append(len(pending_request.args[0]))
            return [[candidate_replicas[0]]]

    async def steps(host, server):
        host.take(1, THREE + route_record(1, call[:65536], len(call)) + route_record(2, call[:65536], len(call)))
        await settle()
        assert sorted(server.asked_more) == [1, 2]
        host.take(1, body_record(1, 65536, call[65536:100000]) + body_record(2, 0, b"", gone=True))
        await settle()
        assert not server.choices
        host.take(1, body_record(1, 100000, call[100000:]))
        await settle()
        assert server.choices == {1: (0, [(1, 0)])} and seen == [200_000]

    run(Reads, steps)


def test_read_bytes_are_told():
    async def steps(host, server):
        big = replica_record(1, "app#D-0", stats=json.dumps({"x": "y" * 200_000}))
        host.take(1, big)
        assert server.read == 0
        host.take(1, big)
        assert server.read == 2 * len(big)

    run(First, steps)


def test_too_many_questions_are_refused():
    class Waits(RequestRouter):
        async def choose_replicas(self, candidate_replicas, pending_request=None):
            await asyncio.Event().wait()

    async def steps(host, server):
        host.take(1, THREE + b"".join(route_record(i) for i in range(1, 257)))
        await settle()
        assert server.choices == {}
        host.take(1, route_record(257))
        assert server.choices == {257: (records.BUSY, [])}
        host.take(1, event(records.WITHDRAWN, 5) + route_record(258))
        await settle()
        assert list(server.choices) == [257]

    run(Waits, steps)


def test_a_second_link_and_the_end_of_the_first():
    async def steps(host, server):
        host.take(1, THREE)
        host.take(2, replica_record(10, "app#D-1") + route_record(1))
        await settle()
        assert sorted(r.unique_id for r in host.router.curr_replicas) == ["D-0", "D-1", "D-2"]
        # the replica that only the first link knows is no answer for the second
        assert server.choices == {1: (0, [(10, 1)])}
        server.ended.add(1)
        host.take(3, replica_record(20, "app#D-2") + route_record(2))
        await settle()
        assert sorted(r.unique_id for r in host.router.curr_replicas) == ["D-1", "D-2"]

    run(First, steps)


def test_no_router():
    with pytest.raises(TypeError, match="no class derived from RequestRouter"):
        RouterHost(dict, {}, D)

    class Plain(First):
        def initialize_state(self):
            pass

    with pytest.raises(TypeError, match="weight"):
        RouterHost(Plain, {"weight": 1}, D)


# --- the base classes ---


def made(router, *replicas):
    router.update_replicas(list(replicas))
    return router


def replica(name, **fields):
    return RunningReplica(ReplicaID(name, D), **fields)


def names(replicas):
    return sorted(r.unique_id if isinstance(r, ReplicaID) else r.replica_id.unique_id for r in replicas)


def test_available_replicas():
    r = made(RequestRouter(D), replica("a", max_ongoing_requests=2, num_ongoing_requests=2), replica("b"))
    assert names(r.select_available_replicas()) == ["b"]
    assert names(r.select_available_replicas([replica("c")])) == ["c"]
    assert r.replica_queue_len_cache.get(ReplicaID("a", D)) == 2
    r.replica_queue_len_cache.update(ReplicaID("a", D), 1)
    assert names(r.select_available_replicas()) == ["a", "b"] and r.replica_queue_len_cache.get(ReplicaID("z", D)) is None


def test_locality():
    class Router(LocalityMixin, RequestRouter):
        pass

    r = made(Router(D, self_node_id="n1", self_availability_zone="z1"), replica("a", node_id="n1"),
             replica("b", node_id="n2", availability_zone="z1"), replica("c", node_id="n3", availability_zone="z2"))
    assert [names(g) for g in r.rank_replicas_via_locality(list(r.curr_replicas.values()))] == [["a"], ["b"], ["c"]]
    asked = PendingRequest()
    assert names(r.apply_locality_routing(asked)) == ["a"]
    assert names(r.apply_locality_routing(asked)) == ["a", "b"]
    assert names(r.apply_locality_routing(asked)) == ["a", "b", "c"] and asked.routing_context.should_backoff
    assert names(r.apply_locality_routing()) == ["a"]


def test_multiplexing(monkeypatch):
    class Router(FIFOMixin, MultiplexMixin, LocalityMixin, RequestRouter):
        pass

    r = made(Router(D), replica("a", multiplexed_model_ids={"m", "x"}), replica("b", multiplexed_model_ids={"y"}),
             replica("c", multiplexed_model_ids={"x", "y"}))
    everything = list(r.curr_replicas.values())
    assert [names(g) for g in r.rank_replicas_via_multiplex(everything, "m")] == [["a"], ["b"], ["c"]]
    assert [names(g) for g in r.rank_replicas_via_multiplex(everything, "q")] == [[], ["b"], ["a", "c"]]
    assert names(r.apply_multiplex_routing()) == names(r.apply_multiplex_routing(PendingRequest())) == ["a", "b", "c"]
    holder = PendingRequest(metadata=RequestMetadata(multiplexed_model_id="m"))
    assert names(r.apply_multiplex_routing(holder)) == ["a"] and names(r.apply_multiplex_routing(holder)) == ["a"]
    holder.routing_context.multiplexed_timeout = 0.0  # it has waited
    assert names(r.apply_multiplex_routing(holder)) == ["b"]
    assert names(r.apply_multiplex_routing(holder)) == ["a", "b", "c"]
    nobody = PendingRequest(metadata=RequestMetadata(multiplexed_model_id="q"))
    assert names(r.apply_multiplex_routing(nobody)) == ["b"]

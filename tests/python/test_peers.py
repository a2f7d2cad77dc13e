"""What the programs of bench/peers compute: which requests are sent when, how answers are read, what figures come of them."""

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

PEERS = str(Path(__file__).resolve().parents[2] / "bench/peers")
sys.path.insert(0, PEERS)
try:
    import load
    import multiplex
    import replicas
    import report
    from peers import Failed
    from scenarios import BASE, HIGH, LOW, SCENARIOS, Scenario
finally:
    sys.path.remove(PEERS)


# --- requests ---

def test_zipf_is_the_same_for_a_seed_and_falls_as_one_over_the_rank():
    drawn = load.zipf(100, 100_000, 1.0, 7)
    assert drawn == load.zipf(100, 100_000, 1.0, 7) != load.zipf(100, 100_000, 1.0, 8)
    count = Counter(drawn)
    assert set(count) == set(range(100))
    assert count[0] / count[9] == pytest.approx(10, rel=0.15)
    assert len(Counter(load.zipf(10, 1000, 0.0, 1))) == 10  # exponent 0: all alike


def test_arrivals_follow_the_rate():
    assert load.arrivals(lambda t: 2, 2) == pytest.approx([0.25, 0.75, 1.25, 1.75], abs=0.002)
    assert load.arrivals(lambda t: 0, 5) == []
    step = load.arrivals(SCENARIOS["step"].rate, 20)
    assert sum(2 <= t < 10 for t in step) == pytest.approx(8 * HIGH, abs=1)
    assert sum(t < 2 or t >= 10 for t in step) == pytest.approx(12 * LOW, abs=1)


def test_a_request_is_http():
    assert load.request("/a", {"x": "1"}, b"abc") == (
        b"POST /a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\nContent-Length: 3\r\nx: 1\r\n\r\nabc")


# --- answers ---

SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
CHUNKED = b"HTTP/1.1 503 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\na;x=1\r\n0123456789\r\n0\r\n\r\n"


@pytest.mark.parametrize("data, found", [(SIZED, (200, b"abc")), (CHUNKED, (503, b"ab0123456789"))])
def test_answers_are_read_when_they_are_complete(data, found):
    for n in range(len(data)):
        assert load.parse(data[:n]) is None
    assert load.parse(data + b"HTTP/1.1 2") == (*found, len(data))


def test_an_answer_of_unknown_length_is_refused():
    with pytest.raises(load.Broken, match="length"):
        load.parse(b"HTTP/1.1 200 OK\r\n\r\n")


async def serving(answer, client):
    """client(port) beside a server that gives `answer(what it received)` back; None: it ends the connection."""
    async def serve(reader, writer):
        while data := await reader.read(65536):
            said = answer(data)
            if said is None:
                break
            writer.write(said)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        return await client(server.sockets[0].getsockname()[1])


def test_closed_loop_keeps_the_order_of_the_requests():
    bodies = [b"%03d" % n for n in range(100)]
    answers = asyncio.run(serving(lambda data: SIZED[:-3] + data[-3:],
                                  lambda port: load.closed_loop(port, [load.request(body=b) for b in bodies], 7)))
    assert [a.body for a in answers] == bodies and {a.status for a in answers} == {200}


def test_open_loop_counts_broken_connections():
    async def client(port):
        now = asyncio.get_running_loop().time()
        return await load.open_loop(port, load.request(), [now, now, now])
    answers = asyncio.run(serving(lambda data: None, client))
    assert [a.status for a in answers] == [0, 0, 0] and all(b"ended" in a.body for a in answers)


def test_loads_are_counted_by_replica_and_wrong_answers_refused():
    def answer(body):
        return load.Answer(0.0, 0.1, 200, body)
    right = [answer(b"model m1, 10, 1"), answer(b"model m1, 11, 4"), answer(b"model m2, 11, 3")]
    assert multiplex.loads_of(right, [1, 1, 2]) == {10: 1, 11: 4}
    with pytest.raises(Failed, match="m3"):
        multiplex.loads_of(right, [1, 1, 3])


# --- figures ---

def test_percentile():
    assert [load.percentile([5, 1, 4, 2, 3], p) for p in (0, 20, 21, 50, 99, 100)] == [1, 1, 2, 3, 5, 5]


def test_spread_and_columns():
    assert report.spread([3, 1, 2]) == "2.0 (1.0–3.0)" and report.spread([1000, 1000], 0) == "1,000"
    assert report.spread([None, 4]) == "4.0" and report.spread([None]) == "never"
    rows = [{"peer": "a", "n": 1}, {"peer": "b", "n": 5}, {"peer": "a", "n": 3}]
    assert report.columns(rows, [("peer", "server")], [("n", "how many", 0)]).splitlines() == [
        "| server | how many |", "|---|---|", "| a | 2 (1–3) |", "| b | 5 |"]


def test_figures_of_a_run():
    scenario = Scenario("x", "", up=(2,), down=10, seconds=20)
    counts = [(-0.1, 1), (2.5, 1), (3.5, 2), (5.0, 4), (8.0, 3), (12.0, 2), (14.0, 1), (20.0, 1)]
    answers = [(1.0, 0.9, 200), (4.0, 0.6, 200), (7.0, 0.3, 503), (9.0, 0.3, 200), (12.0, 0.9, 200)]
    found = replicas.figures(scenario, counts, answers)
    assert (found["requests"], found["failed"], found["slow"], found["most"], found["turns"]) == (5, 1, 3, 4, 1)
    assert (found["more_after"], found["normal_after"], found["fewest_after"]) == (1.5, 5.0, 4.0)
    assert found["replica_seconds"] == pytest.approx(3.6 + 1.5 * 2 + 3 * 4 + 4 * 3 + 2 * 2 + 6)
    flat = replicas.figures(scenario, [(0, 2), (20, 2)], answers)
    assert flat["more_after"] is None and flat["fewest_after"] is None and flat["turns"] == 0


def test_replicas_that_come_after_the_fall_are_no_fall():
    assert replicas.fewest_after([(0, 1), (12, 3), (15, 1), (20, 1)], 10, 1) == 5
    assert replicas.fewest_after([(0, 2), (3, 1), (20, 1)], 10, 1) == 0
    assert replicas.fewest_after([(0, 1), (12, 3)], 10, 1) is None


def test_waits_are_counted_from_each_rise():
    scenario = Scenario("x", "", up=(0, 10), down=15, seconds=20)
    answers = [(0.5, 2.0, 200), (3.0, 0.6, 200), (9.0, 0.3, 200), (11.0, 0.7, 200), (14.0, 0.6, 200), (16.0, 9.0, 200)]
    found = replicas.figures(scenario, [(0, 0), (20, 0)], answers)
    assert found["normal_after"] == 4.0 and found["first"] == 2000


def test_turns():
    assert replicas.turns([(t, n) for t, n in enumerate([1, 2, 2, 3, 1, 1, 2, 0])]) == 3


def test_each_parameter_of_ray_has_a_scenario():
    changed = {key for s in SCENARIOS.values() for key in s.config}
    assert changed == {*BASE, "initial_replicas", "upscaling_factor", "downscaling_factor", "downscale_to_zero_delay_s"}
    for s in SCENARIOS.values():
        config = s.autoscaling_config
        assert config["metrics_interval_s"] < config["look_back_period_s"]  # Ray asks for that
        assert config["min_replicas"] <= config.get("initial_replicas", config["min_replicas"]) <= config["max_replicas"]


def test_goals_are_bounds():
    step = SCENARIOS["step"]
    assert step.goals == {"normal_after": 2.5} and SCENARIOS["sine"].goals == {"turns": 4}
    assert replicas.missed(step, {"normal_after": 2.5}) == []
    assert replicas.missed(step, {"normal_after": 2.6}) == ["step: normal_after 2.6, wanted at most 2.5"]

"""`anyserve simulate`: what it prints for loads whose result is known, and what it refuses."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
import zlib

import pytest

from support import paths, wait
from support.process.commands import run

SPEC = {"applications": [
    {"name": "shop", "import_path": "shop:app", "deployments": [
        {"name": "model", "num_replicas": 2, "max_ongoing_requests": 1, "max_queued_requests": 3},
        {"name": "other"}]},
    {"name": "bank", "import_path": "bank:app", "deployments": [{"name": "other", "request_timeout_s": 0.05}]}]}
ENV = {**os.environ, "PYTHONPATH": str(paths.SDK)}


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "anyserve.yaml").write_text(json.dumps(SPEC))
    return tmp_path / "anyserve.yaml"


@pytest.fixture
def simulate(spec):
    def simulate(*args, code=0, **kwargs):
        return run("simulate", spec, *args, code=code, env=ENV, **kwargs)
    return simulate


@pytest.fixture
def result(simulate):
    def result(*args, deployment="model", **kwargs):
        return json.loads(simulate("--deployment", deployment, "--json", *args, **kwargs).stdout)
    return result


@pytest.fixture
def trace(tmp_path):
    def trace(text, name="trace.csv"):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path / name
    return trace


# --- known results ---

def test_a_trace_by_hand(result, trace):
    """Two slots and 10 ms each: pairs at 0 and 4 ms; the second pair waits for 6 ms."""
    found = result("--trace", trace("arrival_s,service_ms\n0,10\n0,10\n0.004,10\n0.004,10\n"))
    assert (found["requests"], found["answered"], found["failed"]) == (4, 4, 0)
    assert found["queue"]["mean_ms"] == 3 and found["queue"]["max_ms"] == 6
    assert found["service"]["mean_ms"] == 10 and found["total"]["mean_ms"] == 13
    assert found["seconds"] == 0.02 and found["answered_per_s"] == 200 and found["utilisation"] == 1
    assert found["deployment"] == "shop/model" and found["num_replicas"] == 2
    assert sum(row["answered_per_s"] for row in found["over_time"]) * found["interval_s"] == pytest.approx(4)


def test_limits_of_the_file(result, trace):
    """Two execute, three wait, the sixth is refused."""
    found = result("--trace", trace("arrival_s,service_ms\n" + "0,10\n" * 6))
    assert found["answered"] == 5 and found["errors"] == {"queue is full": 1}
    found = result("--trace", trace("arrival_s,service_ms\n" + "0,10\n" * 6), "--max-queued-requests", 1)
    assert found["errors"] == {"queue is full": 3}
    found = result("--trace", trace("arrival_s,service_ms\n" + "0,100\n" * 2), deployment="bank/other")
    assert found["errors"] == {"deadline exceeded": 2} and found["max_ongoing_requests"] == 1


def test_options_replace_the_file(result, trace):
    found = result("--trace", trace("arrival_s,service_ms\n" + "0,10\n" * 6), "--replicas", 1, "--max-ongoing-requests", 6)
    assert found["answered"] == 6 and found["queue"]["max_ms"] == 0 and found["total"]["max_ms"] == 10
    batched = result("--trace", trace("arrival_s,service_ms\n0,10\n" + "0.001,10\n" * 3), "--replicas", 1,
                     "--batch-size", 3, "--batch-cost", 50)
    assert (batched["batches"], batched["batched_requests"]) == (1, 3) and batched["seconds"] == 0.03


def test_m_d_1(result):
    """Poisson arrivals, one slot of 10 ms, 80 % of the time in use: the mean wait is 20 ms."""
    found = result("--arrivals", "poisson:80", "--service", "constant:10ms", "--requests", 400000, "--replicas", 1,
                   "--max-queued-requests", -1)
    assert found["answered"] == 400000
    assert found["queue"]["mean_ms"] == pytest.approx(20, rel=0.05) and found["utilisation"] == pytest.approx(0.8, rel=0.01)


def test_equal_seeds_give_equal_results(simulate):
    args = ("--deployment", "model", "--arrivals", "sine:10:300:5s", "--service", "lognormal:10ms:2", "--duration", "20s")
    first, again, other = (simulate(*args, "--seed", seed).stdout for seed in (1, 1, 2))
    assert first == again and first != other
    assert "shop/model: 2 replicas × 1 at once" in first and "milliseconds" in first and "queue is full" in first


def test_the_load_ends(result):
    args = ("--service", "constant:1ms")
    assert result("--arrivals", "constant:10", *args)["requests"] == 600
    assert result("--arrivals", "constant:10", "--duration", "2s", *args)["requests"] == 20
    assert result("--arrivals", "constant:10", "--requests", 7, *args)["requests"] == 7
    steps = result("--arrivals", "steps:100@1s,0@100s,100@1s", *args)
    assert 101 < steps["seconds"] < 103 and 100 < steps["requests"] < 300


def test_rows_of_other_deployments(result, simulate, trace):
    rows = "arrival_s,service_ms,deployment\n0,10,shop/model\n0,10,model\n0,10,other\n0,10,\n0,10,bank/other\n"
    found = result("--trace", trace(rows))
    assert found["requests"] == 3 and found["other_rows"] == 2
    said = simulate("--deployment", "model", "--trace", trace(rows + "1,10,shop/none\n"), code=78)
    assert "trace.csv:7: deployment: the deployment file has no 'shop/none'" in said.stderr


def test_other_kinds_of_traces(result, trace):
    lines = '{"arrival_s": 0, "service_ms": 10}\n{"arrival_s": 0.001, "service_ms": 10, "priority": 1}\n'
    found = result("--trace", trace(lines))
    assert found["total"]["max_ms"] == 10 and list(found["by_priority"]) == ["1", "2"]
    mooncake = '{"timestamp": 5000, "input_length": 10, "output_length": 5, "hash_ids": [1, 2]}\n' * 2
    found = result("--trace", trace(mooncake), "--service", "constant:20ms")
    assert found["requests"] == 2 and found["seconds"] == 0.02


def test_a_trace_from_stdin(spec):
    done = subprocess.run([paths.BINARY, "simulate", spec, "--deployment", "model", "--trace", "-", "--json"],
                          input=b"arrival_s,service_ms\n0,10", stdout=subprocess.PIPE, timeout=wait.SECONDS, check=True)
    assert json.loads(done.stdout)["requests"] == 1
    text = json.dumps(SPEC).encode()
    done = subprocess.run([paths.BINARY, "simulate", "-", "--deployment", "model", "--trace", "-"], input=text,
                          stderr=subprocess.PIPE, timeout=wait.SECONDS, check=False)
    assert done.returncode == 2 and b"cannot both be stdin" in done.stderr


def test_replicas_follow_the_load(tmp_path, trace):
    """A request for a deployment at zero waits for --start-up; 20 per second of 50 ms need one replica, 200 need several."""
    scaled = {"name": "model", "num_replicas": "auto", "max_ongoing_requests": 5, "autoscaling_config": {
        "min_replicas": 0, "max_replicas": 20, "upscale_delay_s": 0, "downscale_delay_s": 5}}
    (tmp_path / "scaled.yaml").write_text(json.dumps({"applications": [
        {"name": "shop", "import_path": "shop:app", "deployments": [scaled]}]}))

    def simulate(*args):
        return json.loads(run("simulate", tmp_path / "scaled.yaml", "--json", *args, code=0, env=ENV).stdout)
    found = simulate("--trace", trace("arrival_s,service_ms\n0,10\n"), "--start-up", "3s")
    assert found["total"]["max_ms"] == 3010 and found["replicas_started"] == 1
    assert (found["num_replicas"], found["min_replicas"], found["max_replicas"]) == (0, 0, 20)
    found = simulate("--arrivals", "steps:20@30s,200@30s,0@30s", "--service", "constant:50ms")
    at = {row["from_s"]: row["replicas"] for row in found["over_time"]}
    assert found["decisions"] and all(d["why"] and d["from"] != d["to"] for d in found["decisions"])
    assert found["failed"] == 0 and 1 <= at[25] <= 3 < at[50] <= 20 and at[80] == 0, at
    fixed = simulate("--arrivals", "poisson:20", "--service", "constant:50ms", "--replicas", 3)
    assert fixed["replicas_started"] == 0 and "max_replicas" not in fixed and fixed["num_replicas"] == 3


@pytest.mark.parametrize("capacity, replicas, most", [(None, 3, 8), (50, 2, 4), (0, 0, 0)])
def test_a_part_of_the_replicas(tmp_path, trace, capacity, replicas, most):
    deployments = [{"name": "fixed", "num_replicas": 3}, {"name": "scaled", "autoscaling_config": {"min_replicas": 1, "max_replicas": 8}}]
    file = {"applications": [{"name": "shop", "import_path": "shop:app", "deployments": deployments}], "target_capacity": capacity}
    (tmp_path / "part.yaml").write_text(json.dumps(file))

    def simulate(name):
        return json.loads(run("simulate", tmp_path / "part.yaml", "--deployment", name, "--json", "--trace",
                              trace("arrival_s,service_ms\n0,10\n"), code=0, env=ENV).stdout)  # fmt: skip
    assert simulate("fixed")["num_replicas"] == replicas
    assert simulate("scaled")["max_replicas"] == most


def test_multiplexed_models(result, trace):
    """Each of two models is loaded once, by a replica of its own."""
    rows = "".join(f"{2 * i},10,{'ab'[i % 2]}\n" for i in range(20))
    found = result("--trace", trace("arrival_s,service_ms,model_id\n" + rows), "--models-per-replica", 1, "--model-load", "1s")
    assert (found["model_loads"], found["model_hits"]) == (2, 18) and found["total"]["max_ms"] == 1010


def test_routers(result):
    for router in ("late_binding", "least_ongoing", "pow_2", "round_robin", "consistent_hash", "session"):
        found = result("--arrivals", "poisson:100", "--service", "exponential:10ms", "--router", router)
        assert found["router"] == router and found["answered"] > 1000


def test_order_and_protection_of_the_file(tmp_path, trace):
    def simulate(keys, rows):
        (tmp_path / "order.yaml").write_text(json.dumps({"applications": [{"name": "shop", "import_path": "shop:app", "deployments": [
            {"name": "model", "max_queued_requests": -1, **keys}]}]}))
        return json.loads(run("simulate", tmp_path / "order.yaml", "--json", "--trace", trace(rows), code=0, env=ENV).stdout)
    tenants = "arrival_s,service_ms,tenant\n" + "0,10,a\n" * 4 + "0.001,10,b\n"
    assert simulate({}, tenants)["total"]["max_ms"] == 49
    assert simulate({"fairness": "tenant"}, tenants)["total"]["max_ms"] == 50
    overload = "arrival_s,service_ms\n" + "".join(f"{0.008 * i:.3f},10\n" for i in range(1000))
    assert simulate({}, overload)["failed"] == 0
    assert simulate({"codel_target_s": 0.005}, overload)["errors"]["queue is full"] > 50
    tail = "arrival_s,service_ms\n" + "".join(f"{0.02 * i:.2f},{1000 if i == 999 else 10}\n" for i in range(1000))
    assert simulate({"num_replicas": 2}, tail)["total"]["max_ms"] == 1000
    found = simulate({"num_replicas": 2, "hedge_quantile": 0.95}, tail)
    assert (found["hedges"], found["hedges_won"]) == (1, 1) and found["total"]["max_ms"] < 30
    mixed = "arrival_s,service_ms,priority\n0,10,\n" + "0,10,1\n" * 20 + "0,10,3\n"
    last = simulate({"priority_share": 1000}, mixed)["by_priority"]["3"]["max_ms"]
    assert simulate({"priority_share": 2}, mixed)["by_priority"]["3"]["max_ms"] < last == 220


def test_the_router_of_the_file(tmp_path):
    load = ("--arrivals", "poisson:10", "--service", "constant:10ms", "--json")

    def write(router):
        (tmp_path / "routed.yaml").write_text(json.dumps({"applications": [{"name": "shop", "import_path": "shop:app", "deployments": [
            {"name": "model", "request_router_config": router}]}]}))
    for router, name in (({"request_router_class": "pow_2"}, "pow_2"), ({}, "late_binding"),
                         ({"request_router_class": "round_robin", "request_router_kwargs": {}}, "round_robin")):
        write(router)
        assert json.loads(run("simulate", tmp_path / "routed.yaml", *load, code=0, env=ENV).stdout)["router"] == name
    write({"request_router_class": "ray.serve._private.request_router:PowerOfTwoChoicesRequestRouter"})  # as if none was named
    assert json.loads(run("simulate", tmp_path / "routed.yaml", *load, code=0, env=ENV).stdout)["router"] == "late_binding"
    write({"request_router_class": "ray.serve._private.request_router:RoundRobinRouter"})
    assert "RoundRobinRouter' is no built-in router" in run("simulate", tmp_path / "routed.yaml", *load, code=78, env=ENV).stderr
    write({"request_router_class": "shop:Router"})
    said = run("simulate", tmp_path / "routed.yaml", *load, code=78, env=ENV).stderr
    assert "request_router_class of 'shop/model' is code, which is not simulated; --router" in said
    done = run("simulate", tmp_path / "routed.yaml", *load, "--router", "session", code=0, env=ENV)
    assert json.loads(done.stdout)["router"] == "session"


def test_arguments_of_the_router_count(tmp_path, trace):
    """Two requests of a session come together: the second one waits for the replica of the first, or takes the other one."""
    load = trace("arrival_s,service_ms,session_id\n0,1,a\n1,100,a\n1.001,100,a\n")

    def longest(**kwargs):
        (tmp_path / "routed.yaml").write_text(json.dumps({"applications": [{"name": "shop", "import_path": "shop:app", "deployments": [
            {"name": "model", "num_replicas": 2, "max_ongoing_requests": 1,
             "request_router_config": {"request_router_class": "session", "request_router_kwargs": kwargs}}]}]}))
        return json.loads(run("simulate", tmp_path / "routed.yaml", "--trace", load, "--json", code=0, env=ENV).stdout)["queue"]["max_ms"]
    assert longest() == 99 and longest(max_wait_s=0) == 0
    assert longest(session_ttl_s=0.5) == 99  # the second one began the session anew
    assert longest(session_ttl_s=0.001) == 0


def test_a_policy_that_is_code_is_named(tmp_path):
    (tmp_path / "scaled.yaml").write_text(json.dumps({"applications": [{"name": "shop", "import_path": "shop:app", "deployments": [
        {"name": "model", "autoscaling_config": {"max_replicas": 2, "policy": {"policy_function": "shop:policy"}}}]}]}))
    done = run("simulate", tmp_path / "scaled.yaml", "--arrivals", "poisson:10", "--service", "constant:10ms", code=0, env=ENV)
    assert "the autoscaling policy is code, which is not simulated; target_ongoing_requests decides" in done.stderr


def test_times_beyond_what_can_be_counted_end_the_load(result):
    """A request each 11.6 days: those after 146 years do not come."""
    found = result("--arrivals", "constant:0.000001", "--service", "constant:10ms", "--requests", 100000)
    assert found["requests"] == found["answered"] == 4612


# --- figures ---

def test_svg(simulate, tmp_path):
    args = ("--deployment", "model", "--arrivals", "poisson:150", "--service", "exponential:10ms", "--duration", "5s",
            "--python", sys.executable)
    simulate(*args, "--plot", tmp_path / "a.svg")
    simulate(*args, "--plot", tmp_path / "b.svg")
    root = ET.fromstring((tmp_path / "a.svg").read_text())
    assert root.tag.endswith("}svg") and len(list(root.iter())) > 100
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a.svg", "anyserve.yaml", "b.svg"]


def png_chunks(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at = 8
    while at < len(data):
        n = int.from_bytes(data[at:at + 4], "big")
        kind, body = data[at + 4:at + 8], data[at + 8:at + 8 + n]
        assert zlib.crc32(kind + body) == int.from_bytes(data[at + 8 + n:at + 12 + n], "big")
        yield kind
        at += 12 + n


def test_png(simulate, tmp_path):
    simulate("--deployment", "model", "--arrivals", "poisson:150", "--service", "exponential:10ms", "--duration", "5s",
             "--python", sys.executable, "--plot", tmp_path / "a.PNG")
    chunks = list(png_chunks((tmp_path / "a.PNG").read_bytes()))
    assert chunks[0] == b"IHDR" and b"IDAT" in chunks and chunks[-1] == b"IEND"


def test_a_figure_that_cannot_be_drawn(simulate, tmp_path):
    load = ("--deployment", "model", "--arrivals", "poisson:1", "--service", "constant:1ms")
    said = simulate(*load, "--plot", tmp_path / "a.pdf", code=2)
    assert "ends neither in .svg nor in .png" in said.stderr
    (tmp_path / "matplotlib.py").write_text("raise ImportError('broken here')")
    done = run("simulate", tmp_path / "anyserve.yaml", *load, "--python", sys.executable, "--plot", tmp_path / "a.svg", code=69,
               env={**ENV, "PYTHONPATH": str(tmp_path)})
    assert "broken here" in done.stderr and "-m pip install matplotlib" in done.stderr and not done.stdout
    said = simulate(*load, "--python", tmp_path / "none", "--plot", tmp_path / "a.svg", code=69)
    assert "cannot run the interpreter" in said.stderr
    said = simulate(*load, "--python", sys.executable, "--plot", tmp_path / "none" / "a.svg", code=1)
    assert "none/a.svg: No such file or directory" in said.stderr
    assert sorted(p for p in os.listdir(tmp_path) if not p.startswith("__")) == ["anyserve.yaml", "matplotlib.py"]


# --- what is refused ---

@pytest.mark.parametrize("text, code, said", [
    (b"", 78, "it has no requests"),
    (b"arrival_s,service_ms\n", 78, "it has no requests"),
    (b"arrival_s,service_ms\n0,10\nx,10\n", 78, "trace.csv:3:1: arrival_s: 'x' is not a number"),
    (b"arrival_s,service_ms\n0,nan\n", 78, "trace.csv:2:3: service_ms: 'nan' is not a number"),
    (b"arrival_s,service_ms\n0,-1\n", 78, "trace.csv:2:3: service_ms: '-1' is not a number"),
    (b"arrival_s,service_ms\n1,1\n0,1\n", 78, "trace.csv:3: it arrives before the request of the row before"),
    (b"arrival_s\n0\n", 78, "trace.csv:2: service_ms is missing, and --service is not given"),
    (b"\x00\xff\xfe garbage", 78, "is not a column of a trace"),
    (b"arrival_s,service_ms\n0,1" + b"0" * 100 + b"\n", 78, "is above the maximum"),
    (b"{\"arrival_s\": 0, \"service_ms\": 1}\n{\"arrival_s\": ", 78, "trace.csv:2: not JSON at byte"),
], ids=range(10))
def test_wrong_traces(simulate, trace, text, code, said):
    done = simulate("--deployment", "model", "--trace", trace(text), code=code)
    assert said in done.stderr and len(done.stderr.splitlines()) == 1 and not done.stdout


@pytest.mark.parametrize("args, code, said", [
    ((), 2, "--deployment says which one of"),
    (("--deployment", "other"), 2, "--deployment says which one of"),
    (("--deployment", "none"), 2, "has no deployment 'none': it has shop/model, shop/other, bank/other"),
    (("--deployment", "model"), 2, "one of --trace and --arrivals must be given"),
    (("--deployment", "model", "--arrivals", "poisson:1"), 2, "--arrivals needs --service"),
    (("--deployment", "model", "--arrivals", "poisson:x", "--service", "constant:1ms"), 2, "--arrivals: 'x' is not a rate"),
    (("--deployment", "model", "--arrivals", "poisson:1", "--service", "normal:1ms"), 2, "--service: 'normal:1ms' is none of"),
    (("--deployment", "model", "--arrivals", "poisson:1", "--trace", "t.csv"), 2, "one of --trace and --arrivals"),
    (("--deployment", "model", "--trace", "/none/t.csv"), 66, "/none/t.csv: No such file"),
    (("--deployment", "model", "--trace", "/"), 1, "/: Is a directory"),
    (("--replicas", "1025"), 2, "1024"), (("--batch-size", "65536"), 2, "65535"), (("--rows", "0"), 2, "--rows"),
    (("--max-ongoing-requests", "65536"), 2, "65535"), (("--batch-cost", "101"), 2, "100"), (("--max-open-requests", "0"), 2, "1"),
    (("--models-per-replica", "1025"), 2, "1024"), (("--model-load", "86401s"), 2, "24h"), (("--start-up", "86401s"), 2, "24h"),
    (("--link-latency", "61s"), 2, "maximum 1m"), (("--batch-wait", "61s"), 2, "maximum 1m"),
])
def test_wrong_arguments(simulate, args, code, said):
    done = simulate(*args, code=code)
    assert said in done.stderr and not done.stdout


def test_wrong_files(tmp_path, trace):
    for name, text, code, said in [
            ("none.yaml", None, 66, "none.yaml does not exist"), ("bad.yaml", "applications: 1\n", 78, "bad.yaml:1"),
            ("code.yaml", "applications:\n- import_path: a:app\n", 78, "lists no deployment; `anyserve build` writes"),
            ("app.py", "app = 1\n", 2, "`simulate` takes a deployment file")]:
        if text is not None:
            (tmp_path / name).write_text(text)
        done = run("simulate", tmp_path / name, "--trace", trace("arrival_s,service_ms\n0,1\n"), code=code, env=ENV)
        assert said in done.stderr and not done.stdout


@pytest.mark.parametrize("option, most", [("--replicas", "1024"), ("--max-ongoing-requests", "65535"), ("--batch-size", "65535"),
                                          ("--batch-cost", "100"), ("--max-open-requests", "1"), ("--rows", "1000"),
                                          ("--models-per-replica", "1024"), ("--model-load", "24h"), ("--start-up", "24h"),
                                          ("--link-latency", "60s"), ("--batch-wait", "60s")])
def test_bounds_are_accepted(result, option, most):
    found = result("--arrivals", "constant:1", "--service", "constant:1ms", "--requests", 1, option, most)
    assert found["requests"] == 1


def test_the_longest_line(simulate, result, trace):
    row = "0,1," + "t" * ((1 << 20) - 4)
    for end in ("", "\n", "\n1,1,\n"):
        assert result("--trace", trace("arrival_s,service_ms,tenant\n" + row + end))["failed"] == 0
        said = simulate("--deployment", "model", "--trace", trace("arrival_s,service_ms,tenant\n" + row + "t" + end), code=78).stderr
        assert "trace.csv:2: the line has more than 1048576 bytes" in said


def test_a_long_trace_needs_little_memory(spec):
    """Rows are read as they are needed, and requests that have ended are forgotten."""
    code = ("import resource, subprocess, sys\n"
            "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
            "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    with subprocess.Popen([sys.executable, "-c", code, paths.BINARY, "simulate", spec, "--deployment", "model", "--trace", "-"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"arrival_s,service_ms\n")
        for second in range(400):
            process.stdin.write(b"".join(b"%d.%03d,1\n" % (second, k) for k in range(1000)))
        process.stdin.close()
        returned, kilobytes = process.stdout.read().split()
    assert int(returned) == 0
    assert paths.SANITIZERS or int(kilobytes) < 32 << 10

"""Programs of the command line: fetchers, load generators, and what checks /metrics."""

import json
import re

import pytest

from conftest import ADD, SUM

ANY = pytest.mark.install
CURL = {"1.0": ["--http1.0"], "1.1": ["--http1.1"], "upgrade": ["--http2"], "2": ["--http2-prior-knowledge"]}


def of_add(text):
    return json.loads(text)["outputs"][0]["data"]


@pytest.mark.parametrize("version", CURL)
def test_curl(run, base, version):
    how = ["curl", "-sS", "--fail-with-body", *CURL[version]]
    assert of_add(run(*how, f"{base}/v2/models/add/infer", "-d", ADD)) == SUM
    assert run(*how, "-I", f"{base}/v2/health/ready").startswith(f"HTTP/{'2' if version == '2' else '1.1'} 200")
    parts = run(*how, "-N", f"{base}/v2/models/count/generate_stream", "-d", '{"n": 3}')
    assert [json.loads(p)["i"] for p in re.findall(r"^data: (.*)$", parts, re.M)] == [0, 1, 2]


def test_curl_expects_and_chunks(run, base, tmp_path):
    """Bodies over 1 MiB: curl asks first (Expect: 100-continue); one that it reads from a pipe goes in chunks."""
    body = json.dumps({"inputs": [{"name": "x", "datatype": "INT32", "shape": [300000], "data": list(range(300000))}]})
    (tmp_path / "body").write_text(body)
    for source in "body", "-":
        out = run("curl", "-sS", "--fail-with-body", f"{base}/v2/models/echo/infer", "-T", source, "-X", "POST", stdin=body)
        assert of_add(out) == list(range(300000))


@ANY
def test_wget(run, base):
    out = run("wget", "-q", "-O", "-", f"--post-data={ADD}", f"{base}/v2/models/add/infer")
    assert of_add(out) == SUM


@ANY
def test_httpie(run, base):
    out = run("http", "--ignore-stdin", "--check-status", "--body", "POST", f"{base}/v2/models/add/infer",
              *[f"{k}:={json.dumps(v)}" for k, v in json.loads(ADD).items()])
    assert of_add(out) == SUM


@ANY
@pytest.mark.parametrize("keep", [[], ["-k"]], ids=["closed", "kept"])
def test_ab(run, base, tmp_path, keep):
    """ApacheBench speaks HTTP/1.0, of which every connection is closed, whatever -k asks for (docs/protocol/http.md)."""
    (tmp_path / "body").write_text(ADD)
    out = run("ab", "-q", "-n", "200", "-c", "8", "-p", "body", "-T", "application/json", *keep,
              f"{base}/v2/models/add/infer")
    assert re.search(r"Complete requests:\s+200$", out, re.M) and re.search(r"Failed requests:\s+0$", out, re.M), out
    assert "Non-2xx" not in out


@ANY
def test_hey(run, base):
    out = run("hey", "-n", "200", "-c", "8", "-m", "POST", "-d", ADD, f"{base}/v2/models/add/infer")
    assert re.search(r"\[200\]\s+200 responses", out) and "Error" not in out, out


@ANY
def test_siege(run, base):
    out = run("siege", "-b", "-c", "8", "-r", "25", f"{base}/v2/models/add/infer POST {ADD}")
    found = json.loads(out[out.index("{", out.index("done.") if "done." in out else 0):])
    assert found["transactions"] == 200 and found["failed_transactions"] == 0, out


@ANY
def test_wrk(run, base, tmp_path):
    (tmp_path / "post.lua").write_text(f"wrk.method = 'POST'\nwrk.body = [[{ADD}]]\n")
    out = run("wrk", "-t", "1", "-c", "8", "-d", "1s", "-s", "post.lua", f"{base}/v2/models/add/infer")
    assert re.search(r"^\s+[1-9]\d* requests in", out, re.M), out
    assert "Non-2xx" not in out and "Socket errors" not in out, out


@pytest.mark.parametrize("version", ["--h1", "--npn-list=h2c"])
def test_h2load(run, base, tmp_path, version):
    (tmp_path / "body").write_text(ADD)
    out = run("h2load", "-n", "400", "-c", "4", "-m", "8", "-d", "body", version, f"{base}/v2/models/add/infer")
    assert "400 succeeded, 0 failed, 0 errored" in out and "400 2xx" in out, out


@ANY
def test_promtool(run, server, base):
    """Prometheus' own checker, which knows its naming rules, too."""
    run("curl", "-sS", "--fail-with-body", f"{base}/v2/models/add/infer", "-d", ADD)
    run("promtool", "check", "metrics", stdin=server.metrics())

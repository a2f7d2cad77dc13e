"""perf_analyzer, Triton's load generator, on its C++ clients."""

import re

import pytest

from conftest import INSTALLED
from support.process.server import Server

PROGRAM = INSTALLED / "perf_analyzer/perf_analyzer"
pytestmark = pytest.mark.install


@pytest.fixture(scope="module")
def server():
    """With clients' shared memory, and more statistics of requests than the others need."""
    from conftest import HERE
    s = Server(HERE / "app.py", "--allow-client-shm")
    yield s
    try:
        s.settle()
        s.stop()
    finally:
        s.kill()


@pytest.mark.parametrize("options", [["-i", "http"], ["-i", "grpc"], ["-i", "grpc", "--async"], ["-i", "http", "--async"],
                                     ["-i", "grpc", "--streaming"], ["-i", "http", "--shared-memory", "system"],
                                     ["-i", "grpc", "--shared-memory", "system"]], ids=" ".join)
def test_perf_analyzer(run, server, options):
    assert PROGRAM.exists(), "perf_analyzer is not installed: tests/compat/install.py"
    out = run("env", f"LD_LIBRARY_PATH={PROGRAM.parent}", PROGRAM, "-m", "add", "-u", server.address, *options,
              "--shape", "a:64", "--shape", "b:64", "--concurrency-range", "4", "--measurement-mode", "count_windows",
              "--measurement-request-count", "200", "--stability-percentage", "999")
    throughput = re.search(r"Client:.*?Throughput: ([\d.]+) infer/sec", out, re.S)
    assert throughput and float(throughput[1]) > 0, out

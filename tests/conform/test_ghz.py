"""ghz, a load generator of grpc-go's: every answer is OK."""

import base64
import json
import struct

import pytest

from support import paths


def load(tools, server, n, *args):
    raw = base64.b64encode(struct.pack("<16f", *range(16))).decode()
    request = {"model_name": "echo", "inputs": [{"name": "x", "datatype": "FP32", "shape": [16]}],
               "raw_input_contents": [raw]}
    done = tools.run("ghz", "--insecure", "--proto", paths.PROTO, "--call", "inference.GRPCInferenceService.ModelInfer",
                     "-d", json.dumps(request), "-n", n, "-O", "json", *args, server.address)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["count"] >= n  # ghz lets its workers make a few more now and then
    assert report["statusCodeDistribution"] == {"OK": report["count"]}, report["errorDistribution"]
    assert not report["errorDistribution"]
    return report


def test_one_connection(server, tools):
    load(tools, server, 4000, "-c", 16)


def test_many_connections(server, tools):
    load(tools, server, 4000, "-c", 40, "--connections", 20)


@pytest.mark.long
def test_many_calls_at_once(server, tools):
    load(tools, server, 100000, "-c", 200, "--connections", 8)

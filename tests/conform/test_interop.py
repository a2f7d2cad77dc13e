"""gRPC's interoperability client (grpc-go) against grpc.testing.TestService on AnyServe's wire layer.

The service (service/) uses the same io, wire/h2/h2 and wire/grpc/grpc as the server; its answers are those that the cases ask
for. Cases about credentials, TLS and ORCA load reports are not run: the service has none of them.
"""

import re

import pytest

from slicer import Slicer

UNARY = ["empty_unary", "large_unary", "status_code_and_message", "special_status_message", "custom_metadata",
         "unimplemented_method", "unimplemented_service", "pick_first_unary"]
STREAMING = ["client_streaming", "server_streaming", "ping_pong", "empty_stream", "cancel_after_begin",
             "cancel_after_first_response", "timeout_on_sleeping_server"]
SOAK = ["rpc_soak", "channel_soak"]


def interop(tools, address, case, *args):
    host, port = address
    done = tools.run("client", f"-server_host={host}", f"-server_port={port}", f"-test_case={case}", *args)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


@pytest.mark.parametrize("case", UNARY + STREAMING)
def test_case(service, tools, case):
    interop(tools, service, case)


@pytest.mark.parametrize("case", SOAK)
def test_soak(service, tools, case):
    """large_unary over and over, on one channel or on a new one each time."""
    out = interop(tools, service, case, "-soak_iterations=100", "-soak_overall_timeout_seconds=60")
    assert "ran: 100 / 100 iterations. total failures: 0." in out, out


@pytest.mark.parametrize("case", UNARY + STREAMING)
def test_case_in_slices(service, tools, case):
    """Byte by byte, and large_unary, which is 586 KB, in slices of 11."""
    with Slicer(service, 11 if case == "large_unary" else 1) as slicer:
        interop(tools, ("127.0.0.1", slicer.port), case)


def test_a_service_that_fails_is_noticed(service, tools):
    """The client's exit code tells: this server has no such case's answer."""
    done = tools.run("client", "-server_host=127.0.0.1", f"-server_port={service[1]}", "-test_case=orca_per_rpc")
    assert done.returncode != 0


def concurrent(tools, service, calls):
    done = tools.run("large_unary", "-address", "{}:{}".format(*service), "-calls", calls)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.match(rf"calls={calls} failed=0 ", done.stdout), done.stdout


def test_1000_concurrent_large_unary(service, tools):
    concurrent(tools, service, 1000)


@pytest.mark.long
def test_3000_concurrent_large_unary(service, tools):
    """Above the limit of streams: what is over it waits in the client."""
    concurrent(tools, service, 3000)

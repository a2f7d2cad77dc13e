"""`routing(replicas, router=…, **options)`: a server whose deployment Models has these options."""

import sys
from pathlib import Path

import pytest
from routing_world import Routing
from support import deployments

PROTO = Path(__file__).parent.parent / "user_grpc"


@pytest.fixture(scope="session")
def protos(tmp_path_factory):
    from grpc_tools import protoc

    folder = tmp_path_factory.mktemp("protos")
    assert protoc.main(["protoc", f"--proto_path={PROTO}", f"--python_out={folder}", f"--grpc_python_out={folder}",
                        str(PROTO / "greeter.proto")]) == 0  # fmt: skip
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def routing(serve, tmp_path, protos):
    def start(replicas=3, *, router=None, server_options=(), **options):
        r = Routing(serve(None, "--state-dir", tmp_path / "state", *deployments.QUICK, *server_options, verb="start"), tmp_path, protos)
        if router:
            name, kwargs = router if isinstance(router, tuple) else (router, {})
            options["request_router_config"] = {"request_router_class": name, "request_router_kwargs": kwargs}
        r.deploy(replicas, **options)
        r.server.wait_all_ready()
        r.server.forget_fds()
        r.server.note_fds()
        return r
    return start

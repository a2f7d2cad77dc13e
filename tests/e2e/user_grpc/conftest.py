"""`grpc_server`: this process's server with two applications that serve userdefined.Greeter; the protos are compiled here."""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from greeter_names import ADD
from support import paths, ports

HERE = Path(__file__).parent


def compile_protos(folder):
    from grpc_tools import protoc

    assert protoc.main(["protoc", f"--proto_path={HERE}", f"--python_out={folder}", f"--grpc_python_out={folder}",
                        str(HERE / "greeter.proto")]) == 0  # fmt: skip


@pytest.fixture(scope="package")
def protos():
    """The compiled protos, importable here and in replicas."""
    folder = tempfile.mkdtemp(prefix="as-protos-", dir="/tmp")
    compile_protos(folder)
    sys.path[:0] = [folder, str(HERE), str(paths.SDK)]
    yield folder
    for path in (folder, str(HERE), str(paths.SDK)):
        sys.path.remove(path)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def grpc_server(protos):
    import grpc
    import greeter_pb2 as pb
    import greeter_pb2_grpc as stubs

    folder = tempfile.mkdtemp(prefix="as-", dir="/tmp")
    port = ports.free()
    given = {"ANYSERVE_PORT": str(port), "ANYSERVE_RUNTIME_DIR": os.path.join(folder, "run"),
             "ANYSERVE_STATE_DIR": os.path.join(folder, "state"),
             "PYTHONPATH": os.pathsep.join([str(paths.SDK), protos, str(HERE)])}  # fmt: skip
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    from anyserve import serve
    from anyserve.serve._driver.current import driver

    import greeter_app

    serve.start(grpc_options={"grpc_servicer_functions": [ADD]})
    serve.run_many([serve.RunTarget(greeter_app.app, name="first", route_prefix=None),
                    serve.RunTarget(greeter_app.other, name="second", route_prefix=None)])  # fmt: skip
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield SimpleNamespace(serve=serve, port=port, channel=channel, pb=pb, grpc=grpc, stubs=stubs,
                              greeter=stubs.GreeterStub(channel))  # fmt: skip
    serve.shutdown()
    driver.grpc_servicer_functions = []  # the next file's applications have none
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    shutil.rmtree(folder, ignore_errors=True)

"""`api`: anyserve.serve with a server of its own for the tests of a file, which this process, its driver, starts."""

import os
import shutil
import sys
import tempfile

import pytest
from support import paths, ports


@pytest.fixture(scope="module")
def api():
    folder = tempfile.mkdtemp(prefix="as-", dir="/tmp")
    given = {"ANYSERVE_PORT": str(ports.free()), "ANYSERVE_RUNTIME_DIR": os.path.join(folder, "run"),
             "ANYSERVE_STATE_DIR": os.path.join(folder, "state"),
             "PYTHONPATH": os.pathsep.join([str(paths.SDK), str(paths.APPS)])}  # fmt: skip
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    for path in (paths.APPS, paths.SDK):
        if str(path) not in sys.path:
            sys.path.insert(0, str(path))
    from anyserve import serve

    yield serve
    serve.shutdown()
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def handle(api):
    import serve_chain

    return api.run(serve_chain.chain, name="chain", route_prefix=None)


@pytest.fixture
def back(api, handle):
    return api.get_deployment_handle("Back", "chain")

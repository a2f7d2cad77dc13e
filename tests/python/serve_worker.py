"""A worker that serves one of the deployments in app.py, without a server's loader:
serve_worker.py -m anyserve.worker FILE NAME."""

import importlib.util
import os
import sys

from anyserve import replica
from anyserve.code.deployments import of_serve
from anyserve.code.serve_code import ServeCode
from anyserve.runtime import worker_loop
from anyserve.stop import Stop

spec = importlib.util.spec_from_file_location("app", sys.argv[3])
app = sys.modules["app"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(app)
name = sys.argv[4] if len(sys.argv) > 4 else next(iter(app.deployments))
target, args, kwargs, options = app.deployments[name]
given = replica.read(os.environ, name)
replica.enter(given.context)
try:
    worker_loop.serve(of_serve(ServeCode("default", name, target, args, kwargs, True, options)), given, None,
                      os.environ["ANYSERVE_LINK"], os.environ["ANYSERVE_TOKEN"], "test#0", False, (16, 1 << 20))  # fmt: skip
except Stop as e:
    print("anyserve: %s" % e, file=sys.stderr)
    sys.exit(e.code)

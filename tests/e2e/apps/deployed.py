"""What test_deploy.py deploys: answers with what it was told, and fails as its environment says."""

import os
import time

import numpy as np

import anyserve

app = anyserve.AnyServe()
told = {}

if os.environ.get("BREAK_IMPORT"):
    raise RuntimeError("this version cannot be imported")
if os.environ.get("HANG"):
    time.sleep(3600)
if os.environ.get("SLOW_IMPORT"):
    time.sleep(float(os.environ["SLOW_IMPORT"]))


def reconfigure(config):
    if config and config.get("refuse"):
        raise ValueError("this config is refused")
    told.clear()
    told.update(config or {})


def tell(x):
    context = anyserve.get_replica_context()
    return {"x": x, "pid": np.array([os.getpid()]), "top": np.array([told.get("top", -1)]),
            "size": np.array([len(told.get("text", ""))]), "version": np.array([context.version.encode()], object),
            "application": np.array([context.application.encode()], object)}


if os.environ.get("SIDE"):
    app.model("side", deployment="side")(tell)
else:
    app.model("main", deployment="main")(tell)

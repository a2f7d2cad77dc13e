"""A server of one deployment `D` of anyserve.serve, whose source is in the test."""

import json

import pytest

from support.deployments import put

HEAD = """
import asyncio, logging, os
from typing import Annotated
import numpy as np
from anyserve import Tensor, serve
from anyserve.serve import metrics

X = Annotated[np.ndarray, Tensor("FP64", [-1])]
log = logging.getLogger("ray.serve")
"""


@pytest.fixture
def begin(serve, connect, tmp_path):
    """begin(source, **options of the deployment `D`) → server, client, and a function that changes the options."""

    def begin(source, *flags, **options):
        (tmp_path / "shop.py").write_text(HEAD + source)

        def spec(**options):
            return {"applications": [{"import_path": "shop:app", "working_dir": str(tmp_path),
                                      "deployments": [{"name": "D", **options}]}]}

        path = tmp_path / "anyserve.yaml"
        path.write_text(json.dumps(spec(**options)))
        server = serve(path, "--state-dir", tmp_path / "state", *flags, verb="start")
        return server, connect(server), lambda **changed: put(server, spec(**changed))

    return begin

"""Updates that each bring another version of the model: the numbers of those that have gone are used again."""

import json

import grpc
import numpy as np

from support.deployments import QUICK, healthy, put
from support.load import Load

APP = '''
import os
import numpy as np
from anyserve import AnyServe

app = AnyServe()
VERSION = os.environ["MODEL_VERSION"]


@app.model("main", version=VERSION, deployment="main")
def main(x):
    return {"version": np.array([int(VERSION)]), "x": x}
'''


def spec(folder, version):
    return {"applications": [{"name": "shop", "import_path": "versioned:app", "working_dir": str(folder),
                              "env": {"MODEL_VERSION": str(version)}, "deployments": [{"name": "main"}]}]}


def test_one_version_after_the_other(serve, tmp_path, connect):
    (tmp_path / "versioned.py").write_text(APP)
    (tmp_path / "anyserve.yaml").write_text(json.dumps(spec(tmp_path, 1)))
    server = serve(tmp_path / "anyserve.yaml", "--state-dir", tmp_path / "state", *QUICK, "--update-min-ready", "0",
                   "--threads", "2", verb="start")
    healthy(server, replicas=1)
    seen = set()

    def asked(client, n):
        got = client.infer("main", {"x": np.array([n])}).outputs
        assert got["x"] == n
        seen.add(int(got["version"][0]))

    client = connect(server)
    for version in range(2, 9):
        with Load(server.address, asked, threads=4) as load:
            load.wait_more(5)
            put(server, spec(tmp_path, version))
            healthy(server, replicas=1)
            load.wait_more(5)
        # what waits for the former version when its last replica begins to drain is UNAVAILABLE
        assert set(load.outcomes) <= {"OK", "UNAVAILABLE"}, load.errors[:3]
        assert client.infer("main", {"x": np.array([1])}).outputs["version"][0] == version
        assert client.refused("main", {"x": np.array([1])}, version=str(version - 1)).code() == grpc.StatusCode.NOT_FOUND
    assert seen == set(range(1, 9))

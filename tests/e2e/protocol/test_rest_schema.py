"""schemathesis makes up requests of /openapi.json: nothing may fail inside the server, every status is documented, every
body is what the document says, what fits the document is taken, what does not is refused."""

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from support import wait

SCHEMATHESIS = Path(sys.executable).parent / "schemathesis"


# What is not there says so with 501: CUDA memory, settings that cannot be changed, parameters of a load. Nothing else may;
# the models of described.py have no reason to.
REFUSALS = ["cudaRegister", "traceSettingChange", "modelTraceSettingChange", "logSettingsChange", "repositoryLoad"]
READY = ["serverReady", "modelReady"]  # 503 is an answer of theirs: schemathesis unloads models
CALLS = {"infer", "modelGenerate", "modelGenerateStream"}  # may pass on a handler's UNIMPLEMENTED, which these do not say
CONFIG = "".join(f"""[[operations]]
include-operation-id-regex = "^{name}(:|$)"
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "{status}"]
""" for names, status in ((REFUSALS, "501"), (READY, "503")) for name in names)
# No schema says that data has as many elements as its shape asks for, or which values a call without a signature takes.
CONFIG += "".join(f"""[[operations]]
include-operation-id-regex = "^{name}(:|$)"
checks.positive_data_acceptance.enabled = false
checks.negative_data_rejection.enabled = false
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]
""" for name in sorted(CALLS))


def documented(server, status):
    """Kinds of operations that may end in it."""
    with urllib.request.urlopen(f"http://{server.address}/openapi.json", timeout=wait.SECONDS) as answer:
        paths = json.load(answer)["paths"]
    return {row["operationId"].partition(":")[0] for path in paths.values() for row in path.values()
            if status in row["responses"]}


@pytest.mark.parametrize("allowed", [(), pytest.param(("--allow-client-control", "--allow-client-shm"), marks=pytest.mark.long)], ids=["as it is", "all allowed"])
def test_schemathesis(serve, tmp_path, allowed):
    server = serve("described.py", *allowed)
    server.wait_all_ready()
    assert documented(server, "501") == {*REFUSALS, *CALLS}
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    run = subprocess.run([SCHEMATHESIS, "run", f"http://{server.address}/openapi.json", "--phases",
                          "coverage,fuzzing", "--max-examples", "3", "--seed", "1", "--request-timeout",
                          str(wait.SECONDS), "--no-color"], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, timeout=300)
    assert run.returncode == 0, run.stdout[-10_000:]
    tested = re.search(r"Tested: (\d+)", run.stdout)
    cases = re.search(r"(\d+) generated, (\d+) passed", run.stdout)
    assert tested and int(tested[1]) > 50, run.stdout[-2000:]
    assert cases and cases[1] == cases[2] and int(cases[1]) > 1500, run.stdout[-2000:]

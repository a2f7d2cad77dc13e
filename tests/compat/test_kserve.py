"""The KServe SDK's clients, in the environment that install.py makes."""

from pathlib import Path

import pytest

from conftest import INSTALLED

HERE = Path(__file__).resolve().parent


@pytest.mark.install
def test_clients(run, server):
    python = INSTALLED / "kserve/bin/python"
    assert python.exists(), "the KServe SDK is not installed: tests/compat/install.py"
    assert run(python, HERE / "kserve_clients.py", server.address).splitlines()[-2:] == ["rest ok", "grpc ok"]

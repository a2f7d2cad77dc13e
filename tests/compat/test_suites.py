"""The test suites of Starlette, FastAPI and websockets, with a server of AnyServe below their clients: suites/run.py."""

import sys

import pytest

from conftest import HERE

sys.path.append(str(HERE / "suites"))

import run as suites  # noqa: E402

pytestmark = pytest.mark.install


@pytest.mark.parametrize("name", suites.SUITES)
def test_each_case_passes_or_is_known(name):
    folder = suites.folder_of(name)
    if folder is None:
        pytest.skip("PyPI has few of its cases: ANYSERVE_WEBSOCKETS names a folder with its source")
    assert folder.is_dir(), f"{folder} is not there: tests/compat/install.py"
    cases = suites.run(name)
    faults = suites.judge(name, cases)
    print(suites.summary(name, cases))
    assert not faults, "\n".join(faults)

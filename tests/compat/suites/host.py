"""The deployment that runs a test suite of others: its replica answers requests with the application that a case of the suite
has made, and pytest runs in a thread of the same process, so that a case may look at what its application has done.

    ANYSERVE_PORT=… SUITE=folder SUITE_NAME=… SUITE_RESULTS=file SUITE_ARGS=… anyserve run host:app
"""

import os
import threading

import exchange

from anyserve import serve


def run_suite():
    import pytest

    exchange.wait_ready()
    os.chdir(os.environ["SUITE"])
    ini = os.path.join(os.path.dirname(os.path.abspath(__file__)), "suite.ini")
    code = pytest.main(["-p", "cases", "-q", "--no-header", "--color=no", "--tb=no", "--capture=sys", "-c", ini, f"--rootdir={os.getcwd()}",
                        "--inline-snapshot=disable", "--continue-on-collection-errors", "-p", "no:timeout", "-p", "no:cacheprovider",
                        *os.environ["SUITE_ARGS"].split("\n")])  # fmt: skip
    with open(os.environ["SUITE_RESULTS"] + ".ended", "w") as f:
        f.write(str(int(code)))


@serve.deployment(max_ongoing_requests=1000)
@serve.ingress(lambda: exchange.answer)
class Host:
    def __init__(self):
        threading.Thread(target=run_suite, name="suite", daemon=True).start()


app = Host.bind()

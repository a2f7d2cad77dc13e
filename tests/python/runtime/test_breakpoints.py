"""breakpoint() in a replica, which has no terminal."""

import numpy as np

APP = """
from anyserve import AnyServe
import numpy as np
app = AnyServe()
@app.model("m")
def m(x):
    breakpoint()
    return {"y": x + 1}
"""
X = {"x": np.array([1])}


def test_it_is_passed_over_and_said_once(start):
    w = start(APP)
    for _ in range(3):
        assert w.infer("m", X)["y"].tolist() == [2]
    w.wait_output("breakpoint() at ", "app.py:7 is passed over", "`anyserve run --debug`", "_local_testing_mode=True")
    w.drain()
    assert w.output.count("is passed over") == 1


def test_a_debugger_that_needs_no_terminal_is_called(start):
    w = start("import sys\ndef debug():\n    print('debugging', flush=True)\nsys.modules['mine'] = sys.modules[__name__]\n" + APP,
              env={"PYTHONBREAKPOINT": "mine.debug"})  # fmt: skip
    assert w.infer("m", X)["y"].tolist() == [2]
    w.wait_output("debugging")
    assert "is passed over" not in w.output

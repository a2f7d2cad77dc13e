"""A file beside the program that stands for a module that Python needs to start a worker: the error names it."""

import pytest

APP = """
from anyserve import AnyServe
app = AnyServe()
@app.model("m")
def m(x):
    return x
"""


@pytest.mark.parametrize("name", ["anyserve.py", "contextlib.py", "types.py", "collections/__init__.py"])
def test_run_names_the_file(serve, tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("raise RuntimeError('mine')\n")
    (tmp_path / "app.py").write_text(APP)
    server = serve("app.py", cwd=tmp_path, wait_ready=False)
    server.ended(69)
    assert server.log.find(rf"^anyserve: {name} is loaded in the place of a module of that name, which a worker needs: rename it")
    assert not server.log.find("Is the package installed")


def test_a_program_that_is_called_as_the_package(serve, tmp_path):
    (tmp_path / "anyserve.py").write_text(APP)
    server = serve("anyserve.py", cwd=tmp_path, wait_ready=False)
    server.ended(69)
    assert server.log.find("^anyserve: anyserve.py is loaded in the place of a module of that name")


@pytest.mark.parametrize("name", ["typing.py", "numpy.py", "queue.py"])
def test_others_do_no_harm(serve, connect, tmp_path, name):
    import numpy as np

    (tmp_path / name).write_text("raise RuntimeError('mine')\n")
    (tmp_path / "app.py").write_text(APP)
    server = serve("app.py", cwd=tmp_path)
    assert connect(server).infer("m", {"x": np.ones(1)})["output0"] == 1

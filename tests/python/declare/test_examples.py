"""Each example serves, and answers as its comment says."""

import numpy as np
import pytest
from fake import ROOT


@pytest.fixture
def example(start):
    def serve(name):
        path = ROOT / "examples" / name
        if name.startswith("sklearn"):
            pytest.importorskip("sklearn")
        return start(None, path)

    return serve


def test_echo_add(example):
    w = example("echo_add.py")
    got = w.infer("add", {"a": np.array([1, 2, 3], "f4"), "b": np.array([10, 20, 30], "f4")})
    assert got["sum"].tolist() == [11, 22, 33]
    assert w.infer("echo", {"any": [b"thing"]})["any"] == [b"thing"]
    assert [w.infer("counter", version="v2")["calls"][0] for _ in range(2)] == [1, 2]


def test_sklearn_classifier(example):
    w = example("sklearn_classifier.py")
    got = w.infer("iris", {"flowers": np.array([[5.1, 3.5, 1.4, 0.2], [6.3, 2.9, 5.6, 1.8]], "f4")})
    assert got["species"] == [b"setosa", b"virginica"]
    assert np.allclose(got["probability"].sum(axis=1), 1)


def test_text_bytes(example):
    w = example("text_bytes.py")
    got = w.infer("words", {"text": [b"hello world", "grüße".encode()]}, params={"separator": " "})
    assert got["upper"] == [b"HELLO WORLD", "GRÜSSE".encode()]
    assert got["count"].tolist() == [2, 1] and got.parameters == {"lines": 2}
    with pytest.raises(Exception, match="INVALID_ARGUMENT: text must be UTF-8"):
        w.infer("words", {"text": [b"\xff"]})


def test_async_model(example):
    w = example("async_model.py")
    streams = [w.ask("patient", {"seconds": np.array([0.05])}) for _ in range(100)]
    assert all(w.answer(s)["waited"][0] >= 0.05 for s in streams)
    assert w.infer("double", {"x": np.array([2])})["output0"] == 4
    assert w.infer("checksum", {"x": np.array([1, 2, 3])})["output0"] == 6

"""Every file of examples/ is served and called, as its first lines say."""

import concurrent.futures

import numpy as np
import pytest

from support import paths
from support.protocol import oip

EXAMPLES = sorted((paths.ROOT / "examples").glob("*.py"))


def echo_add(client):
    a, b = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)
    assert client.infer("add", {"a": a, "b": b})["sum"].tolist() == [11, 22, 33]
    assert client.infer("echo", {"anything": a})["anything"].tolist() == [1, 2, 3]
    assert [int(client.infer("counter", {})["calls"][0]) for _ in range(3)] == [1, 2, 3]


def sklearn_classifier(client):
    answer = client.infer("iris", {"flowers": np.array([[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3]], np.float32)})
    assert answer["species"].tolist() == [b"setosa", b"virginica"]
    assert np.allclose(answer["probability"].sum(axis=1), 1)


def text_bytes(client):
    text = oip.bytes_array([b"hello world", "grüße".encode()])
    answer = client.infer("words", {"text": text}, parameters={"separator": " "})
    assert answer["upper"].tolist() == [b"HELLO WORLD", "GRÜSSE".encode()]
    assert answer["count"].tolist() == [2, 1]


def async_model(client):
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        waits = list(pool.map(lambda _: client.infer("patient", {"seconds": np.array([0.2])}), range(20)))
    assert all(w["waited"][0] >= 0.2 for w in waits)
    assert client.infer("double", {"x": np.array([4])})["output0"] == 8
    assert client.infer("checksum", {"x": np.arange(10)})["output0"] == 45


def batching(client):
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    calls = [client.begin("scale", {"x": x + i}) for i in range(40)]
    assert all((oip.Answer(c.result())["y"] == 2 * (x + i)).all() for i, c in enumerate(calls))
    assert client.infer("words", {"text": oip.bytes_array([b"one two", b"three"])})["n"].tolist() == [2, 1]
    error = client.refused("words", {"text": oip.bytes_array([b"eins"])}, parameters={"language": "de"})
    assert error.details() == "only English is known"


def stream(client):
    def ask(model, *inputs, **parameters):
        call = client.channel.stream_stream(
            f"/{oip.SERVICE}/ModelStreamInfer", lambda q: q.SerializeToString(),
            oip.messages()["ModelStreamInferResponse"].FromString)
        requests = [oip.infer_request(model, i, parameters=parameters) for i in inputs]
        for m in call(iter(requests), timeout=oip.SECONDS):
            assert not m.error_message, m.error_message
            yield oip.Answer(m.infer_response)
    prompt = {"prompt": oip.bytes_array([b"one two"])}
    assert [a["word"].tolist() for a in ask("words", prompt)] == [[b"one"], [b"two"]]
    assert [a["word"].tolist() for a in ask("words", prompt, upper=True)] == [[b"ONE"], [b"TWO"]]
    assert [int(a["output0"][0]) for a in ask("primes", {"n": np.array([5])})] == [2, 3, 5, 7, 11]
    endless = ask("primes", {"n": np.array([], np.int64)})
    assert [int(next(endless)["output0"][0]) for _ in range(1000)][-1] == 7919
    endless.close()
    xs = [{"x": np.array(v, np.float64)} for v in ([1], [2, 3], [6])]
    assert [float(a["mean"]) for a in ask("running_mean", *xs)] == [1, 2, 3]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example(serve, connect, path):
    calls = {"echo_add": echo_add, "sklearn_classifier": sklearn_classifier, "text_bytes": text_bytes,
             "async_model": async_model, "batching": batching, "stream": stream}
    if path.stem == "sklearn_classifier":
        pytest.importorskip("sklearn")
    calls[path.stem](connect(serve(path)))


def test_there_are_examples():
    assert len(EXAMPLES) >= 4

"""app.test_client() answers as a server does: the same requests to both, answers and errors compared."""

import importlib.util
import os
import sys

import numpy as np
import pytest

from support import paths
from support.protocol import oip

if not paths.SANITIZED:  # a sanitizer's runtime would have to be loaded first
    sys.path.insert(0, str(paths.SDK))

X = np.array([1.0, 2.0, 4.0], np.float32)
WIDE = np.ones((2, 4), np.float32)

SDK = [
    ("by_name", {"a": X, "b": X / 2}), ("keyword_only", {"b": X / 2, "a": X}), ("everything", {"y": X, "x": X, "z": X}),
    ("loose_defaults", {"a": X}), ("loose_defaults", {"b": X}), ("loose_defaults", {"a": X, "c": X}), ("by_name", {}),
    ("by_name", {"a": X}), ("by_name", {"a": X, "b": X, "c": X}), ("by_name", {"a": X.astype(float), "b": X}),
    ("by_name", {"a": X.reshape(3, 1), "b": X}), ("inferred", {"x": X}), ("inferred", {"x": WIDE}),
    ("bf16", {"x": np.array([1.5, -2.0], oip.bfloat16())}), ("views", {"x": np.arange(70_000, dtype=np.int32)}),
    ("declared_tuple", {}), ("declared_dict", {}), ("nothing_there", {}), ("task", {}), ("eager", {}),
    ("sync_in_loop", {}), ("threaded_in_loop", {}), ("async_class", {"x": X}), ("function", {"x": X}), ("instance", {"x": X}),
]  # fmt: skip
BATCHES = [(m, {"x": x}) for m in ("sync", "async", "threads", "held")
           for x in (np.arange(6).reshape(2, 3), np.zeros((0, 3), int), np.zeros((17, 2), int), np.array(3))]  # fmt: skip


def load(name):
    """The application's file as a module."""
    folder = str(paths.APPS)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), os.path.join(folder, name))
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def both(client, local, model, inputs, **fields):
    """What each says: outputs with datatypes and parameters, or status and text."""
    from anyserve import Error

    try:
        got = local.infer(model, inputs, **{k: v for k, v in fields.items() if k != "metadata"})
        here = ({k: (oip.datatype_of(v), v.shape, v.tolist()) for k, v in got.items()}, got.parameters,
                got.model_version, got.id)  # fmt: skip
    except Error as e:
        here = (e.code, e.message)
    if isinstance(here[0], str):
        error = client.refused(model, inputs, **fields)
        return here, (error.code().name, error.details())
    answer = client.infer(model, inputs, **fields)
    outputs = {o.name: (o.datatype, tuple(o.shape), answer[o.name].tolist()) for o in answer.message.outputs}
    return here, (outputs, answer.parameters, answer.message.model_version, answer.message.id)


@pytest.mark.skipif(paths.SANITIZED, reason="the extension is loaded into this process")
@pytest.mark.parametrize(("app", "cases"), [("sdk.py", SDK), ("batches.py", BATCHES)])
def test_answers_and_errors_are_the_same(serve, connect, app, cases):
    module = load(app)
    client = connect(serve(app))
    with module.app.test_client() as local:
        if app == "sdk.py":
            names = [m.name for m in module.app.models if m.name.startswith("out_")]
            assert len(names) > 20
            cases = cases + [(name, {}) for name in names]
        for model, inputs in cases:
            here, there = both(client, local, model, inputs, id="7", parameters={"k": 1, "t": "v"})
            assert here == there, model
        if app == "sdk.py":
            for fields in ({"version": "7"}, {"outputs": ["output1"]}, {"outputs": ["none"]}):
                here, there = both(client, local, "inferred", {"x": WIDE}, **fields)
                assert here == there, fields

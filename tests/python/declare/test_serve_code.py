"""What a replica of a serve deployment registers: a call target, and a tensor model where annotations say so."""

import sys

import numpy as np
import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from typing import Annotated, List, Optional  # noqa: E402

import numpy.typing as npt  # noqa: E402

from anyserve import Tensor  # noqa: E402
from anyserve.code.deployments import describe, of_serve  # noqa: E402
from anyserve.code.serve_code import ServeCode  # noqa: E402
from anyserve.stop import Stop  # noqa: E402


class Plain:
    def __init__(self):
        raise AssertionError("it is only described")

    def __call__(self, request):
        return request

    def other(self):
        return 1


class NoCall:
    def method(self):
        return 1


class Adder:
    def __call__(self, a: Annotated[np.ndarray, Tensor("FP32", [-1])]) -> Annotated[np.ndarray, Tensor("FP32", [-1])]:
        return a + 1


class Later:
    def __call__(self, request: "Unknown"):  # noqa: F821
        return request


def doubles(x: Annotated[np.ndarray, Tensor("INT64", [2])]):
    return x * 2


class Scaler:
    async def __call__(self, x: np.ndarray, by: "np.ndarray") -> np.ndarray:
        return x * by


class Caller:
    def __call__(self, x: np.ndarray, n: int):
        return x * n


def typed(x: npt.NDArray[np.float32], y: Annotated[np.ndarray, "metres"], *, z: np.ndarray):
    return x + y + z


def partly(x: np.ndarray, y):
    return x + y


def optional(x: np.ndarray, y: Optional[np.ndarray] = None):
    return x


def several(xs: List[np.ndarray]):
    return xs


def all_that_come(*xs: np.ndarray):
    return xs


def by_name(x: np.ndarray, **more: np.ndarray):
    return x


def gives() -> np.ndarray:
    return np.ones(1)


def unknown(x: np.ndarray, y: "Unknown"):  # noqa: F821
    return x


def of(handler, application="default", name="D", **options):
    return of_serve(ServeCode(application, name, handler, (), {}, True, options))


@pytest.mark.parametrize("handler", [Plain, NoCall, Later, lambda *args: args, Caller, partly, optional, several,
                                     all_that_come, by_name, gives, unknown])  # fmt: skip
def test_a_deployment_without_tensors_has_its_call_target_only(handler):
    d = of(handler)
    assert [(m.name, m.version, m.opaque, m.max_ongoing_requests) for m in d.models] == [("D", "1", True, 5)]
    assert d.budget == 5 and d.serve.func_or_class is handler


@pytest.mark.parametrize("handler, inputs", [(Adder, ["a"]), (doubles, ["x"])])
def test_annotations_make_a_tensor_model(handler, inputs):
    d = of(handler, max_ongoing_requests=7)
    assert [(m.name, m.opaque, m.max_ongoing_requests) for m in d.models] == [("D", True, 7), ("D", False, 7)]
    assert [i for i in d.models[1].signature.inputs] == inputs
    assert of(handler, "shop").models[1].name == "shop.D"


@pytest.mark.parametrize("handler, params", [(Scaler, ["x", "by"]), (typed, ["x", "y", "z"])])
def test_arrays_make_a_tensor_model_that_declares_no_inputs(handler, params):
    model = of(handler, "shop").models[1]
    assert (model.name, model.signature.inputs) == ("shop.D", None)
    assert [p.name for p in model.signature.params] == params


@pytest.mark.parametrize("name", ["infer", "x" * 124])
def test_arrays_of_a_deployment_whose_name_is_no_models(name):
    assert len(of(Scaler, "shop", name).models) == (1 if len(name) > 5 else 2)
    assert len(of(Scaler, name=name).models) == (2 if len(name) > 5 else 1)


def test_options_are_described_as_a_file_has_them():
    d = of(Plain, max_queued_requests=3, num_replicas=2)
    assert d.max_queued_requests == 0  # replicas of two versions need not agree on it
    assert describe([d])["deployments"][0]["options"] == {"max_queued_requests": 3, "num_replicas": 2}


def test_a_wrong_annotation_is_the_users_to_know():
    def wrong(x: Annotated[np.ndarray, Tensor("FP32", [-1])], *more):
        return x

    with pytest.raises(Stop) as e:
        of(wrong, name="Wrong")
    assert str(e.value).startswith("deployment 'Wrong': ") and "*more" in str(e.value)

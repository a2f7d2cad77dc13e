"""Bound graphs become lists of deployments: which, in what order, under which names, with handles where applications were."""

import dataclasses
import functools
import logging
import sys
import threading
from collections import namedtuple

import numpy as np
import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve.serve import deployment  # noqa: E402
from anyserve.serve.graph import MAX_DEPTH, build  # noqa: E402
from anyserve.serve.handle import DeploymentHandle  # noqa: E402

Pair = namedtuple("Pair", "left right")


@deployment
class Leaf:
    def __init__(self, *args, **kwargs):
        pass


@deployment
class Root:
    def __init__(self, *args, **kwargs):
        pass


@dataclasses.dataclass
class Config:
    model: object
    path: str = "p"


def names(app):
    return [b.name for b in build(app, "app")]


def handle(name):
    return DeploymentHandle(name, "app")


def test_one_deployment():
    (one,) = build(Leaf.bind(1, b=2), "app")
    assert (one.name, one.init_args, one.init_kwargs, one.ingress) == ("Leaf", (1,), {"b": 2}, True)
    assert one.deployment.init_args == (1,) and one.deployment.func_or_class is Leaf.func_or_class


def test_children_come_first_and_become_handles():
    leaf, root = build(Root.bind(Leaf.bind(), other=5), "app")
    assert (leaf.name, leaf.ingress, root.name, root.ingress) == ("Leaf", False, "Root", True)
    assert root.init_args == (handle("Leaf"),) and root.init_kwargs == {"other": 5}
    assert root.init_args[0].app_name == "app"


@pytest.mark.parametrize("make, expected", [
    (lambda x: [x, 1], lambda h: [h, 1]), (lambda x: (1, x), lambda h: (1, h)), (lambda x: {"a": x}, lambda h: {"a": h}),
    (lambda x: {"a": [{"b": (x,)}]}, lambda h: {"a": [{"b": (h,)}]}), (lambda x: {x}, lambda h: {h}),
    (lambda x: {x: 1}, lambda h: {h: 1}), (lambda x: Pair(x, 2), lambda h: Pair(h, 2)),
    (lambda x: Config(x), lambda h: Config(h)), (lambda x: [Config([x])], lambda h: [Config([h])])])  # fmt: skip
def test_in_containers_and_objects(make, expected):
    leaf, root = build(Root.bind(make(Leaf.bind()), k=make(Leaf.bind())), "app")[0::2]
    assert root.init_args == (expected(handle("Leaf")),)
    assert root.init_kwargs == {"k": expected(handle("Leaf_1"))}


class Caller:
    def __init__(self, model):
        self.model = model

    def __call__(self):
        return self.model


def test_in_objects_that_can_be_called():
    app = Root.bind(functools.partial(max, Leaf.bind()), Caller(Leaf.bind()).__call__, f=Caller(Leaf.bind()))
    root = build(app, "app")[3]
    part, method = root.init_args
    assert (part.func, part.args) == (max, (handle("Leaf"),)) and method() == handle("Leaf_1")
    assert root.init_kwargs["f"]() == handle("Leaf_2")


def importable(model=None):
    return model


def test_in_functions_and_classes_that_go_by_value():
    """As Ray 2.60 does; those that a replica imports have none of the driver's objects."""
    leaf = Leaf.bind()

    def closure():
        return leaf

    def default(model=leaf):
        return model

    class Model:
        attribute = leaf

    *_, root = build(Root.bind(closure, default, Model, importable, f=lambda: [leaf]), "app")
    in_closure, in_default, kind, imported = root.init_args
    assert in_closure() == in_default() == kind.attribute == handle("Leaf") and root.init_kwargs["f"]() == [handle("Leaf")]
    assert imported is importable and closure() is leaf


def test_functions_and_classes_without_applications_are_the_same_objects():
    lock = threading.Lock()

    class Local:
        pass

    given = (Local, lambda: lock, Leaf.func_or_class)
    assert all(a is b for a, b in zip(build(Root.bind(*given), "app")[0].init_args, given))


def test_one_node_bound_twice_is_one_deployment():
    leaf = Leaf.bind()
    assert names(Root.bind(leaf, [leaf], k={"a": leaf})) == ["Leaf", "Root"]
    middle = deployment(name="Middle")(Root.func_or_class)
    assert names(Root.bind(leaf, middle.bind(leaf))) == ["Leaf", "Middle", "Root"]


def test_names_in_the_order_of_building(caplog):
    """As recorded from Ray 2.60: what is bound deeper or further left comes first."""
    caplog.set_level(logging.WARNING)
    assert names(Leaf.bind(Leaf.bind(Leaf.bind()), Leaf.bind())) == ["Leaf", "Leaf_1", "Leaf_2", "Leaf_3"]
    assert "There are multiple deployments with the same name 'Leaf'. Renaming one to 'Leaf_1'." in caplog.messages
    root = build(Root.bind(Leaf.bind("a"), x=Leaf.bind("b")), "app")
    assert [(b.name, b.init_args) for b in root[:2]] == [("Leaf", ("a",)), ("Leaf_1", ("b",))]
    assert root[2].init_args == (handle("Leaf"),) and root[2].init_kwargs == {"x": handle("Leaf_1")}


def test_a_suffix_that_is_taken_is_passed_over():
    other = deployment(name="Leaf_1")(Root.func_or_class)
    assert names(Root.bind(other.bind(), Leaf.bind(), Leaf.bind())) == ["Leaf_1", "Leaf", "Leaf_2", "Root"]


def test_arguments_without_applications_are_the_same_objects():
    array, config, items = np.arange(3), Config(1), [1, {"a": 2}]
    (one,) = build(Leaf.bind(array, config, items, f=print), "app")
    assert one.init_args[0] is array and one.init_args[1] is config and one.init_args[2] is items
    assert one.init_kwargs["f"] is print


def test_what_cannot_be_pickled_stays_and_big_arrays_are_not_copied():
    lock, array = __import__("threading").Lock(), np.zeros(1000)
    (leaf, root) = build(Root.bind(lock, Config(array), Leaf.bind()), "app")
    assert root.init_args[0] is lock and root.init_args[1].model is array
    with_app = build(Root.bind(Config([array, Leaf.bind()])), "app")[1].init_args[0]
    assert np.shares_memory(with_app.model[0], array)


def test_a_list_that_contains_itself():
    items = [1]
    items.append(items)
    (one,) = build(Leaf.bind(items), "app")
    assert one.init_args[0] is items


@pytest.mark.parametrize("n, ok", [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_how_deep_applications_are_bound(n, ok):
    app = Leaf.bind()
    for _ in range(n - 1):
        app = Root.bind(app)
    if ok:
        assert len(names(app)) == n
    else:
        with pytest.raises(ValueError, match="more than 100 deep"):
            build(app, "app")


@pytest.mark.parametrize("what, text", [(Leaf, "not Deployment; it is a deployment: call its .bind"), (3, "not int")])
def test_what_is_no_application(what, text):
    with pytest.raises(TypeError, match=r"`serve.run` expects an Application.*" + text):
        build(what, "app")


def test_bound_deployments_keep_their_options():
    (one,) = build(Leaf.options(num_replicas=3, name="L").bind(), "app")
    assert one.name == "L" and one.deployment.keys()["num_replicas"] == 3

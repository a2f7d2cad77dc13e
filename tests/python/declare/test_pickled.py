"""Code that a program uploads: what is in it, who may load it, and what is said of what cannot be pickled."""

import hashlib
import json
import subprocess
import sys
import threading
import types

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
import cloudpickle  # noqa: E402

from anyserve.code import pickled  # noqa: E402
from anyserve.serve._driver import code as _code  # noqa: E402
from anyserve.serve.deployment import deployment  # noqa: E402
from anyserve.serve.graph import build  # noqa: E402
from anyserve.stop import EX_INTERPRETER, EX_NOTFOUND, EX_RAISED, Stop  # noqa: E402


def packed(app, name="default"):
    return _code.pack(name, build(app, name))


def header(code):
    return json.loads(code.content.partition(b"\n")[0])


def changed(code, **fields):
    line, _, rest = code.content.partition(b"\n")
    return json.dumps({**json.loads(line), **fields}).encode() + b"\n" + rest


@pytest.fixture
def load(tmp_path):
    def load(content, only=None):
        path = tmp_path / "code"
        path.write_bytes(content)
        return pickled.load("pickle:%s" % path, only)

    return load


@pytest.fixture
def refused(load):
    def refused(content, code, *words, only=None):
        with pytest.raises(Stop) as e:
            load(content, only)
        assert e.value.code == code, e.value
        for word in words:
            assert word in str(e.value), e.value

    return refused


def app():
    where = "a closure"

    @deployment(max_ongoing_requests=3)
    class Child:
        def __init__(self, n, *, word):
            raise AssertionError("it is only loaded")

        def where(self):
            return where

    @deployment
    class Parent:
        def __init__(self, child, *more):
            raise AssertionError("it is only loaded")

    return Parent.bind(Child.bind(7, word="x"), [1, 2])


def test_what_was_packed_is_loaded(load):
    code = packed(app(), "shop")
    head = header(code)
    assert (head["format"], head["application"]) == (1, "shop")
    assert head["python"] == "%d.%d" % sys.version_info[:2] and head["cloudpickle"] == cloudpickle.__version__
    child, parent = load(code.content)
    assert (child.name, parent.name) == ("Child", "Parent")
    assert (child.serve.application, child.serve.ingress, parent.serve.ingress) == ("shop", False, True)
    assert child.serve.init_args == (7,) and child.serve.init_kwargs == {"word": "x"}
    assert child.serve.func_or_class.where(None) == "a closure"
    assert child.options["max_ongoing_requests"] == child.budget == 3
    handle, more = parent.serve.init_args
    assert (handle.app_name, handle.deployment_name, more) == ("shop", "Child", [1, 2])


def test_a_replica_loads_its_own_deployment_alone(load):
    code = packed(app())
    at = header(code)["deployments"]["Child"]["at"] + code.content.index(b"\n") + 1
    spoiled = code.content[:at] + b"\x00" + code.content[at + 1 :]
    (parent,) = load(spoiled, "Parent")
    assert parent.name == "Parent"
    with pytest.raises(Stop) as e:
        load(spoiled, "Child")
    assert e.value.code == EX_RAISED and "'Child' cannot be unpickled" in str(e.value)


def test_the_name_is_the_hash_of_the_content():
    code = packed(app())
    assert code.name == hashlib.sha256(code.content).hexdigest() and code.key == "pickle:" + code.name


@pytest.mark.parametrize("fields, words", [
    ({"python": "3.4"}, ["Python 3.4", "%d.%d" % sys.version_info[:2], sys.executable]),
    ({"cloudpickle": "0.1.0"}, ["cloudpickle 0.1.0", cloudpickle.__version__]),
    ({"format": 99}, ["format 99", "the same AnyServe"]),
])  # fmt: skip
def test_another_interpreter_is_said(refused, fields, words):
    refused(changed(packed(app()), **fields), EX_INTERPRETER, *words)


def test_what_is_no_pickled_code(refused, tmp_path):
    refused(b"", EX_NOTFOUND, "is no pickled code")
    refused(b"\x80\x05N.", EX_NOTFOUND, "is no pickled code")
    refused(b"[]\n", EX_NOTFOUND, "is no pickled code")
    refused(packed(app()).content[:-1], EX_NOTFOUND, "'Parent' is cut")
    refused(packed(app()).content, EX_NOTFOUND, "no deployment 'Nope'", "Child, Parent", only="Nope")
    with pytest.raises(Stop) as e:
        pickled.load("pickle:%s" % (tmp_path / "nothing"), None)
    assert e.value.code == EX_NOTFOUND and "No such file" in str(e.value)


def test_a_module_that_is_not_found_there(refused):
    @deployment
    def f():
        import collections

        return collections

    code = packed(f.bind())
    refused(code.content.replace(b"cloudpickle.cloudpickle", b"cloudpickle.cloudpickl_"), EX_RAISED, "'f' cannot be unpickled",
            "py_modules")  # fmt: skip


def test_a_module_that_nobody_else_can_import_is_pickled_by_value(load):
    module = types.ModuleType("made_here")
    exec("def twice(x):\n    return 2 * x", module.__dict__)
    sys.modules["made_here"] = module
    try:
        code = packed(deployment(module.twice).bind())
    finally:
        del sys.modules["made_here"]
    (d,) = load(code.content)
    assert d.serve.func_or_class(4) == 8
    assert not cloudpickle.list_registry_pickle_by_value()


def test_what_can_be_imported_goes_by_reference():
    import shlex

    @deployment
    def f(x):
        return shlex.quote(x)

    assert b"shell-escaped" not in packed(f.bind()).content


def test_main_goes_by_value(tmp_path):
    (tmp_path / "script.py").write_text(
        "import sys\nfrom anyserve.serve.deployment import deployment\nfrom anyserve.serve._driver import code as _code\n"
        "from anyserve.serve.graph import build\n"
        "FACTOR = 3\ndef helper(x):\n    return FACTOR * x\n@deployment\ndef f(x):\n    return helper(x)\n"
        "sys.stdout.buffer.write(_code.pack('default', build(f.bind(), 'default')).content)\n"
    )
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, check=True, env={"PYTHONPATH": str(PACKAGE)})
    path = tmp_path / "code"
    path.write_bytes(done.stdout)
    (d,) = pickled.load("pickle:%s" % path, "f")
    assert d.serve.func_or_class(5) == 15


LOCK = threading.Lock()


def uses_lock():
    return LOCK


class Holder:
    def __init__(self):
        self.inner = {"deep": [LOCK]}


def closure():
    mine = LOCK
    return lambda: mine


def default(x=LOCK):
    return x


class WithAttribute:
    lock = LOCK

    def __call__(self):
        pass


class Uses:
    def __call__(self):
        return uses_lock()


@pytest.fixture
def by_value():
    """This module is one of a program: __main__."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.parametrize("make, where", [
    (lambda: deployment(uses_lock).bind(), "global LOCK of uses_lock"),
    (lambda: deployment(Uses).bind(), "global LOCK of uses_lock"),
    (lambda: deployment(name="c")(closure()).bind(), "variable mine of closure"),
    (lambda: deployment(default).bind(), "a default of default"),
    (lambda: deployment(WithAttribute).bind(), "WithAttribute.lock"),
    (lambda: deployment(Uses).bind(LOCK), "argument 0 of .bind()"),
    (lambda: deployment(Uses).bind(a=Holder()), "argument a of .bind().inner['deep'][0]"),
])  # fmt: skip
def test_what_cannot_be_pickled_is_named(by_value, make, where):
    if where.startswith("argument"):
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    try:
        with pytest.raises(TypeError) as e:
            packed(make(), "shop")
    finally:
        if where.startswith("argument"):
            cloudpickle.register_pickle_by_value(sys.modules[__name__])
    text = str(e.value)
    assert text.startswith("Could not serialize the deployment '") and "(application 'shop'): " in text
    assert where in text and ", a lock, cannot be pickled: " in text, text

"""Import paths of routers and scaling policies: what a policy process says when there is none, and when its module raises."""

import pytest

from anyserve.code import policy_code
from anyserve.stop import EX_NOTFOUND, EX_RAISED, Stop

FIND = [lambda path: policy_code.find_policies(Code, {policy_code.ROUTER: {"request_router_class": path}})[0],
        lambda path: policy_code.find_policies(Code, {policy_code.SCALING: {"policy": {"policy_function": path}}})[2]]


class Code:
    """A deployment whose code gives no policies."""

    options, policies = {}, (None, None)


@pytest.fixture(params=FIND, ids=["router", "scaling policy"])
def find(request):
    return request.param


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module that can be imported, and returns its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, text):
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return name

    return write


def refused(find, path):
    with pytest.raises(Stop) as e:
        find(path)
    return e.value.code, str(e.value)


def test_what_a_path_names(find, module):
    name = module("policy_package.found", "class Outer:\n    class Inner:\n        pass\n")
    assert find("%s.Outer" % name) is find("%s:Outer" % name) and find("%s:Outer.Inner" % name).__name__ == "Inner"


@pytest.mark.parametrize("path, why", [
    ("policy_nowhere:Own", "policy_nowhere:Own: No module named 'policy_nowhere'"),
    ("policy_nowhere.sub:Own", "policy_nowhere.sub:Own: No module named 'policy_nowhere'"),
    ("policy_empty.sub:Own", "policy_empty.sub:Own: No module named 'policy_empty.sub'; 'policy_empty' is not a package"),
    ("policy_empty:Own", "policy_empty:Own: module 'policy_empty' has no attribute 'Own'"),
    ("policy_empty:None_.Own", "policy_empty:None_.Own: 'NoneType' object has no attribute 'Own'")])  # fmt: skip
def test_a_path_that_names_nothing(find, module, path, why):
    module("policy_empty", "None_ = None\n")
    assert refused(find, path) == (EX_NOTFOUND, why)


@pytest.mark.parametrize("name, line, error", [
    ("attribute", "None.size", "AttributeError: 'NoneType' object has no attribute 'size'"),
    ("module", "import policy_nowhere", "ModuleNotFoundError: No module named 'policy_nowhere'"),
    ("name", "from os import policy_nowhere", "ImportError: cannot import name 'policy_nowhere' from 'os'"),
    ("unnamed", "raise ModuleNotFoundError('gone')", "ModuleNotFoundError: gone"),
    ("exit", "raise SystemExit(3)", "SystemExit: 3")])  # fmt: skip
def test_a_module_that_raises(find, module, tmp_path, name, line, error, request):
    path = module("policy_raises_%s_%s" % (name, request.node.callspec.id.split(" ")[0].split("-")[0]), "\n%s\n" % line)
    code, text = refused(find, path + ":Own")
    assert code == EX_RAISED and text.startswith("importing %s:Own failed:\n\n" % path)
    assert 'File "%s", line 2' % (tmp_path / (path + ".py")) in text and "\n" + error in text


def test_a_scaling_policy_of_the_code_is_left_out_where_none_is_asked(module):
    class Declares(Code):
        options = {policy_code.ROUTER: {"request_router_class": "%s:R" % module("policy_declared", "class R: pass\nclass S: pass\n")},
                   policy_code.SCALING: {"policy": {"policy_function": "policy_declared:S", "policy_kwargs": {"a": 1}}}}

    def found(options):
        router, _, scaling, kwargs = policy_code.find_policies(Declares, options)
        return router.__name__, scaling and scaling.__name__, kwargs

    assert found({}) == ("R", "S", {"a": 1})
    assert found({policy_code.SCALING: {}}) == ("R", None, {})

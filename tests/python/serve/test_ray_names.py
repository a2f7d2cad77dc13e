"""docs/guide/ray-names.md says of every name of Ray Serve 2.60 what it is here: is it true?

ray_names.json: the public names of Ray's modules, the parameters of functions, and what classes, models and enumerations have.
"""

import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/guide/ray-names.md"
RAY = json.loads(Path(__file__).with_name("ray_names.json").read_text())
STATES = ("same", "different", "no effect", "not yet")
FIELDS_OF = ("HTTPOptions", "gRPCOptions", "ControllerOptions", "BackpressureConfig", "LoggingConfig", "TracingConfig")
ROW = re.compile(r"^\| (`.*`) \| ([a-z ]+) \|", re.MULTILINE)


def rows():
    """(modules of the heading, name, state)."""
    for section in PAGE.read_text().split("\n## ")[1:]:
        heading, _, body = section.partition("\n")
        modules = ["serve" if m == "ray.serve" else m.removeprefix("ray.serve.") for m in re.findall(r"`([\w.]+)`", heading)]
        for names, state in ROW.findall(body):
            for name in re.findall(r"`([\w.]+)`", names):
                yield tuple(modules), name, state


def module_of(modules, name):
    return next((m for m in modules if name in RAY[m]), None)


NAMES = [(module_of(modules, name), name, state) for modules, name, state in rows() if modules]
FIELDS = [(name, state) for modules, name, state in rows() if not modules]
BY_NAME = {(module, name): state for module, name, state in NAMES}


def find(module, name):
    """The object, or what importing it raises."""
    try:
        package = importlib.import_module("anyserve.serve" if module == "serve" else "anyserve.serve." + module)
        return getattr(package, name)
    except (ImportError, AttributeError) as e:
        return e


def has(value, member):
    fields = set().union(*(getattr(value, a, ()) for a in ("_options", "__dataclass_fields__", "__annotations__")))
    return member in fields or hasattr(value, member) or member in instance_attributes(value)


def instance_attributes(value):
    try:
        return set(re.findall(r"self\.(\w+)\b(?=[^=\n(]*=[^=])", inspect.getsource(value)))
    except (OSError, TypeError):
        return set()


def parameters(value):
    names = set(inspect.signature(value).parameters)
    if "options" in names:  # of a TypedDict
        from anyserve.serve._declare.options import BY_NAME as options

        names |= set(options)
    return names


def test_the_page_has_every_name_once():
    wanted = {(m, n) for m, found in RAY.items() for n in found}
    listed = [(m, n) for m, n, _ in NAMES]
    assert sorted(set(listed)) == sorted(listed)
    assert set(listed) - wanted == set(), "not names of Ray Serve"
    assert wanted - set(listed) == set(), "not in the page"


@pytest.mark.parametrize("module, name, state", NAMES, ids=["%s.%s" % row[:2] for row in NAMES])
def test_the_page_is_right(module, name, state):
    assert state in STATES
    value, row = find(module, name), RAY[module][name]
    if state == "not yet":
        assert isinstance(value, Exception), "it is there: the page says not yet"
        return
    assert not isinstance(value, (ImportError, AttributeError)), value
    if row["kind"] == "function":
        missing = set(row["parameters"]) - parameters(value)
        assert not missing
    elif row["kind"] in ("enum", "model") or state == "same":
        missing = {m for m in row.get("members", ()) if not has(value, m)}
        assert not missing
    else:  # different: what the page does not name as missing is there, unless it says that nothing of it is called
        lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
        line = next(line for line in lines if "`%s`" % name in line.split("|")[1])
        if "can be imported" not in line and "has the fields" not in line:
            missing = {m for m in row.get("members", ()) if not has(value, m) and "`%s`" % m not in line}
            assert not missing


def test_the_page_has_every_field_of_options_once():
    wanted = {"%s.%s" % (n, f) for n in FIELDS_OF for m in ("config", "schema") for f in RAY[m].get(n, {}).get("members", ())}
    listed = [name for name, _ in FIELDS]
    assert sorted(set(listed)) == sorted(listed)
    assert set(listed) == wanted
    assert all(state in STATES[:3] for _, state in FIELDS)


def test_options_have_the_fields_of_ray():
    from anyserve.serve import config

    for name in (*FIELDS_OF, "AutoscalingConfig", "RequestRouterConfig", "AutoscalingPolicy"):
        ray = next(RAY[m][name]["members"] for m in ("config", "schema") if name in RAY[m])
        assert set(ray) <= set(getattr(config, name)._options), name

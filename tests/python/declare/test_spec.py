"""The server's parser, its JSON Schema and the Python objects accept and refuse the same deployment files."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import textwrap

import jsonschema
import pytest
from fake import PACKAGE
from test_target import DECLARATION, run  # noqa: F401

sys.path.insert(0, str(PACKAGE))
import anyserve  # noqa: E402
from anyserve import Application, DeclarationError, Deployment, spec  # noqa: E402

BINARY = PACKAGE / "anyserve/_bin/anyserve"
LIMIT = 20


def native(text):
    """(taken, what was told)."""
    p = subprocess.run([BINARY, "check", "-"], input=text, capture_output=True, text=True, timeout=60)
    assert p.returncode in (0, 78), p.stderr
    assert bool(p.stderr) == bool(p.returncode)
    return p.returncode == 0, p.stderr


def one(**options):
    return {"applications": [{"import_path": "m", "deployments": [{"name": "d", **options}]}]}


def app(**options):
    return {"applications": [options]}


GOOD = [
    {"applications": []},
    app(import_path="m"),
    app(name="x.y_z-1", import_path="pkg.mod:app.inner", working_dir="/srv", env={"A": "1", "B": 2, "C": True}),
    app(command=["./worker", "--port", 8080, 0.5, True]),
    app(import_path="m", command=None, deployments=None, env=None),
    app(import_path="m", env={}),
    one(),
    one(num_replicas=0), one(num_replicas=1024), one(num_replicas=2.0), one(num_replicas=None),
    one(version="free text"), one(version=1.5), one(version=True),
    one(user_config={"a": [1, 2.5, None, {"b": "x"}]}), one(user_config=[]), one(user_config="x"), one(user_config=0),
    one(max_ongoing_requests=1), one(max_ongoing_requests=65535),
    one(max_queued_requests=-1), one(max_queued_requests=1),
    one(request_timeout_s=0), one(request_timeout_s=0.001), one(request_timeout_s=86400),
    one(idempotent=True), one(execution_timeout_s=1.5),
    one(health_check_period_s=0.1), one(health_check_timeout_s=0.01), one(health_check_failure_threshold=100),
    one(max_restarts=-1), one(max_restarts=0),
    one(graceful_shutdown_wait_loop_s=0), one(graceful_shutdown_timeout_s=0),
    one(rolling_update_percentage=0.001), one(rolling_update_percentage=1),
    one(max_surge=1), one(max_surge="25%"), one(max_surge=0, max_unavailable=1), one(max_unavailable="100%"),
    one(max_surge=None, max_unavailable="0%"), one(max_surge="0%", max_unavailable="1%"),
    one(num_cpus=0.5), one(num_cpus=16), one(num_gpus=0), one(num_gpus=0.25), one(num_gpus=8),
    one(cpu_affinity="0-3,8"), one(cpu_affinity=3), one(cpu_affinity="auto", num_cpus=2),
    one(cpu_affinity="auto", num_cpus=0.5),
    one(memory=1 << 20), one(memory="512M"), one(memory="4G"), one(working_dir="x"),
    one(env={"PATH_2": ""}),
    one(warmup_requests=[]), one(warmup_requests=[{"request": {"inputs": []}, "count": 10000, "model": "m/x"}]),
    one(logging_config={}), one(logging_config=None), one(logging_config={"log_level": "DEBUG", "encoding": "JSON"}),
]  # fmt: skip

BAD = [
    {}, [], None, {"applications": None}, {"applications": {}}, {"applications": [], "x": 1}, {"applications": [1]},
    app(), app(import_path="m", command=["x"]), app(import_path=None), app(import_path=""), app(import_path=5),
    app(command=[]), app(command="x"), app(command=[[]]), app(command=[None]), app(import_path="m", name="a b"),
    app(import_path="m", name=""), app(import_path="m", name="x" * 129), app(import_path="m", route_prefix="x"), app(import_path="m", args=[1]),
    app(import_path="m", runtime_env={"pip": []}),
    app(import_path="m", env={"1A": "x"}), app(import_path="m", env={"ANYSERVE_X": "x"}),
    app(import_path="m", env={"A": None}), app(import_path="m", env={"A": []}), app(import_path="m", env=["A=1"]),
    app(import_path="m", deployments=[{}]), app(import_path="m", deployments=[{"name": None}]),
    one(num_replicas=-1), one(num_replicas=1025), one(num_replicas="2"), one(num_replicas=1.5), one(num_replicas=True),
    one(version=""), one(version="x" * 129), one(version=[]),
    one(max_ongoing_requests=0), one(max_ongoing_requests=65536),
    one(max_queued_requests=0), one(max_queued_requests=-2), one(max_queued_requests=10000001),
    one(request_timeout_s=-1), one(request_timeout_s=86400.5), one(request_timeout_s="5s"),
    one(idempotent="yes"), one(idempotent=1), one(health_check_period_s=0.09), one(health_check_failure_threshold=0),
    one(max_restarts=-2), one(rolling_update_percentage=0), one(rolling_update_percentage=1.5),
    one(max_surge=0, max_unavailable=0), one(max_surge="0%", max_unavailable=0), one(max_surge=1025),
    one(max_unavailable=-1), one(max_unavailable="101%"), one(max_unavailable="2"), one(max_unavailable=1.5),
    one(num_cpus=0), one(num_cpus=1025), one(num_gpus=-1), one(num_gpus=1.5), one(num_gpus=65),
    one(cpu_affinity="0-"), one(cpu_affinity="auto"), one(cpu_affinity="auto", num_cpus=1.5),
    one(memory=1), one(memory="4X"), one(memory="-4M"), one(memory=1.5), one(working_dir=""),
    one(warmup_requests={}), one(warmup_requests=[{}]), one(warmup_requests=[{"request": []}]),
    one(warmup_requests=[{"request": {}, "count": 0}]), one(warmup_requests=[{"request": {}}] * 101),
    one(logging_config={"log_level": "debug"}), one(logging_config=[]), one(logging_config={"x": 1}),
    one(num_replica=2), one(ray_actor_options={}),
]  # fmt: skip

# What a schema cannot say, so that only the server tells.
NATIVE_ONLY = [
    {"applications": [{"import_path": "a"}, {"import_path": "b"}]},
    {"applications": [{"import_path": "m", "deployments": [{"name": "d"}, {"name": "d"}]}]},
    one(max_surge=0), one(cpu_affinity="3-1"), one(cpu_affinity="1024"), one(memory="1K"), one(version="\u00e9" * 65),
]  # fmt: skip


@pytest.fixture(scope="module")
def validator():
    text = subprocess.run([BINARY, "schema"], capture_output=True, text=True, check=True).stdout
    rules = json.loads(text)
    assert rules == anyserve.schema()
    jsonschema.Draft202012Validator.check_schema(rules)
    return jsonschema.Draft202012Validator(rules)


def objects(doc):
    """The file by Python objects: its text, or the error's."""
    applications = []
    for a in doc["applications"]:
        rest = {k: v for k, v in a.items() if k not in ("deployments", "name")}
        if "deployments" in a:
            rest["deployments"] = a["deployments"] and [
                Deployment(d.get("name", ""), **{k: v for k, v in d.items() if k != "name"}) for d in a["deployments"]
            ]
        applications.append(Application(a.get("name", "default"), **rest))
    return anyserve.deployment_file(*applications)


@pytest.mark.parametrize("doc", GOOD, ids=lambda d: json.dumps(d)[:100])
def test_all_take_it(validator, doc):
    assert native(json.dumps(doc)) == (True, "")
    validator.validate(doc)
    spec._check(spec._load(), doc, "file")
    assert native(objects(doc)) == (True, "")


@pytest.mark.parametrize("doc", BAD, ids=lambda d: json.dumps(d)[:100])
def test_all_refuse_it(validator, doc):
    taken, told = native(json.dumps(doc))
    assert not taken and told.startswith("stdin:")
    assert not validator.is_valid(doc)
    with pytest.raises(DeclarationError):
        spec._check(spec._load(), doc, "file")


@pytest.mark.parametrize("doc", NATIVE_ONLY, ids=lambda d: json.dumps(d)[:100])
def test_the_server_refuses_more(doc):
    assert not native(json.dumps(doc))[0]


def test_every_word_of_the_schema_is_understood():
    """A word that Python does not know would be taken for no rule at all."""

    def walk(rules):
        assert isinstance(rules, dict)
        for word, rule in rules.items():
            assert word in spec._WORDS, word
            if word in ("properties", "$defs"):
                for inner in rule.values():
                    walk(inner)
            elif word in ("anyOf", "allOf", "oneOf"):
                for inner in rule:
                    walk(inner)
            elif word in ("items", "not", "if", "then", "propertyNames") or (
                word == "additionalProperties" and isinstance(rule, dict)
            ):
                walk(rule)

    walk(anyserve.schema())


def test_a_mistake_is_told_in_words():
    def told(**options):
        with pytest.raises(DeclarationError) as e:
            Deployment("d", **options)
        return str(e.value)

    assert told(num_replica=2) == "deployment 'd' has no option num_replica; did you mean num_replicas?"
    assert told(num_replicas="2") == "deployment 'd': num_replicas is a number or 'auto', not '2'"
    assert told(num_replicas=-1) == "deployment 'd': num_replicas is at least 0, not -1"
    assert told(version="x" * 129) == "deployment 'd': version has at most 128 bytes, not 129"
    assert told(max_queued_requests=0) == "deployment 'd': max_queued_requests is not allowed to be 0"
    assert told(logging_config={"log_level": "info"}) == (
        "deployment 'd': logging_config: log_level is one of DEBUG, INFO, WARNING, ERROR, CRITICAL, not 'info'"
    )
    assert told(env={"A-B": "x"}).startswith("deployment 'd': env: the name is not of the form")
    assert told(user_config=float("nan")).startswith("deployment 'd' cannot be written as JSON: ")
    assert told(user_config={1, 2}).startswith("deployment 'd' cannot be written as JSON: ")
    assert told(cpu_affinity="auto") == "deployment 'd' needs num_cpus"
    with pytest.raises(DeclarationError, match="application 'a' has one of import_path, command"):
        Application("a")
    with pytest.raises(DeclarationError, match="application 'a' has only one of import_path, command"):
        Application("a", import_path="m", command=["x"])
    with pytest.raises(DeclarationError, match="'x\\\\n'"):
        Deployment("x\n")


def test_options_are_read_and_not_changed():
    config = {"a": [1]}
    d = Deployment("d", user_config=config, num_replicas=2, version=None)
    config["a"].append(2)
    d.user_config["a"].append(3)
    d.to_dict()["num_replicas"] = 9
    assert d.user_config == {"a": [1]} and d.num_replicas == 2 and d.name == "d"
    assert d.version is None and d.graceful_shutdown_timeout_s == 20  # the default
    with pytest.raises(AttributeError):
        d.num_replica
    assert d == Deployment("d", num_replicas=2, user_config={"a": [1]}) != Deployment("d")
    assert repr(d) == "Deployment(name='d', user_config={'a': [1]}, num_replicas=2)"


def test_names_are_there_once():
    with pytest.raises(DeclarationError, match="application 'default' is there twice"):
        anyserve.deployment_file(Application(import_path="a"), Application(import_path="b"))
    with pytest.raises(DeclarationError, match="deployment 'd' is there twice"):
        anyserve.deployment_file(
            Application("a", import_path="a", deployments=[Deployment("d")]),
            Application("b", import_path="b", deployments=[Deployment("d")]),
        )


CODE = """
from anyserve import AnyServe
app = AnyServe()
app.deployment(num_replicas=3, user_config={"t\\tab": "\\u00e4"})
@app.model("a")
def a(request): ...
@app.model("b", deployment="side")
def b(request): ...
app.deployment("side", memory="1G", env={"X": "1"})
@app.model("c", deployment="plain")
def c(request): ...
"""


def test_a_file_is_built_from_code_and_reads_back(run, tmp_path):  # noqa: F811
    lines = run({"shop.py": CODE}, "shop.py", "--describe=lines").stdout.splitlines()
    assert lines[0].split("\t")[0] == "shop" and lines[2] == "plain\tc:1"

    def build(*args, **kwargs):
        return subprocess.run([BINARY, "build", *args], cwd=tmp_path, capture_output=True, text=True, timeout=60, **kwargs,
                              env={"PYTHONPATH": str(PACKAGE), "PATH": "/usr/bin:/bin",
                                   "ANYSERVE_PYTHON": sys.executable})  # fmt: skip

    p = build("shop.py:app", "-o", "anyserve.yaml")
    assert (p.returncode, p.stdout, p.stderr) == (0, "", "")
    text = (tmp_path / "anyserve.yaml").read_text()
    assert build("shop.py:app").stdout == text
    assert native(text) == (True, "")
    for line in ("    import_path: shop.py:app", "      - name: shop", "        num_replicas: 3",
                 '        user_config: {"t\\tab":"ä"}', "      - name: side", "        memory: 1G", '          X: "1"',
                 "      - name: plain", "        graceful_shutdown_timeout_s: 20"):  # fmt: skip
        assert line in text.splitlines()
    # an editor's schema has nothing against it, by a YAML reader that is not ours
    import yaml

    doc = yaml.safe_load(text)
    jsonschema.Draft202012Validator(anyserve.schema()).validate(doc)
    assert doc["applications"][0]["deployments"][0]["user_config"] == {"t\tab": "ä"}

    p = build("shop.py:app", "-o", "/nowhere/x.yaml")
    assert p.returncode == 1 and p.stderr == "anyserve: /nowhere/x.yaml: No such file or directory\n"
    assert build("nothing.py").returncode == 66
    assert build().returncode == 2

    # what cannot be written is told; what was there stays, a link as well, and what it leads to
    def small():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    p = build("shop.py:app", "-o", "anyserve.yaml", preexec_fn=small)
    assert p.returncode == 1 and p.stderr == "anyserve: anyserve.yaml: File too large\n"
    assert (tmp_path / "anyserve.yaml").read_text() == text
    (tmp_path / "full").symlink_to("/dev/full")
    p = build("shop.py:app", "-o", "full")
    assert p.returncode == 1 and p.stderr == "anyserve: full: No space left on device\n"
    (tmp_path / "other.yaml").symlink_to("anyserve.yaml")
    (tmp_path / "anyserve.yaml").write_text("another one")
    assert build("shop.py:app", "-o", "other.yaml").returncode == 0
    assert (tmp_path / "anyserve.yaml").read_text() == text
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".new")]
    assert (tmp_path / "full").is_symlink() and (tmp_path / "other.yaml").is_symlink()


@pytest.mark.parametrize(
    "code, told",
    [
        ("app.deployment('x', num_replicas=2)", "deployment 'x' has options, but no model is in it; there is f"),
        ("app.deployment('f'); app.deployment()", "the options of deployment 'f' are set twice, once without its name"),
        ("app.deployment(); app.deployment()", "the options of the default deployment are set twice"),
        ("app.deployment('f', numreplicas=2)", "has no option numreplicas; did you mean num_replicas?"),
        ("app.deployment('a b')", "'a b' is no deployment name"),
    ],
)
def test_wrong_options_end_the_start(run, code, told):  # noqa: F811
    source = textwrap.dedent("""
        from anyserve import AnyServe
        app = AnyServe()
        @app.model("a")
        def a(request): ...
    """)
    p = run({"f.py": source + code + "\n"}, "f.py", "--describe=lines")
    assert p.returncode == DECLARATION and told in p.stderr


def test_the_server_checks_what_a_schema_cannot_say(run, tmp_path):  # noqa: F811
    (tmp_path / "f.py").write_text(CODE + "app._deployments['side'] = __import__('anyserve').Deployment("
                                   "'side', cpu_affinity='3-1')\n")  # fmt: skip
    p = subprocess.run([BINARY, "build", "f.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                       env={"PYTHONPATH": str(PACKAGE), "PATH": "/usr/bin:/bin",
                            "ANYSERVE_PYTHON": sys.executable})  # fmt: skip
    assert p.returncode == 78
    assert re.fullmatch(r"f\.py:1:\d+: cpu_affinity: '3-1' is not a range of CPUs\n", p.stderr)


def test_texts_are_read_as_they_are_written():
    """YAML's words: what PyYAML would take for booleans and numbers."""
    assert native("applications: [{import_path: m, deployments: [{name: no, version: 1.10}]}]")[0]
    assert native("applications: [{import_path: m, deployments: [{name: on, idempotent: on}]}]") == (
        False, "stdin:1:70: idempotent: 'on' is neither true nor false\n")  # fmt: skip


def test_errors_are_bounded():
    doc = {"applications": [{"import_path": "m", "deployments": [{"name": "d%d" % i, "x": 1} for i in range(LIMIT + 1)]}]}
    told = native(json.dumps(doc))[1].splitlines()
    assert len(told) == LIMIT + 1 and told[-1] == "stdin: and 1 more"
    doc["applications"][0]["deployments"].pop()
    assert len(native(json.dumps(doc))[1].splitlines()) == LIMIT


def test_the_page_s_python_is_right(capsys):
    page = subprocess.run([BINARY, "deployment-page"], capture_output=True, text=True, check=True).stdout
    exec(re.search(r"```python\n(.*?)```", page, re.S)[1], {})
    assert native(capsys.readouterr().out) == (True, "")

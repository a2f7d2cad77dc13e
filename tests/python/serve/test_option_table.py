"""The options of serve.deployment against the server's table of keys (`anyserve schema`, made from src/conf/spec/spec_row.h):
each option that becomes a key has the key's default and its limits."""

import sys

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve import serve  # noqa: E402
from anyserve.serve._declare import options  # noqa: E402
from anyserve.serve.config import DeploymentConfig  # noqa: E402
from anyserve.spec import schema  # noqa: E402

SCHEMA = schema()["$defs"]["deployment"]["properties"]
WITH_KEY = [row for row in options.OPTIONS if row.effect in (options.CONFIG, options.KEY)]
ACTOR = [row for row in options.ACTOR_OPTIONS if row.effect == options.KEY]
# Defaults that Ray's programs see, and the server's. Where it matters the key is sent always, below.
OTHER_DEFAULTS = {
    "max_ongoing_requests": (5, None),  # sent always
    "max_queued_requests": (-1, None),  # sent always
    "max_queued_requests_per_caller": (False, None),
    "graceful_shutdown_wait_loop_s": (2.0, 0),  # 0: one second
    "max_constructor_retry_count": (20, None),  # by --max-start-failures
    "max_surge_percent": (0, None),
}
SENT_ALWAYS = {"max_ongoing_requests", "max_queued_requests", "num_replicas"}
OTHER_LOW = {"num_replicas": 1}  # as in Ray; an application can be scaled to 0 by a file
OBJECTS = {"backpressure_config", "request_router_config"}  # kept as they are


def keys(row):
    return [key.strip() for key in (row.key or row.name).split(",")]


def made(row, value):
    """A deployment with this option."""
    given = {"ray_actor_options": {row.name: value}} if row in ACTOR else {row.name: value}
    return serve.deployment(name="d", **given)(lambda: None)


@pytest.mark.parametrize("row", WITH_KEY + ACTOR, ids=lambda row: row.name)
def test_each_key_is_in_the_table(row):
    for key in keys(row):
        assert key in SCHEMA


def test_each_key_of_the_table_is_an_option():
    """Or is set by other means: the program's code is none of a file's, and has no version."""
    known = {key for row in WITH_KEY + ACTOR for key in keys(row)}
    assert set(SCHEMA) - known == {"name", "ingress", "version"}


@pytest.mark.parametrize("row", [r for r in WITH_KEY if r.effect == options.CONFIG and r.name not in OBJECTS], ids=lambda row: row.name)
def test_defaults_are_those_of_the_table(row):
    (key,) = keys(row)
    ours, servers = getattr(DeploymentConfig(), row.name), SCHEMA[key].get("default")
    if row.name in OTHER_DEFAULTS:
        assert (ours, servers) == OTHER_DEFAULTS[row.name] and ours != servers
    else:
        assert ours == servers


def test_what_is_sent_without_options():
    config = DeploymentConfig()
    assert options.keys_of(config, {}, {}) == {name: getattr(config, name) for name in SENT_ALWAYS}


def numbers():
    """(row, value, whether it is allowed): at each limit and beyond it."""
    for row in WITH_KEY + ACTOR:
        rule = SCHEMA.get(row.key or row.name, {})
        if "minimum" not in rule:
            continue
        low, high, is_int = OTHER_LOW.get(row.name, rule["minimum"]), rule["maximum"], "integer" in rule["type"]
        yield row, low, True
        yield row, high, True
        yield row, low - 1 if is_int else low / 2 or -0.001, False
        yield row, high + 1, False


@pytest.mark.parametrize("row, value, allowed", numbers(), ids=lambda v: getattr(v, "name", str(v)))
def test_limits_are_those_of_the_table(row, value, allowed):
    if allowed:
        d = made(row, value)
        assert d.keys()[row.key or row.name] == value
    else:
        with pytest.raises(ValueError, match=row.name):
            made(row, value).keys()


def test_texts_at_their_limit():
    row = options.BY_NAME["fallback"]
    n = SCHEMA["fallback"]["maxLength"]
    assert made(row, "a" * n).keys()["fallback"] == "a" * n
    for bad in "a" * (n + 1), "":
        with pytest.raises(ValueError, match="fallback"):
            made(row, bad)

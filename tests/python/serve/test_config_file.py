"""Config files of Ray Serve, as the applications that the server is sent."""

import json

import pytest

from anyserve.serve._cli import config_file, say, sending


def read(tmp_path, application):
    file = tmp_path / "config.yaml"
    file.write_text("applications:\n- import_path: m:app\n%s" % application)
    return config_file.read(str(file)).applications[0]


def test_the_policy_of_an_application_is_sent(tmp_path, caplog):
    given = read(tmp_path, "  autoscaling_policy: {policy_function: 'scaling:coupled', policy_kwargs: {n: 3}}\n")
    assert given["autoscaling_policy"] == {"policy_function": "scaling:coupled", "policy_kwargs": {"n": 3}}
    assert "no effect" not in caplog.text
    assert "autoscaling_policy" not in read(tmp_path, "")


@pytest.mark.parametrize("policy, said", [("3", "autoscaling_policy"), ("{policy_functon: 'a:b'}", "did you mean 'policy_function'?"),
                                          ("{policy_function: 7}", "policy_function"), ("{policy_kwargs: 3}", "policy_kwargs")])  # fmt: skip
def test_a_wrong_one_is_named(tmp_path, policy, said):
    with pytest.raises(say.Refused) as e:
        read(tmp_path, "  autoscaling_policy: %s\n" % policy)
    assert "config.yaml" in str(e.value) and said in str(e.value)


@pytest.mark.parametrize("value, capacity", [("0", 0), ("49.9", 49.9), ("100", 100), ("null", None)])
def test_target_capacity_is_sent(tmp_path, caplog, value, capacity):
    file = tmp_path / "config.yaml"
    file.write_text("target_capacity: %s\napplications: []\n" % value)
    config = config_file.read(str(file))
    assert config.capacity == capacity
    sent = json.loads(sending._text_of(config, []).content())
    assert sent == {"applications": []} if capacity is None else {"applications": [], "target_capacity": capacity}
    assert "no effect" not in caplog.text


@pytest.mark.parametrize("value", ["-1", "-0.001", "100.001", ".nan", ".inf", "half", "'50'", "true", "[1]"])
def test_another_target_capacity_is_refused_with_its_place(tmp_path, value):
    file = tmp_path / "config.yaml"
    file.write_text("applications: []\ntarget_capacity: %s\n" % value)
    with pytest.raises(say.Refused) as e:
        config_file.read(str(file))
    assert "config.yaml:2:1: target_capacity: is a number from 0 to 100, not" in str(e.value)

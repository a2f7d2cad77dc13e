"""Config files of Ray Serve, as the applications that the server is sent."""

import pytest

from anyserve.serve._cli import config_file, say


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

"""PUT and DELETE of one application, and the check that nobody has changed it meanwhile."""

import json
import threading
import time

import pytest

from support import paths, wait
from support.deployments import APPLICATIONS, api, causes, deployment, healthy
from support.process import procs
from support.protocol.http import Unix


def app(**more):
    keys = {"import_path": "deployed:app", "working_dir": str(paths.APPS)}
    return {**keys, **more}


def side(n, **more):
    """One of many: its model has a name of its own."""
    return app(**{"env": {"MODEL": f"m{n}"}, "import_path": "named:app", **more})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "named.py").write_text("""
import os
import anyserve
app = anyserve.AnyServe()
app.model(os.environ["MODEL"], deployment="main")(lambda x: x)
""")
    return {"working_dir": str(tmp_path)}


def put(server, name, what, query=""):
    return api(server, "PUT", APPLICATIONS + name + query, what)


def names(server):
    return sorted(api(server, "GET", APPLICATIONS)[1]["applications"])


def test_one_comes_changes_and_goes(start):
    server = start({"applications": [{"name": "extra", "import_path": "deployed:app", "working_dir": str(paths.APPS),
                                      "env": {"SIDE": "1"}}]})
    kept = [r["pid"] for r in deployment(server, "side", "extra")["replicas"]]
    status, answer = put(server, "shop", app(), "?dry_run=1")
    assert status == 200 and "generation" not in answer and names(server) == ["extra"]
    assert [(c["application"], c["step"]) for c in answer["changes"]] == [("extra", "unchanged"), ("shop", "added")]
    status, answer = put(server, "shop", app())
    assert status == 200 and answer["generation"] == 2 and names(server) == ["extra", "shop"]
    healthy(server, "main", 1)
    # YAML, with its name
    text = json.dumps(app(name="shop", deployments=[{"name": "main", "num_replicas": 2}]))
    assert put(server, "shop", "# YAML\n" + text)[1]["generation"] == 3
    healthy(server, "main", 2)
    assert put(server, "shop", text)[1]["generation"] == 3  # nothing differs
    assert causes(server)[:2] == ["deploy shop", "deploy shop"]
    assert [r["pid"] for r in deployment(server, "side", "extra")["replicas"]] == kept
    assert api(server, "DELETE", APPLICATIONS + "shop")[0] == 200
    wait.until(lambda: names(server) == ["extra"], server.log.text)
    assert api(server, "DELETE", APPLICATIONS + "shop")[0] == 404
    assert [r["pid"] for r in deployment(server, "side", "extra")["replicas"]] == kept


def test_what_is_wrong_is_named(start):
    server = start({"applications": [{"name": "shop", **app()}]})
    for name, what, said in [
            ("other", app(name="another"), "request:1:"), ("other", app(name="another"), "name: is 'another', but the request is for 'other'"),
            ("a%20b", app(), "letters, digits"), ("a" * 128, app(), "1 to 127"), ("other", {"import_pth": "x"}, "did you mean import_path?"),
            ("other", "[1]", "expected a mapping of application keys"), ("other", app(import_path="no_such_module"), "no_such_module"),
            ("other", app(deployments=[{"name": "main", "fallback": "none/main"}]), "there is no deployment 'none/main'")]:
        status, answer = put(server, name, what)
        assert status == 400 and said in answer["error"], (name, what, answer)
    for query in "?dry_run=x", "?generation=", "?generation=-1", "?generation=x", "?force=1", "?generation=1&x":
        status, answer = put(server, "other", app(), query)
        assert status == 400 and "only dry_run" in answer["error"], query
    assert api(server, "DELETE", APPLICATIONS + "shop?dry_run=1")[0] == 400
    assert names(server) == ["shop"] and api(server, "GET", APPLICATIONS)[1]["generation"] == 1


def test_a_change_that_came_between(start, folder):
    server = start({"applications": [{"name": "shop", **side(0, **folder)}]})
    assert put(server, "shop", side(1, **folder), "?generation=1")[1]["generation"] == 2
    status, answer = put(server, "shop", side(2, **folder), "?generation=1")
    assert (status, answer["generation"]) == (412, 2)
    assert "'shop' was changed in generation 2, after 1" in answer["error"]
    # another application's change is none of this one's
    assert put(server, "other", side(3, **folder), "?generation=2")[1]["generation"] == 3
    assert put(server, "shop", side(2, **folder), "?generation=2")[1]["generation"] == 4
    status, answer = put(server, "new", side(4, **folder), "?generation=9")
    assert (status, answer["generation"]) == (412, 4) and "no generation 9 yet" in answer["error"]
    assert api(server, "DELETE", APPLICATIONS + "shop?generation=3")[0] == 412
    assert names(server) == ["other", "shop"]
    # a number set by hand stays, and is no change of the code
    assert api(server, "POST", "/api/v1/applications/shop/deployments/main/scale", {"target_num_replicas": 2})[0] == 200
    assert put(server, "shop", side(5, **folder), "?generation=4&dry_run=true")[0] == 200
    assert api(server, "DELETE", APPLICATIONS + "shop?generation=4")[1]["generation"] == 6
    # the whole file: any change counts
    status, answer = api(server, "PUT", APPLICATIONS + "?generation=5", {"applications": []})
    assert (status, answer["generation"]) == (412, 6)
    assert api(server, "PUT", APPLICATIONS + "?generation=6", {"applications": []})[0] == 200


def test_what_is_known_of_each(start, folder):
    began = time.time()
    server = start({"applications": [{"name": "shop", **side(0, **folder)}, {"name": "extra", **side(1, **folder)}]})
    healthy(server, "main", 1)
    first = api(server, "GET", APPLICATIONS)[1]["applications"]
    shop = first["shop"]
    assert began <= shop["last_deployed_time_s"] <= time.time()
    assert shop["source"] == "declarative" and shop["docs_path"] is None
    assert shop["deployed_app_config"]["import_path"] == "named:app" and shop["deployed_app_config"]["env"] == {"MODEL": "m0"}
    config = shop["deployments"]["main"]["deployment_config"]
    assert (config["name"], config["num_replicas"], config["graceful_shutdown_timeout_s"]) == ("main", 1, 20)
    (replica,) = shop["deployments"]["main"]["replicas"]
    assert began - 1 <= replica["start_time_s"] <= time.time() and replica["replica_id"] == "main-0"
    # a change of one is no deploy of the other, and neither is a scale
    order = "/api/v1/applications/extra/deployments/main/scale"
    assert api(server, "POST", order, {"target_num_replicas": 2})[0] == 200
    assert put(server, "shop", side(0, deployments=[{"name": "main", "version": "2", "max_constructor_retry_count": 3}], **folder))[0] == 200
    healthy(server, "main", 1, generation=3)
    second = api(server, "GET", APPLICATIONS)[1]["applications"]
    assert second["shop"]["last_deployed_time_s"] > shop["last_deployed_time_s"]
    assert second["extra"]["last_deployed_time_s"] == first["extra"]["last_deployed_time_s"]
    # the next controller says the same
    old = server.controller
    procs.kill(old)
    wait.until(lambda: server.controller not in (None, old), server.log.text)
    healthy(server, "main", 1, generation=3)
    third = api(server, "GET", APPLICATIONS)[1]["applications"]
    for name in "shop", "extra":
        assert third[name]["last_deployed_time_s"] == second[name]["last_deployed_time_s"]
        for a, b in zip(third[name]["deployments"]["main"]["replicas"], second[name]["deployments"]["main"]["replicas"]):
            assert a["pid"] == b["pid"] and abs(a["start_time_s"] - b["start_time_s"]) < 0.1
    server.expected += ["unexpected_exit", "child_exit"]
    server.forget_fds()


def test_a_runtime_env_becomes_keys(start, folder):
    server = start({"applications": []})
    what = {**folder, "import_path": "named:app", "runtime_env": {"env_vars": {"MODEL": "here"}}}
    assert put(server, "shop", what)[0] == 200
    healthy(server, "main", 1)
    config = api(server, "GET", APPLICATIONS)[1]["applications"]["shop"]["deployed_app_config"]
    assert config["env"] == {"MODEL": "here"} and "runtime_env" not in config
    status, answer = put(server, "other", {**what, "runtime_env": {"pip": ["x"], "conda": "y", "env_vars": {}}})
    assert status == 400 and "runtime_env: pip, conda: not supported" in answer["error"]
    server.forget_fds()


def test_a_prefix_is_of_one_application(start, folder):
    server = start({"applications": []})
    assert put(server, "api", side(0, route_prefix="/api", **folder))[0] == 200
    status, answer = put(server, "clash", side(1, route_prefix="/api", **folder))
    assert status == 400
    assert 'Prefix /api is being used by application "api". Failed to deploy application "clash".' in answer["error"]
    assert put(server, "api", side(0, route_prefix="/api", **folder))[0] == 200
    assert put(server, "other", side(1, route_prefix=None, **folder))[0] == 200
    prefixes = {n: a["route_prefix"] for n, a in api(server, "GET", APPLICATIONS)[1]["applications"].items()}
    assert prefixes == {"api": "/api", "other": None}
    server.forget_fds()


def test_if_match(start, folder):
    server = start({"applications": [{"name": "shop", **side(0, **folder)}]})

    def request(tag):
        c = Unix(f"{server.folder_of_port()}/control.sock")
        c.request("PUT", APPLICATIONS + "shop", json.dumps(side(1, **folder)), headers={"If-Match": tag})
        r = c.getresponse()
        status, said = r.status, json.loads(r.read())
        c.close()
        return status, said
    assert request("x")[0] == 400
    assert request('"1"')[1]["generation"] == 2
    assert request("1")[0] == 412
    assert request('"2"')[0] == 200


def test_many_at_once_lose_nothing(start, folder):
    """Each client adds, changes and keeps its own application; a client of two tries again after 412."""
    server = start({"applications": []})
    problems, answers = [], []

    def client(n):
        for version in "1", "2":
            status, answer = put(server, f"app{n}", side(n, deployments=[{"name": "main", "version": version}], **folder))
            if status != 200:
                problems.append((n, status, answer))
            answers.append(answer.get("generation"))

    def rival(n):
        while True:
            generation = api(server, "GET", APPLICATIONS)[1]["generation"]
            status, answer = put(server, "shared", side(100 + n, **folder), f"?generation={generation}")
            if status == 200:
                return
            if status != 412:
                problems.append((n, status, answer))
                return
    threads = [threading.Thread(target=client, args=(n,)) for n in range(4)] + \
              [threading.Thread(target=rival, args=(n,)) for n in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not problems
    assert sorted(answers) == sorted(set(answers))
    assert names(server) == ["app0", "app1", "app2", "app3", "shared"]
    for n in range(4):
        healthy(server, "main", 1, f"app{n}")
    history = api(server, "GET", "/api/serve/history")[1]["generations"]
    assert all(len(g["changes"]) == 1 for g in history[:-1])
    server.forget_fds()  # of the workers that came


def test_a_client_that_waits_and_leaves(start, folder):
    server = start({"applications": []})
    slow = app(env={"SLOW_IMPORT": "1"})
    first = Unix(f"{server.folder_of_port()}/control.sock")
    first.request("PUT", APPLICATIONS + "slow", json.dumps(slow))
    second = Unix(f"{server.folder_of_port()}/control.sock")
    second.request("PUT", APPLICATIONS + "gone", json.dumps(side(1, **folder)))
    second.close()
    first.close()  # while its code is read: nothing changes
    assert put(server, "third", side(2, **folder))[0] == 200
    assert names(server) == ["third"]
    server.forget_fds()

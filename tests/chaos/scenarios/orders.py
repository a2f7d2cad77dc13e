"""What `failpoints` asks of a server. An order is asked again until it is answered, and knows when it is done.

Who asks does not know that the controller ends meanwhile: it sees a connection that breaks.
"""

import http.client
import json
import os
import signal
import threading
import time

import rig
from scenarios import update
from support.deployments import APPLICATIONS
from support.protocol.http import Unix

MOST = 3  # replicas of `model`


class Deployed(update.Deployed):
    """`model`, which the load calls, and sometimes `frail`, which cannot start while the file `flag` is there."""

    def __init__(self, folder, *options, **kwargs):
        self.version, self.config, self.flag, self.has_frail = "first", 0, os.path.join(folder, "flag"), False
        # replicas of an update start at once, and need not prove themselves for long: it is the controller that is measured
        super().__init__(folder, "--update-min-ready", "50ms", *options, **kwargs)

    def spec(self, version, how=None):
        spec = super().spec(version, how)
        spec["applications"][0]["deployments"][0] |= {"rolling_update_percentage": 1,
                                                      "max_queued_requests": 1000 + self.config}
        if self.has_frail:
            frail = {"name": "frail", "max_restarts": 0, "env": {"CHAOS_FLAG": self.flag}}
            spec["applications"].append({"name": "frail", "import_path": "frail.py", "working_dir": str(rig.APPS),
                                         "deployments": [frail]})
        return spec

    def ask(self, method, path=APPLICATIONS, body=None, also=()):
        """The JSON of the answer; OSError or HTTPException when the controller ends meanwhile. also: statuses that will do, too."""
        c = Unix(os.path.join(self.folder_of_port(), "control.sock"))
        try:
            c.request(method, path, json.dumps(body) if body is not None else None)
            r = c.getresponse()
            text = r.read()
            assert r.status == 200 or r.status in also, (r.status, text)
            return json.loads(text)
        finally:
            c.close()

    def state(self):
        """None: there is no controller just now."""
        try:
            return self.ask("GET")
        except (OSError, http.client.HTTPException):
            return None


class Order:
    """Done: what is_reached says of the server's state, once it was answered."""

    method, path, body, also, statuses = "POST", APPLICATIONS, None, (), ("HEALTHY",)

    def __init__(self, server):
        self.server, self.answer, self.failure = server, None, None
        self.prepare()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def prepare(self):
        pass

    def _run(self):
        while self.answer is None and self.failure is None:
            try:
                self.answer = self.ask()
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)
            except AssertionError as e:  # it was refused
                self.failure = e

    def ask(self):
        return self.server.ask(self.method, self.path, self.body, self.also)

    def is_done(self):
        if self._thread.is_alive():
            return False
        if self.failure:
            raise self.failure
        state = self.server.state()
        return state is not None and self.is_reached(state)

    def is_reached(self, state):
        d = model(state)
        return d["status"] in self.statuses and d["target_num_replicas"] == self.server.replicas and \
            is_running(d, self.server.replicas)


def model(state):
    return state["applications"]["default"]["deployments"]["model"]


def is_running(deployment, replicas):
    """So many, and each has a rank of its own, from 0 on."""
    found = deployment["replicas"]
    return [r["state"] for r in found] == ["RUNNING"] * replicas and sorted(r["rank"] for r in found) == list(range(replicas))


def path_of(verb):
    return f"/api/v1/applications/default/deployments/model/{verb}"


# --- what the load calls ---

class Scale(Order):
    path = path_of("scale")

    def __init__(self, server, replicas):
        self.body, server.replicas = {"target_num_replicas": replicas}, replicas
        super().__init__(server)


class Rest(Scale):
    """As many as in the beginning, whatever the last update came to."""

    statuses = ("HEALTHY", "DEPLOY_FAILED")

    def __init__(self, server):
        super().__init__(server, update.REPLICAS)


class Restart(Order):
    """Is not stored: a controller that ends forgets what is left of it."""

    path, body = path_of("restart"), {}


class Update(Order):
    """A good one, by its version."""

    method, how = "PUT", None
    count = 0

    def prepare(self):
        Update.count += 1
        version = f"{self.how or 'good'}-{Update.count}"
        self.body = self.server.spec(version, self.how)
        if not self.how:
            self.server.version = version

    def is_reached(self, state):
        return model(state)["generation"] == self.answer["generation"] and super().is_reached(state)


class Bad(Update):
    """Done when it was taken back."""

    how = "import"

    def is_reached(self, state):
        d = model(state)
        return state["generation"] > self.answer["generation"] and d["status"] == "DEPLOY_FAILED" and \
            is_running(d, self.server.replicas)


class Hang(Bad):
    how = "hang"


class Config(Update):
    """Running replicas are told."""

    def prepare(self):
        self.server.config += 1
        self.body = self.server.spec(self.server.version)


class Rollback(Order):
    """To what was healthy before. Asked twice it goes to and fro: both are good."""

    path, body, also, statuses = path_of("rollback"), {}, (404,), ("HEALTHY", "DEPLOY_FAILED")


# --- `frail`, which nobody calls ---

class Frail(Order):
    def is_reached(self, state):
        app = state["applications"].get("frail")
        return bool(app) and self.is_so(app["deployments"]["frail"])


class Break(Frail):
    """It is deployed, and cannot start: it is given up."""

    method = "PUT"

    def prepare(self):
        open(self.server.flag, "w").close()
        self.server.has_frail = True
        self.body = self.server.spec("first")

    def is_so(self, d):
        return d["status"] in ("DEPLOY_FAILED", "UNHEALTHY") and \
            [p["state"] for p in self.server.status()["processes"] if p["deployment"] == "frail"] == ["down"]


class Revive(Frail):
    """SIGUSR1, again as long as nothing comes of it, as somebody would who waits for it."""

    def prepare(self):
        os.unlink(self.server.flag)

    def ask(self):
        os.kill(self.server.supervisor, signal.SIGUSR1)
        return {}

    def is_so(self, d):
        return d["status"] == "HEALTHY" and is_running(d, 1)


class Remove(Order):
    method, path, also = "DELETE", APPLICATIONS + "frail", (404,)

    def prepare(self):
        self.server.has_frail = False

    def is_reached(self, state):
        return "frail" not in state["applications"]

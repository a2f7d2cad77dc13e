"""`routed(ROUTER)`: a server with the application routed.py, whose router is that one."""

import json
import urllib.parse
import urllib.request

import pytest

from support import wait
from support.protocol import prometheus


class Routed:
    def __init__(self, server):
        self.server = server

    def ask(self, what="", times=1, **query):
        """The replicas that have answered so many calls."""
        text = urllib.parse.urlencode({"what": what, "times": times, **query})
        with urllib.request.urlopen(f"http://{self.server.address}/?{text}", timeout=wait.SECONDS) as answer:
            return json.load(answer)

    def outcomes(self):
        """How many questions have ended in which way, without those of which there is none."""
        found = {}
        for (name, labels), value in prometheus.parse(self.server.metrics()).items():
            labels = dict(labels)
            if name == "anyserve_router_decisions_total" and labels["deployment"] == "Who" and value:
                found[labels["outcome"]] = int(value)
        return found

    def wait_for_process(self, since):
        """Until a policy process has come after this place of the log."""
        self.server.log.wait("event=policy_process deployment=Who", since)

    def pid(self):
        return next(r["pid"] for r in self.server.status()["replicas"] if r["name"].startswith("Who.policy-"))


@pytest.fixture
def routed(serve):
    def start(router, *options, **env):
        server = serve("routed.py", *options, env={"ROUTER": router, **env})
        server.log.wait("event=policy_process deployment=Who")
        return Routed(server)

    return start

"""Spot instances: replicas are listed as the actors that they are, and killed one after the other while a client retries."""

import threading
import time

import ray
from ray import serve
from ray.util.state import list_actors

ray.init(ignore_reinit_error=True, namespace="spot")


@serve.deployment(num_replicas=3, health_check_period_s=1, health_check_timeout_s=1)
class Model:
    async def __call__(self, x):
        return x * x


handle = serve.run(Model.bind(), name="spot", route_prefix=None)


def replicas():
    return [a for a in list_actors(filters=[("class_name", "=", "ServeReplica:spot:Model"), ("state", "=", "ALIVE")], limit=1000)]


def wait_until(what):
    until = time.monotonic() + 60
    while not what():
        assert time.monotonic() < until, "it does not happen"
        time.sleep(0.1)


class Client(threading.Thread):
    """Sends requests without end; a failed one is sent again."""

    def __init__(self):
        super().__init__()
        self.stop, self.sent, self.wrong, self.lost = threading.Event(), 0, 0, 0

    def ask(self, x):
        for _ in range(50):
            try:
                return handle.remote(x).result(timeout_s=20)
            except Exception:
                time.sleep(0.1)
        return None

    def run(self):
        while not self.stop.is_set():
            answer = self.ask(self.sent)
            self.lost += answer is None
            self.wrong += answer is not None and answer != self.sent**2
            self.sent += 1
            time.sleep(0.01)


wait_until(lambda: len(replicas()) == 3)
for actor in replicas():
    print(actor["class_name"], actor["state"], actor["name"].startswith("SERVE_REPLICA::spot#Model#"), actor["ray_namespace"])

client = Client()
client.start()
wait_until(lambda: client.sent > 20)
for _ in range(2):
    victim = replicas()[0]
    pid = victim["pid"]
    ray.kill(ray.get_actor(victim["name"], namespace="serve"))
    wait_until(lambda: all(a["pid"] != pid for a in replicas()))
    print("a replica is gone")
    before = client.sent
    wait_until(lambda: client.sent > before + 20)
    wait_until(lambda: len(replicas()) == 3)
    print("there are", len(replicas()), "again")
client.stop.set()
client.join()
print("lost:", client.lost, "wrong:", client.wrong, "sent:", client.sent > 40)
wait_until(lambda: str(serve.status().applications["spot"].status.value) == "RUNNING")
print(serve.status().applications["spot"].deployments["Model"].replica_states)
try:
    ray.get_actor("SERVE_REPLICA::spot#Model#absent", namespace="serve")
except ValueError as e:
    print("ValueError", "SERVE_REPLICA::spot#Model#absent" in str(e))
serve.shutdown()
ray.shutdown()

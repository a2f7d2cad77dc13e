"""Code in a replica learns which actor it is."""

import os

import ray
from ray import serve
from ray.util.state import list_actors

ray.init(ignore_reinit_error=True)


@serve.deployment(num_replicas=2)
class Which:
    def __init__(self):
        self.at_first = ray.get_runtime_context().get_actor_id()

    def __call__(self):
        context = ray.get_runtime_context()
        return context.get_actor_id(), context.get_actor_name(), os.getpid(), self.at_first


def ids():
    return sorted(handle.broadcast("__call__").results())


handle = serve.run(Which.bind(), name="which", route_prefix=None)
found = ids()
listed = {a.actor_id: a for a in list_actors(filters=[("class_name", "=", "ServeReplica:which:Which"), ("state", "=", "ALIVE")])}
print(len(found), len({i for i, _, _, _ in found}), sorted(listed) == [i for i, _, _, _ in found])
for actor_id, name, pid, at_first in found:
    print(len(actor_id), actor_id == at_first, listed[actor_id].name == name, listed[actor_id].pid == pid, name.startswith("SERVE_REPLICA::which#Which#"))
serve.shutdown()
ray.shutdown()

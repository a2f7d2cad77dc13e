"""What code learns of where it runs: actors, tasks, the driver; lists of actors; init and shutdown."""

import ray
from ray.util.state import list_actors

context = ray.init(ignore_reinit_error=True, namespace="context")
try:
    ray.init()
except RuntimeError as e:
    print("RuntimeError", "ignore_reinit_error" in str(e))
print(ray.is_initialized(), ray.get_runtime_context().namespace)


@ray.remote
class Named:
    def ids(self):
        c = ray.get_runtime_context()
        return c.get_actor_id(), c.get_actor_name(), c.namespace, c.get_job_id(), c.get_node_id()

    def me(self):
        return ray.get_runtime_context().current_actor


@ray.remote
def task():
    c = ray.get_runtime_context()
    return c.get_actor_id(), c.get_task_id() is not None, c.get_job_id(), c.get_task_name()


actor = Named.options(name="one").remote()
actor_id, name, namespace, job, node = ray.get(actor.ids.remote())
print(name, namespace, len(actor_id) == 32, job == ray.get_runtime_context().get_job_id(), node == ray.get_runtime_context().get_node_id())
print(ray.get(ray.get(actor.me.remote()).ids.remote())[0] == actor_id)
print(ray.get_runtime_context().get_actor_id())
none, has_id, job_of_task, task_name = ray.get(task.remote())
print(none, has_id, job_of_task == job, task_name.endswith("task"))
listed = [a for a in list_actors(filters=[("ray_namespace", "=", "context"), ("state", "=", "alive")])]
print([(a.class_name, a["name"], a.state, a.actor_id == actor_id, a.pid > 0) for a in listed])
ray.kill(actor)
print([a.state for a in list_actors(filters=[("actor_id", "=", actor_id)])])
for wrong in (lambda: list_actors(filters=[("nonsense", "=", "x")]), lambda: list_actors(filters=[("state", "<", "x")])):
    try:
        wrong()
    except Exception:
        print("refused")
ray.shutdown()
print(ray.is_initialized())

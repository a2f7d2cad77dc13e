"""The replica context in the constructor and in methods."""

from anyserve import serve


@serve.deployment(name="where")
class Where:
    def __init__(self):
        c = serve.get_replica_context()
        self.first = c.app_name, c.deployment

    def __call__(self):
        c = serve.get_replica_context()
        return [self.first, c.app_name, c.deployment, c.servable_object is self, c.replica_tag == c.replica_id.unique_id]


print(serve.run(Where.bind(), name="context", route_prefix=None).remote().result())
try:
    serve.get_replica_context()
except Exception as e:
    print(type(e).__name__)
serve.shutdown()

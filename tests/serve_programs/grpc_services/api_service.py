"""The service of ray.serve that says which applications there are, by its stub."""

import os

import grpc
import pantry

from anyserve import serve
from anyserve.serve.config import gRPCOptions
from anyserve.serve.generated.serve_pb2 import HealthzRequest, ListApplicationsRequest
from anyserve.serve.generated.serve_pb2_grpc import RayServeAPIServiceStub

PORT = int(os.environ.get("GRPC_PORT", "9000"))


@serve.deployment
class Store:
    def Price(self, ask):
        return pantry.Answer(text=ask.name)


serve.start(grpc_options=gRPCOptions(port=PORT, grpc_servicer_functions=["pantry:add_PantryServicer_to_server"]))
serve.run(Store.bind(), name="one", route_prefix="/one")
serve.run(Store.bind(), name="two", route_prefix="/two")
stub = RayServeAPIServiceStub(grpc.insecure_channel("127.0.0.1:%d" % PORT))
print(sorted(stub.ListApplications(ListApplicationsRequest()).application_names))
print(repr(stub.Healthz(HealthzRequest()).message))
serve.shutdown()

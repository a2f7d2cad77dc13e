"""The messages and the stub of ray.serve.RayServeAPIService, for clients: `serve_pb2` and `serve_pb2_grpc`."""

"""What the tests of this folder share."""

ADD = "greeter_pb2_grpc.add_GreeterServicer_to_server"

"""What the tests of this folder share."""

ADD = "greeter_pb2_grpc.add_GreeterServicer_to_server"
ADD_NUMBERS = "greeter_pb2_grpc.add_NumbersServicer_to_server"

"""gRPC services of the user: which there are, and how a call of one is answered."""

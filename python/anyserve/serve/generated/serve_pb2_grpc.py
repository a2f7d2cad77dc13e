"""A client of ray.serve.RayServeAPIService."""

from __future__ import annotations

from typing import Any

from . import serve_pb2

__all__ = ["RayServeAPIServiceStub"]

_SERVICE = "/ray.serve.RayServeAPIService/"


class RayServeAPIServiceStub:
    """Its methods: ListApplications, the names of the applications; Healthz, "success" or an error.

    channel: a grpc.Channel, or one of grpc.aio."""

    def __init__(self, channel: Any) -> None:
        self.ListApplications = channel.unary_unary(
            _SERVICE + "ListApplications",
            request_serializer=serve_pb2.ListApplicationsRequest.SerializeToString,
            response_deserializer=serve_pb2.ListApplicationsResponse.FromString,
        )
        self.Healthz = channel.unary_unary(
            _SERVICE + "Healthz",
            request_serializer=serve_pb2.HealthzRequest.SerializeToString,
            response_deserializer=serve_pb2.HealthzResponse.FromString,
        )

"""Messages of ray.serve.RayServeAPIService, which the server answers at its gRPC ports."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

__all__ = ["HealthzRequest", "HealthzResponse", "ListApplicationsRequest", "ListApplicationsResponse"]

_PACKAGE = "ray.serve"
_ONE, _MANY, _TEXT = 1, 3, 9  # LABEL_OPTIONAL, LABEL_REPEATED, TYPE_STRING


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="anyserve/ray_serve_api.proto", package=_PACKAGE, syntax="proto3")
    file.message_type.add(name="ListApplicationsRequest")
    file.message_type.add(name="ListApplicationsResponse").field.add(name="application_names", number=1, type=_TEXT, label=_MANY)
    file.message_type.add(name="HealthzRequest")
    file.message_type.add(name="HealthzResponse").field.add(name="message", number=1, type=_TEXT, label=_ONE)
    return file


_pool = descriptor_pool.DescriptorPool()  # of its own: a program may also load the messages of an installed ray
_pool.Add(_file())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName("%s.%s" % (_PACKAGE, name)))


ListApplicationsRequest = _message("ListApplicationsRequest")
ListApplicationsResponse = _message("ListApplicationsResponse")
HealthzRequest = _message("HealthzRequest")
HealthzResponse = _message("HealthzResponse")

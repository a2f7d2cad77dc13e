"""The exceptions of the SDK."""

from __future__ import annotations

from typing import Any, Type

__all__ = ["DeclarationError", "Error"]

# In the order of their numbers.
STATUS_NAMES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip


class Error(Exception):
    """Raise it in a handler to answer a request with a gRPC status.

    ``code`` is a gRPC status name such as ``"INVALID_ARGUMENT"`` or ``"NOT_FOUND"``, ``message``
    is the text for the client. Any other exception answers the request with INTERNAL.
    """

    def __init__(self, code: str, message: str = "") -> None:
        if code not in STATUS_NAMES or code == "OK":
            raise ValueError(
                "%r is no gRPC status name; one of: %s" % (code, ", ".join(STATUS_NAMES[1:]))
            )
        super().__init__(code, message)
        self.code = code
        self.message = str(message)

    def __str__(self) -> str:
        return "%s: %s" % (self.code, self.message)


class DeclarationError(ValueError):
    """A declaration cannot be served: wrong options, or a handler that does not fit. Raised where it is declared."""


# --- checks of what is declared ---


def is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check_int(value: Any, what: str, low: int, high: int, kind: Type[Exception] = DeclarationError) -> int:
    if not is_int(value) or not low <= value <= high:
        raise kind("%s is an integer from %d to %d, not %r" % (what, low, high, value))
    return int(value)


def check_flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise DeclarationError("%s is True or False, not %r" % (what, value))
    return value

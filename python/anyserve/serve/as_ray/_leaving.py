"""By which link calls of tasks and actors leave.

In Ray, code on the event loop of a replica may block it with ray.get. The answers that a replica's own link brings are read by
that loop, so calls which are made there leave by a second link, which a thread reads. Such calls have no parent, as in Ray:
that the request which makes them is cancelled does not cancel them.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Tuple

from .._calls.transport import Transport, current_request, current_transport

__all__ = ["is_on_loop", "way_out"]


def is_on_loop() -> bool:
    """Whether this code runs on an event loop of a replica."""
    if "ANYSERVE_LINK" not in os.environ:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def way_out() -> Tuple[Transport, Any, bool]:
    """The transport for a call that is made here, the parent of the call, and whether a thread reads its answer."""
    transport = current_transport()
    if is_on_loop():
        beside = getattr(transport, "beside", None)
        if beside is not None:
            return beside, None, True
    return transport, current_request.get(), False

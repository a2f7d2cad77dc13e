"""The lifespan of an ASGI application: its startup before the first request, its shutdown after the last one.

The application runs in one task from startup to shutdown, as the specification says.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Dict, MutableMapping, Optional

from .scope import ASGIApp

logger = logging.getLogger("ray.serve")

FAILED = "ASGI lifespan startup failed. Check replica logs for details."


class Lifespan:
    """Use it on one event loop.

    state: what the application puts into ``scope["state"]`` at its startup; each request gets a copy."""

    def __init__(self, app: ASGIApp) -> None:
        self.state: Dict[str, Any] = {}
        self._app = app
        self._task: "Optional[asyncio.Task[None]]" = None
        self._stop: "Optional[asyncio.Future[None]]" = None
        self._outcome: "Optional[asyncio.Future[None]]" = None  # of startup, then of shutdown

    async def startup(self) -> None:
        """RuntimeError: the application has raised, or said that it failed; the cause is in the log."""
        loop = asyncio.get_running_loop()
        self._stop, self._outcome = loop.create_future(), loop.create_future()
        self._task = loop.create_task(self._run())
        await self._outcome
        if self._outcome.result() is not None:
            error: Any = self._outcome.result()
            self._task.cancel()
            raise RuntimeError(FAILED) from (error if isinstance(error, BaseException) else None)

    async def shutdown(self) -> None:
        """Never raises; a failure is in the log. Nothing is done where the startup has failed."""
        if self._task is None or self._stop is None or self._outcome is None or self._stop.done():
            return
        if not self._outcome.done() or self._outcome.result() is not None or self._task.done():
            return
        self._outcome = asyncio.get_running_loop().create_future()
        self._stop.set_result(None)
        await self._outcome

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        received = 0

        async def receive() -> MutableMapping[str, Any]:
            nonlocal received
            received += 1
            if received == 1:
                return {"type": "lifespan.startup"}
            assert self._stop is not None
            await asyncio.shield(self._stop)
            return {"type": "lifespan.shutdown"}

        try:
            await self._app(scope, receive, self._send)
        except asyncio.CancelledError:
            raise
        except BaseException as e:
            logger.error("Exception in 'lifespan' protocol\n", exc_info=e)
            self._end(e)
        else:
            self._end(None)  # without an answer to the startup: it has nothing to start, and gets no shutdown

    def _is_stopping(self) -> bool:
        return self._stop is not None and self._stop.done()

    def _end(self, outcome: Any) -> None:
        """outcome: None, or why it failed: an exception or a text."""
        if self._outcome is not None and not self._outcome.done():
            if isinstance(outcome, str):
                logger.error("ASGI lifespan: %s", outcome)
            self._outcome.set_result(outcome)

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        kind = message["type"]
        stage = "shutdown" if self._is_stopping() else "startup"
        assert self._outcome is not None
        if kind not in ("lifespan.%s.complete" % stage, "lifespan.%s.failed" % stage) or self._outcome.done():
            raise RuntimeError("Got invalid state transition on lifespan protocol: %r" % kind)
        failed = kind.endswith("failed")
        self._end((message.get("message") or "%s failed" % stage) if failed else None)

"""The servable of a policy process: a replica of the hidden deployment NAME.policy, which chooses for the deployment NAME.

It is started, checked, killed and replaced as every replica is. Its router gets questions over the frame POLICY, its scaling policy
by CONTROL; both may call deployments by handles.
"""

from __future__ import annotations

import asyncio
from typing import Any, Dict, Optional, Tuple

from ...errors import STATUS_NAMES
from ...replica import DeploymentID
from . import records
from .router_host import RouterHost
from .scaling_host import ScalingHost

UNIMPLEMENTED = STATUS_NAMES.index("UNIMPLEMENTED")


class PolicyProcess:
    """router, scaling: the class or function, or None where the deployment has none of its own."""

    def __init__(self, application: str, deployment: str, router: Any, router_kwargs: Dict[str, Any], scaling: Any,
                 scaling_kwargs: Dict[str, Any]) -> None:  # fmt: skip
        self._router: Optional[RouterHost] = None
        self._scaling: Optional[ScalingHost] = None
        if router is not None:
            self._router = RouterHost(router, router_kwargs, DeploymentID(deployment, application))
        if scaling is not None:
            self._scaling = ScalingHost(scaling, scaling_kwargs)

    def use_link(self, link: Any) -> None:
        """On the event loop: answers what comes by this link (_native.Link)."""
        if self._router is not None:
            self._router.start(link.send_policy, link.spawn)
            link.on_policy(self._router.take)
            link.send_policy(0, records.ready(self._router.wants))

    async def scale(self, question: str) -> Tuple[int, str]:
        """The answer to CONTROL with the operation SCALE: a gRPC status, and the text."""
        if self._scaling is None:
            return UNIMPLEMENTED, "this deployment has no autoscaling policy of its own"
        return await self._scaling.answer(question)

    async def check_health(self) -> None:
        """It is well when its event loop runs."""
        await asyncio.sleep(0)

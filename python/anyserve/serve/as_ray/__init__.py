"""Programs for Ray Serve run unchanged: `import ray` and `from ray import serve` mean AnyServe.

    python -m anyserve.serve.as_ray PROGRAM [ARGS]
    python -m anyserve.serve.as_ray -m MODULE [ARGS]

`install` does the same for this process, before its first `import ray`; in a notebook, `%load_ext anyserve.serve.as_ray`. Replicas
of what such a process deploys do it, too. The guide's page as-ray.md says what there is of Ray.
"""

from __future__ import annotations

import os
from typing import Any, Dict

__all__ = ["install", "is_installed", "load_ipython_extension"]

VARIABLE = "AS_RAY"  # of replicas that inherit it
PAGE = "docs/guide/from-ray.md"  # what is not there is said there
JOB = "AS_RAY_JOB"  # the program that actors and tasks belong to
NAMESPACE = "AS_RAY_NAMESPACE"  # of named actors, by ray.init()
ACTOR = "AS_RAY_ACTOR"  # what a replica that is an actor knows of itself, as JSON

_installed = False
_runtime_env: Dict[str, Any] = {}  # of ray.init()


def install() -> None:
    """From now on, `import ray` in this process and in the replicas of what it deploys means AnyServe. RuntimeError: the
    process has imported another `ray.serve` already."""
    global _installed
    if not _installed:
        from ._hooks import install_hooks

        install_hooks()
        _installed = True
    os.environ[VARIABLE] = "1"


def is_installed() -> bool:
    return _installed


def load_ipython_extension(ipython: Any) -> None:
    """For %load_ext."""
    install()


def environment() -> Dict[str, str]:
    """Variables of the replicas that this process deploys."""
    if not _installed:
        return {}
    from ._job import job

    namespace = os.environ.get(NAMESPACE)
    return {VARIABLE: "1", JOB: job(), **({NAMESPACE: namespace} if namespace else {})}


def default_runtime_env() -> Dict[str, Any]:
    """What ray.init() has set for all that has none of its own."""
    return _runtime_env

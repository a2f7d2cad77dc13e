"""What programs ask of the cluster, which is this machine."""

from __future__ import annotations

import glob
import os
import platform
from typing import Any, Dict, List, Union

from ._listing import node_id

__all__ = ["available_resources", "cluster_resources", "get_gpu_ids", "get_node_ip_address", "nodes", "set_resources"]

ADDRESS = "127.0.0.1"
_given: Dict[str, float] = {}


def set_resources(**given: Any) -> None:
    """What ray.init says: num_cpus, num_gpus, resources; the next call replaces it."""
    _given.clear()
    for key, name in ("num_cpus", "CPU"), ("num_gpus", "GPU"):
        if given.get(key) is not None:
            _given[name] = float(given[key])
    _given.update({k: float(v) for k, v in (given.get("resources") or {}).items()})


def get_gpu_ids() -> Union[List[int], List[str]]:
    """The devices that this process may use, those of CUDA_VISIBLE_DEVICES: numbers, or texts if some are no numbers."""
    devices = [d.strip() for d in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if d.strip()]
    return [int(d) for d in devices] if all(d.isdecimal() for d in devices) else devices


def _memory() -> float:
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def cluster_resources() -> Dict[str, float]:
    """What ray.init was given, else what this machine has: CPU, memory in bytes, and GPU, if there are any."""
    found = {"CPU": float(len(os.sched_getaffinity(0))), "memory": _memory(), "node:" + ADDRESS: 1.0}
    devices = len(get_gpu_ids()) if "CUDA_VISIBLE_DEVICES" in os.environ else len(glob.glob("/dev/nvidia[0-9]*"))
    if devices:
        found["GPU"] = float(devices)
    return {**found, **_given}


def available_resources() -> Dict[str, float]:
    """The same: replicas, tasks and actors reserve nothing."""
    return cluster_resources()


def nodes() -> List[Dict[str, Any]]:
    """One, this machine."""
    return [{"NodeID": node_id(), "Alive": True, "alive": True, "NodeManagerAddress": ADDRESS,
             "NodeManagerHostname": platform.node(), "NodeName": ADDRESS, "Resources": cluster_resources(), "Labels": {}}]  # fmt: skip


def get_node_ip_address() -> str:
    return ADDRESS

"""Actors."""

from .._actors import ActorClass, ActorHandle, ActorMethod
from .._host import exit_actor

__all__ = ["ActorClass", "ActorHandle", "ActorMethod", "exit_actor"]

"""ray.util.state: lists of actors."""

from ..._listing import ActorState, list_actors

__all__ = ["ActorState", "list_actors"]

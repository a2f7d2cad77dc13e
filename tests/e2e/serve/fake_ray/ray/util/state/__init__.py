from ray.util.state.api import list_actors

__all__ = ["list_actors"]

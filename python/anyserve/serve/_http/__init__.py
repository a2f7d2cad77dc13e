"""HTTP in a replica: ASGI applications and handlers of requests."""

"""What the worker program (``python -m anyserve.worker``) is made of: the loop, the event loop, health, warm-up, logs."""

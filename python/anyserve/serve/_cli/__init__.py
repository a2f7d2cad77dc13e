"""The command `serve` of Ray Serve: `anyserve-serve`, `python -m anyserve.serve.cli`, and `serve` where a program runs as
under Ray. `main` is all that others call."""

from .commands import main

__all__ = ["main"]

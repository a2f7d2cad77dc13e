"""`python -m anyserve.serve.cli`: the command `anyserve-serve`."""

from ._cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()

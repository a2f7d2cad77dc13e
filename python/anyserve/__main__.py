"""``python -m anyserve``: the same as the command ``anyserve``."""

from ._cli import main

if __name__ == "__main__":
    main()

"""How a program of the package ends for a mistake of the user: with an exit code, and a text of at most one screen."""

from __future__ import annotations

import argparse
from typing import List, NoReturn, Optional

EX_USAGE = 64
EX_NOTFOUND = 66  # file, module or attribute not found
EX_INTERPRETER = 69  # this Python cannot run workers
EX_RAISED = 70  # the user's code raised
EX_DENIED = 77  # the dispatcher refuses this worker
EX_DECLARATION = 78  # models that cannot be served, or code that cannot be copied

# what user code may raise: sys.exit() ends only the call that it is in
FAULTS = (Exception, SystemExit, KeyboardInterrupt)


class Stop(Exception):
    """Ends the program, with an exit code and a text for the user."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def stop(code: int, text: str) -> NoReturn:
    raise Stop(code, text)


def parse_args(parser: argparse.ArgumentParser, argv: Optional[List[str]]) -> argparse.Namespace:
    try:
        return parser.parse_args(argv)
    except SystemExit as e:
        raise SystemExit(EX_USAGE if e.code else 0) from None

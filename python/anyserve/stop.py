"""How a program of the package ends for a mistake of the user: with an exit code, and a text of at most one screen."""

from __future__ import annotations

import argparse
from typing import NoReturn, Optional

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


class Parser(argparse.ArgumentParser):
    """The options of a program that loads a target."""

    def __init__(self, prog: str, description: Optional[str]) -> None:
        super().__init__(prog=prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.add_argument("target", help="file.py, module, file.py:attribute or module:attribute")

    def exit(self, status: int = 0, message: Optional[str] = None) -> NoReturn:
        super().exit(EX_USAGE if status else 0, message)

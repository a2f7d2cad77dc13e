"""What the command says to people: on stderr, so that what it prints on stdout can be used."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["Refused", "refuse", "say"]


class Refused(Exception):
    """A mistake of the user: the text is all that is said, and the command ends with 1."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def refuse(text: str) -> NoReturn:
    raise Refused(text) from None

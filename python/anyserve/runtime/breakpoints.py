"""breakpoint() in a replica: it has no terminal, unless `anyserve run --debug` gave it one."""

from __future__ import annotations

import os
import sys
from typing import Any, Set, Tuple

from .options import DEBUG

_ADVICE = (
    "`anyserve run --debug` gives a replica your terminal; serve.run(app, _local_testing_mode=True) and app.test_client() run"
    " the code in the program itself"
)
_said: Set[Tuple[str, int]] = set()


def _pass_over(*args: Any, **kwargs: Any) -> None:
    """Says once for each place that nothing stops there. A debugger without input would end the request."""
    frame = sys._getframe(1)
    place = frame.f_code.co_filename, frame.f_lineno
    if place not in _said:
        _said.add(place)
        print("anyserve: breakpoint() at %s:%d is passed over, as replicas have no terminal: %s"
              % (*place, _ADVICE), file=sys.stderr, flush=True)  # fmt: skip


def prepare() -> None:
    """Called before the user's code is loaded. PYTHONBREAKPOINT, which may name a debugger that needs no terminal, counts."""
    if os.environ.get(DEBUG) != "1" and "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = _pass_over

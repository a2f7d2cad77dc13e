"""For the process that only describes what code declares: it must end, whatever that code has started."""

from __future__ import annotations

import faulthandler
import os
import resource
import sys
import threading
from types import FrameType
from typing import List, NoReturn, Optional


def guard() -> None:
    """Prints all stacks at SIGABRT, which the controller sends when it has waited too long; writes no core file."""
    faulthandler.enable(all_threads=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _outermost(frame: Optional[FrameType]) -> Optional[FrameType]:
    """The frame of the function that the thread was started with, without the frames of the module threading."""
    found = frame
    while frame is not None:
        if frame.f_code.co_filename != threading.__file__:
            found = frame
        frame = frame.f_back
    return found


def _describe(thread: threading.Thread) -> str:
    frame = _outermost(sys._current_frames().get(thread.ident or 0))
    if frame is None:
        return repr(thread.name)
    code = frame.f_code
    return "%r (%s, %s:%d)" % (thread.name, code.co_name, code.co_filename, frame.f_lineno)


def living_threads() -> List[str]:
    """The threads that Python waits for when it ends."""
    main = threading.main_thread()
    return [_describe(t) for t in threading.enumerate() if t is not main and not t.daemon]


def leave(code: int) -> NoReturn:
    """Ends the process without waiting for those threads."""
    found = living_threads()
    if found:
        print("anyserve: the code has started threads that are not daemons: %s\n"
              "They run in each replica too, and keep it from ending by itself: it is killed after --stop-timeout. "
              "With threading.Thread(..., daemon=True) it ends at once." % ", ".join(found),
              file=sys.stderr)  # fmt: skip
    sys.stdout.flush()
    sys.stderr.flush()
    if found:
        os._exit(code)
    sys.exit(code)

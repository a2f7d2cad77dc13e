"""Waiting for a condition, with a deadline that only a failing test reaches."""

import time

SECONDS = 30  # a sanitized build on a busy machine is slow


def until(condition, what, seconds=SECONDS):
    """The first true value of condition(); `what` is the text of the failure, or makes it."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain: {what() if callable(what) else what}")
        time.sleep(0.002)

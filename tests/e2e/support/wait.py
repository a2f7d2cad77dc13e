"""Waiting for a condition, with a deadline that only a failing test reaches."""

import time

SECONDS = 90  # what a sanitized build on a slow and busy machine needs in 30


def until(condition, what, seconds=SECONDS):
    """The first true value of condition(); `what` is the text of the failure, or makes it."""
    end = time.monotonic() + seconds
    pause = 0.002
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain: {what() if callable(what) else what}")
        time.sleep(pause)
        pause = min(1.2 * pause, 0.02)  # who asks all the time takes the processor from those it waits for

"""Batching: several requests of a model in one call of its handler."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

from .errors import DeclarationError, check_flag, check_int, is_int

__all__ = ["Batching"]

MAX_BATCH = 65535
MAX_WAIT_MS = 60000
MAX_PREFERRED = 16


class Batching:
    """How requests of a model are batched, for ``app.model(..., batching=Batching(32))``.

    Declared shapes are those of one item; in requests the first dimension is the number of items.
    Requests that arrive while the model is busy share its next call. A request does not wait while
    the model is free, unless ``max_wait_ms`` is set.

    max_batch_size: most items in one call, 1-65535.
    max_wait_ms: how long a request may wait for others while the model is free; less if its deadline
        could not be met otherwise.
    preferred_sizes: at most 16 sizes that suit the model. A call has the largest of them for which
        there are items; once there are enough items for the smallest, requests wait no longer.
    ragged: requests may share a call even if their other dimensions differ. Implies as_list.
    as_list: for each input the handler gets a list with an array for each request, instead of one
        array with the items of all requests.
    """

    __slots__ = ("max_batch_size", "max_wait_ms", "preferred_sizes", "ragged", "as_list")

    max_batch_size: int
    max_wait_ms: float
    preferred_sizes: Tuple[int, ...]
    ragged: bool
    as_list: bool

    def __init__(
        self,
        max_batch_size: int,
        max_wait_ms: float = 0,
        preferred_sizes: Optional[Sequence[int]] = None,
        ragged: bool = False,
        as_list: bool = False,
    ) -> None:
        self.max_batch_size = check_int(max_batch_size, "max_batch_size", 1, MAX_BATCH)
        if not (is_int(max_wait_ms) or isinstance(max_wait_ms, float)) or not (
            0 <= max_wait_ms <= MAX_WAIT_MS
        ):
            raise DeclarationError(
                "max_wait_ms is a number from 0 to %d, not %r" % (MAX_WAIT_MS, max_wait_ms)
            )
        check_flag(ragged, "ragged")
        check_flag(as_list, "as_list")
        self.max_wait_ms = max_wait_ms
        self.preferred_sizes = self._check_sizes(preferred_sizes)
        self.ragged = ragged
        self.as_list = as_list or ragged

    def _check_sizes(self, sizes: Optional[Sequence[int]]) -> Tuple[int, ...]:
        if sizes is None:
            return ()
        try:
            found = set(sizes)
        except TypeError:
            raise DeclarationError("preferred_sizes is a list of sizes, not %r" % (sizes,)) from None
        for size in found:
            if not is_int(size) or not 1 <= size <= self.max_batch_size:
                raise DeclarationError(
                    "preferred_sizes are integers from 1 to max_batch_size (%d), not %r"
                    % (self.max_batch_size, size)
                )
        if len(found) > MAX_PREFERRED:
            raise DeclarationError("there are at most %d preferred_sizes" % MAX_PREFERRED)
        return tuple(sorted(found))

    def __repr__(self) -> str:
        text = "Batching(%d, max_wait_ms=%g" % (self.max_batch_size, self.max_wait_ms)
        if self.preferred_sizes:
            text += ", preferred_sizes=%r" % (list(self.preferred_sizes),)
        if self.ragged:
            text += ", ragged=True"
        elif self.as_list:
            text += ", as_list=True"
        return text + ")"

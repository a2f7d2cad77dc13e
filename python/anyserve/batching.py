"""Several requests in one call: declared for a model, or inside a replica."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

from .errors import DeclarationError

__all__ = ["Batching"]

MAX_BATCH = 65535
MAX_WAIT_MS = 60000
MAX_PREFERRED = 16


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class Batching:
    """How requests of a model are put together, for ``app.model(..., batching=Batching(32))``.

    The declared shapes are of one item; requests carry the number of items as the first dimension.
    Requests that come while the model is busy share its next call; nobody waits while it is free,
    unless ``max_wait_ms`` says so.

    max_batch_size: items of one call, 1-65535.
    max_wait_ms: a request may wait so long for others while the model is free; never so long that
        its deadline could not be met.
    preferred_sizes: sizes that the model is best at, at most 16. A call has the largest of them that
        is there; as many as the smallest wait no longer.
    ragged: requests whose further dimensions differ may share a call too. Implies as_list.
    as_list: the handler gets a list of arrays for each input, one for each request, instead of one
        array with the items of all.
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
        if not _is_int(max_batch_size) or not 1 <= max_batch_size <= MAX_BATCH:
            raise DeclarationError(
                "max_batch_size is an integer from 1 to %d, not %r" % (MAX_BATCH, max_batch_size)
            )
        if not (_is_int(max_wait_ms) or isinstance(max_wait_ms, float)) or not (
            0 <= max_wait_ms <= MAX_WAIT_MS
        ):
            raise DeclarationError(
                "max_wait_ms is a number from 0 to %d, not %r" % (MAX_WAIT_MS, max_wait_ms)
            )
        for value, what in ((ragged, "ragged"), (as_list, "as_list")):
            if not isinstance(value, bool):
                raise DeclarationError("%s is True or False, not %r" % (what, value))
        self.max_batch_size = max_batch_size
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
            if not _is_int(size) or not 1 <= size <= self.max_batch_size:
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

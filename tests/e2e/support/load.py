"""Load in the background: threads that call in a loop, and what came of each call."""

import collections
import threading

import grpc

from . import wait
from .protocol import oip


class Load:
    """`with Load(address, call, threads) as load:` … load.outcomes afterwards.

    call(client, n) → anything; a wrong answer raises AssertionError. An outcome is "OK" or the name of the gRPC status.
    """

    def __init__(self, address, call, threads=8, max_calls=None, options=()):
        self.outcomes = collections.Counter()
        self.errors = []  # RpcErrors
        self.wrong = []  # exceptions that are no RpcError
        self._call, self._address, self._left = call, address, max_calls
        self._options = options  # of the channels
        self._stop = threading.Event()
        self._news = threading.Condition()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        self._next = 0

    def _take(self):
        with self._news:
            if self._stop.is_set() or self._next == self._left:
                return None
            self._next += 1
            return self._next

    def _run(self):
        with oip.Client(self._address, self._options) as client:
            while (n := self._take()) is not None:
                outcome = "OK"
                try:
                    self._call(client, n)
                except grpc.RpcError as e:
                    outcome = e.code().name
                    self.errors.append(e)
                except Exception as e:  # told to the test
                    outcome = "WRONG"
                    self.wrong.append(e)
                with self._news:
                    self.outcomes[outcome] += 1
                    self._news.notify_all()

    def count(self, outcome="OK"):
        return self.outcomes[outcome]

    def wait_more(self, n, outcome="OK"):
        """Until n more calls ended like this."""
        with self._news:
            target = self.outcomes[outcome] + n
            assert self._news.wait_for(lambda: self.outcomes[outcome] >= target, wait.SECONDS), \
                f"no {n} more {outcome}: {dict(self.outcomes)}"

    def __enter__(self):
        for t in self._threads:
            t.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for t in self._threads:
            t.join(2 * oip.SECONDS)
        assert not any(t.is_alive() for t in self._threads)
        assert not self.wrong, self.wrong[0]

"""What the test_chaos_* files share: the parts of `make chaos`, which live in tests/chaos."""

import contextlib
import sys

from support import paths

sys.path.insert(0, str(paths.ROOT / "tests/chaos"))

import rig  # noqa: E402


@contextlib.contextmanager
def loaded(server, protocol="grpc", model="nap", rate=100, timeout=30, retry=0, transparent=False, ca=None):
    """Load for as long as the block runs; what it yields has `outcome` afterwards."""
    with rig.loaded(server, protocol=protocol, model=model, rate=rate, timeout=timeout, retry=retry, transparent=transparent,
                    ca=ca) as result:
        yield result
    assert len(result.outcome.rows) > 0

"""Writes a line for each process that has made its handler, and says which replica answers.

SPARED_EARLY: it looks at its replica context while it is imported. SPARED_MOST: so many processes can be made, the
next one fails.
"""

import os

import numpy as np
from anyserve import AnyServe, get_replica_context

JOURNAL = os.environ["SPARED_JOURNAL"]
app = AnyServe()
early = None
if os.environ.get("SPARED_EARLY"):
    try:
        early = get_replica_context()
    except RuntimeError:  # it is only described
        pass


@app.model("who", idempotent=True)
class Who:
    def __init__(self):
        with open(JOURNAL, "a+") as f:
            f.write(f"{os.getpid()}\n")
            f.seek(0)
            if len(f.readlines()) > int(os.environ.get("SPARED_MOST", "1000")):
                raise RuntimeError("one too many")

    def __call__(self):
        c = get_replica_context()
        assert early in (None, c)
        assert "ANYSERVE_SPARE" not in os.environ and "ANYSERVE_TOKEN" not in os.environ
        return {"pid": np.array([os.getpid()]), "rank": np.array([c.rank]),
                "replica": np.array([c.replica, os.environ["ANYSERVE_REPLICA"]], dtype=object)}

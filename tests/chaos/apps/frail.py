"""A model that cannot start while the file that CHAOS_FLAG names is there; deployed only beside others."""

import os

from anyserve import AnyServe

if os.path.exists(os.environ.get("CHAOS_FLAG", "")):
    raise RuntimeError("the file is there")

app = AnyServe()


@app.model("frail", idempotent=True)
def frail(x):
    return x

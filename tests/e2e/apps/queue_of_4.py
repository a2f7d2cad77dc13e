"""At most four requests wait."""

import cue
import numpy as np

from anyserve import AnyServe

app = AnyServe()


@app.model("staged", max_queued_requests=4)
def staged(request):
    cue.wait(request.id)
    return np.zeros(0)


@app.model("threaded", threads=3, deployment="threads")
def threaded(request):
    cue.wait(request.id)
    return np.zeros(0)

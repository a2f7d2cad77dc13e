"""The model of bench/noisy_tenant.py: each call waits for $SERVICE_MS on average, $SLOTS of them at once; tenants have equal shares.

$SERVICE_CV: the standard deviation of the wait divided by its mean, log-normal; 0: all are the same.
"""

import asyncio
import math
import os
import random

from anyserve import AnyServe

MEAN, CV = float(os.environ["SERVICE_MS"]) / 1000, float(os.environ["SERVICE_CV"])
SIGMA = math.sqrt(math.log1p(CV ** 2))

app = AnyServe()
app.deployment(max_ongoing_requests=int(os.environ["SLOTS"]), max_queued_requests=200, fairness=os.environ["FAIRNESS"])


@app.model("wait")
async def wait(request):
    await asyncio.sleep(random.lognormvariate(math.log(MEAN) - SIGMA ** 2 / 2, SIGMA))
    return request.inputs

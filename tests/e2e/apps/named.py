"""Each name in MODELS is a model that answers with its process: versions of a deployment that have different ones."""

import os

import numpy as np

import anyserve

app = anyserve.AnyServe()


def pid(x):
    return {"pid": np.array([os.getpid()])}


for name in os.environ["MODELS"].split(","):
    app.model(name, deployment="main")(pid)

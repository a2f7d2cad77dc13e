"""Prints what it gets."""

import os
import subprocess
import sys

import numpy as np

from anyserve import AnyServe

app = AnyServe()
print("module is imported")


@app.model("talk")
def talk(text):
    print("stdout says:", text[0].decode())
    print("stderr says:", text[0].decode(), file=sys.stderr)
    subprocess.run(["echo", "from a child process"], check=True)
    return text


@app.model("talk:2")
def talk_of_secrets(text):
    return np.array([k.encode() for k in os.environ if "TOKEN" in k and k.startswith("ANYSERVE")], object)

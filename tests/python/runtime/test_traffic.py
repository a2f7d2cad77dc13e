"""Canary, mirror and fallback as a replica sends them to the server."""

import json

import pytest
from fake import RECONFIGURE

BARE = "import numpy as np\nfrom anyserve import AnyServe\napp = AnyServe()\n@app.model('m')\ndef m(x):\n    return x\n"
ALL = BARE + "app.deployment(canary_percent=12.5, mirror_percent=0.001, fallback='other')\n"


def context(**options):
    return {"ANYSERVE_CONTEXT": json.dumps({"options": options})}


@pytest.mark.parametrize("source, told", [
    (ALL, (12500, 1, "other")),
    (BARE + "app.deployment(canary_percent=0)\n", (0, 0, "")),
    (BARE + "app.deployment(mirror_percent=100)\n", (None, 100_000, "")),
    (BARE, None),
])
def test_what_the_code_says_is_told_with_the_greeting(start, source, told):
    assert start(source).traffic == told


def test_what_the_server_says_counts(start):
    worker = start(ALL, env=context(canary_percent=1, fallback="third"))
    assert worker.traffic == (1000, 1, "third")


def test_it_changes_while_it_serves(start):
    worker = start(BARE)
    assert worker.control(RECONFIGURE, '{"options": {"canary_percent": 5}}') == ("OK", "")
    assert worker.traffic == (5000, 0, "")
    assert worker.control(RECONFIGURE, '{"options": {"fallback": "f"}}') == ("OK", "")
    assert worker.traffic == (None, 0, "f")  # what is not said any more is over: it was promoted
    code, why = worker.control(RECONFIGURE, '{"options": {"canary_percent": 101}}')
    assert code == "INVALID_ARGUMENT" and "canary_percent" in why
    assert worker.traffic == (None, 0, "f")


@pytest.mark.parametrize("options, why", [
    ("canary_percent=100.5", "canary_percent"), ("mirror_percent=-1", "mirror_percent"), ("fallback='a/b/c'", "fallback"),
    ("fallback=''", "fallback"), ("canary_percent='5'", "canary_percent"),
])
def test_bad_words_end_the_start(start, options, why):
    worker = start(BARE + f"app.deployment({options})\n", greet=False)
    assert worker.wait() == 78 and why in worker.output

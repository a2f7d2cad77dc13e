"""What wire/h1/h1 accepts, llhttp or h11 accept too, and all of them read the same.

`python tests/differ/test_h1.py --seconds 600 --seed 1` is the long run.
"""

import argparse
import random
import sys
import time

import pytest

from inputs import make
from parsers import FILTER, h11_, judge, llhttp, ours

COUNT = 4000


@pytest.fixture(scope="module", autouse=True)
def built():
    assert FILTER.exists(), f"{FILTER} does not exist: build first (ANYSERVE_BUILD names the build)"


def compare(inputs):
    """(faults, requests that we accepted, inputs that we found a fault in, and the others did not)."""
    faults, requests, stricter = [], 0, 0
    for data, mine in zip(inputs, ours(inputs)):
        others = {"llhttp": llhttp(data), "h11": h11_(data)}
        wrong = judge(data, mine, others)
        if wrong:
            faults.append((data, wrong))
        requests += len(mine.requests)
        stricter += mine.fault is not None and all(r.fault is None for r in others.values())
    return faults, requests, stricter


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_inputs(seed):
    rng = random.Random(seed)
    faults, requests, _ = compare([make(rng) for _ in range(COUNT)])
    assert requests > COUNT / 4, "the inputs are no test: nearly all are refused"
    assert not faults, "\n".join(f"{data!r}: {wrong}" for data, wrong in faults[:10])


@pytest.mark.parametrize("data", [
    b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX-A: b c \r\n\r\nhelloGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
], ids=["get", "post", "chunked", "old", "asterisk"])
def test_usual_requests_are_accepted_by_all(data):
    mine, others = ours([data])[0], {"llhttp": llhttp(data), "h11": h11_(data)}
    assert mine.requests and mine.fault is None
    for name, read in others.items():
        assert len(read.requests) == len(mine.requests), name
    assert judge(data, mine, others) is None


def test_the_judge_sees_what_we_alone_accept():
    data = b"GET / HTTP/1.1\r\nHost : h\r\n\r\n"
    mine = ours([b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"])[0]
    assert "alone" in judge(data, mine, {"llhttp": llhttp(data), "h11": h11_(data)})
    other = llhttp(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
    assert "differs" in judge(data, mine, {"llhttp": other})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", default=60, type=float)
    parser.add_argument("--seed", default=1, type=int)
    options = parser.parse_args()
    rng, until = random.Random(options.seed), time.monotonic() + options.seconds
    inputs = accepted = strict = wrong = 0
    while time.monotonic() < until:
        faults, requests, stricter = compare([make(rng) for _ in range(1000)])
        inputs, accepted, strict, wrong = inputs + 1000, accepted + requests, strict + stricter, wrong + len(faults)
        for data, why in faults[:5]:
            print(f"{data!r}: {why}")
    print(f"seed {options.seed}: {inputs} inputs, {accepted} requests accepted, {strict} refused by us alone, {wrong} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Large bodies in bounded memory, and clients that upload slowly beside others that do not notice them."""

import contextlib
import hashlib
import resource

import pytest
from support.process.memory import Peak

MIB = 1 << 20
PIECE = bytes(i * 7 & 255 for i in range(256)) * 256


@pytest.fixture
def peaks(web):
    """Of the dispatcher and the replica. The first request of the test before it has made what stays."""
    web.get("/web/count", "PUT", b"x" * MIB)
    return [Peak("dispatcher", web.dispatcher), Peak("replica", web.get("/web/info").json()["pid"])]


def test_a_large_upload_in_bounded_memory(web, peaks):
    n = 100 * MIB
    with contextlib.closing(web.begin("PUT", "/web/count", [("content-length", str(n))])) as c:
        for _ in range(n // len(PIECE)):
            c.send(PIECE)
        got = c.getresponse().read()
    assert b'"n": %d,' % n in got and hashlib.sha256(PIECE * (n // len(PIECE))).hexdigest().encode() in got
    for peak in peaks:
        peak.check()


def test_a_large_answer_in_bounded_memory(web, peaks):
    n = 100 * MIB
    digest = hashlib.sha256()
    with contextlib.closing(web.begin("GET", f"/web/stream?n={n // len(PIECE)}&size={len(PIECE)}")) as c:
        answer = c.getresponse()
        while piece := answer.read(MIB):
            digest.update(piece)
    assert digest.digest() == hashlib.sha256(PIECE * (n // len(PIECE))).digest()
    for peak in peaks:
        peak.check()


def test_a_thousand_half_open_uploads_beside_healthy_requests(web):
    """The deployment has one slot and one place in its queue: an upload that has not come holds neither."""
    most = 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, most + 500) if soft < most + 500 else soft, hard))
    try:
        with contextlib.ExitStack() as stack:
            uploads = []
            for _ in range(most):
                uploads.append(stack.enter_context(contextlib.closing(web.begin("POST", "/narrow/count", [("content-length", "900")]))))
                uploads[-1].send(b"x")
            for _ in range(50):
                assert web.get("/narrow/info").status == 200
            for c in uploads:  # each is still there
                c.send(b"x" * 899)
                answer = c.getresponse()
                assert answer.status == 200 and b'"n": 900,' in answer.read()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_slow_uploads_beside_healthy_requests(web):
    """Two that send a byte between any two requests of others: one below --ingress-buffer, one whose handler has begun."""
    lengths = 900, 5000
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(contextlib.closing(web.begin("POST", f"/web/count?name=slow-{n}", [("content-length", str(n))])))
                for n in lengths]  # fmt: skip
        slow[1].send(b"x" * 4000)
        web.wait_logged("slow-5000 began")
        for i in range(300):
            for c in slow:
                c.send(b"x")
            body = b"%d" % i
            answer = web.get("/web/echo", "POST", body)
            assert (answer.status, answer.data) == (200, body)
        assert "slow-900 began" not in web.logged()
        for c, left in zip(slow, (600, 700)):
            c.send(b"x" * left)
        for c, n in zip(slow, lengths):
            assert b'"n": %d,' % n in c.getresponse().read()

"""A deployment in Python that caller.c calls: bytes come, bytes go."""

from anyserve import serve


@serve.deployment
class Words:
    def __call__(self, text: bytes) -> bytes:
        return str(len(text.split())).encode()


app = Words.bind()
